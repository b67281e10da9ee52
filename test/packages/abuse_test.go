//go:build interop

package packages

import (
	"runtime"
	"testing"
)

// TestAbuseService: the service for an abuse mailbox waits to be enabled, systemd understands
// its unit, and what it runs turns mail in the mailbox into a vote, with the options of
// /etc/bulkhead/abuse.env.
func TestAbuseService(t *testing.T) {
	m := newMachine(t)
	m.put("first.deb", dist(t, "bulkhead_*_"+runtime.GOARCH+".deb"))
	m.must("dpkg -i /tmp/first.deb", "")
	m.must("test ! -e /etc/systemd/system/multi-user.target.wants/bulkhead-abuse.service", "")
	m.must(
		"systemd-analyze verify --man=no --recursive-errors=no /lib/systemd/system/bulkhead-abuse.service 2>&1 | grep "+
			"bulkhead-abuse && exit 1; exit 0", "")
	m.node()
	m.must(`install -d -o bulkhead -g bulkhead /var/mail/spam /var/mail/spam/new /var/mail/spam/cur /var/mail/spam/tmp
cat >/var/mail/spam/new/1 <<X
Authentication-Results: mx.example.com; auth=pass smtp.auth=ann
From: ann@example.com
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: message/rfc822

From: a@example.net
Subject: x

The minutes of the meeting of the garden club, and the names of all who came to it.

--b--
X
chown bulkhead /var/mail/spam/new/1
sed -i 's|^#BULKHEAD_ABUSE=.*|BULKHEAD_ABUSE="--maildir /var/mail/spam --host mx.example.com"|' /etc/bulkhead/abuse.env`, "")
	m.must(`. /etc/bulkhead/abuse.env
unit=/lib/systemd/system/bulkhead-abuse.service
eval "set -- $(sed -n 's/^ExecStart=//p' $unit)"
chroot --userspec="$(sed -n 's/^User=//p' $unit)" / "$@" --once`, "1 messages of 1 mails reported")
	m.must(
		`printf 'From: a@example.net\nSubject: x\n\nThe minutes of the meeting of the garden club, and the names of all who came to it.\n' >/tmp/m.eml
bulkhead check /tmp/m.eml && exit 1; [ $? = 1 ]`, "")
}
