//go:build interop

package packages

import (
	"runtime"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// nextSpec makes the next version of the rpm: the same files and scripts under a higher
// version, with another comment in the configuration.
const nextSpec = `mkdir -p /tmp/next/root /tmp/next/SPECS
(cd /tmp/next/root && rpm2cpio /tmp/first.rpm | cpio -idm --quiet --no-absolute-filenames)
echo '# of the next version' >>/tmp/next/root/etc/bulkhead/bulkhead.toml
script() { rpm -qp --queryformat "%{$1}" /tmp/first.rpm; }
cat >/tmp/next/SPECS/bulkhead.spec <<X
Name: bulkhead
Version: 99.0
Release: 1
Summary: next
License: MIT
AutoReqProv: no
%global __os_install_post %{nil}
%description
next
%install
cp -a /tmp/next/root/. %{buildroot}
%post
$(script POSTIN)
%preun
$(script PREUN)
%postun
$(script POSTUN)
%files
$(cd /tmp/next/root && find . -type f ! -path './etc/*' | sed 's/^\.//')
%config(noreplace) /etc/bulkhead/bulkhead.toml
%config(noreplace) /etc/bulkhead/abuse.env
X
rpmbuild -bb --quiet --define '_binary_payload w1.gzdio' --define '_topdir /tmp/next' --define '_rpmdir /tmp/next' /tmp/next/SPECS/bulkhead.spec
mv /tmp/next/*/bulkhead-99.0-1.*.rpm /tmp/next.rpm`

// TestRPM goes through the life of the rpm on one machine, whose programs are Debian's: rpm
// knows none of them as packages, so what it depends on is compared with what it should.
func TestRPM(t *testing.T) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	file := dist(t, "bulkhead-*."+arch+".rpm")
	nodetest.Program(t, "rpm")
	m := newMachine(t)
	m.put("first.rpm", file)
	m.must("rpm --initdb", "")
	for requirement := range strings.Lines(m.must("rpm -qp --requires /tmp/first.rpm", "/usr/sbin/useradd")) {
		if r := strings.TrimSpace(requirement); r != "/usr/sbin/useradd" && r != "/bin/sh" &&
			!strings.HasPrefix(r, "rpmlib(") && !strings.HasPrefix(r, "config(bulkhead)") {
			t.Errorf("it requires %s", r)
		}
	}
	m.must("rpm -K --nosignature /tmp/first.rpm", "OK")
	const rpm = "rpm --force-debian --nodeps "
	m.must(rpm+"-i /tmp/first.rpm", "")
	m.must("rpm -q bulkhead", "bulkhead-")
	m.must("getent passwd bulkhead", "/var/lib/bulkhead")
	m.must("stat -c '%a %U:%G' /etc/bulkhead/bulkhead.toml", "640 root:bulkhead")
	m.must("stat -c '%a %U:%G' /var/spool/bulkhead", "1777 root:root")
	m.must("rpm -V --nodeps --nomode --nogroup bulkhead", "")
	m.must(
		"ls /usr/lib/systemd/system/bulkhead.service /usr/lib/systemd/system/bulkhead-abuse.service "+
			"/usr/share/zsh/site-functions/_bulkhead /usr/share/licenses/bulkhead/LICENSE "+
			"/usr/share/man/man1/bulkhead-doctor.1.gz", "")
	m.must("test ! -e /etc/systemd/system/multi-user.target.wants/bulkhead-abuse.service", "")
	if out := m.must(serves, "check: 1"); !strings.Contains(out, "newly listed") {
		t.Errorf("the installed node: %s", out)
	}

	// An upgrade keeps what the administrator has changed, and what was reported.
	m.must(`echo '[limits]
requests_per_second = 77' >>/etc/bulkhead/bulkhead.toml`, "")
	m.must(nextSpec, "")
	m.must(rpm+"-U /tmp/next.rpm", "")
	m.must("rpm -q bulkhead", "bulkhead-99.0-1")
	m.must(
		"grep -c 'requests_per_second = 77' /etc/bulkhead/bulkhead.toml; stat -c '%a %U:%G' /etc/bulkhead/bulkhead.toml",
		"640 root:bulkhead")
	m.must("cat /etc/bulkhead/bulkhead.toml.rpmnew", "of the next version")
	if out := m.must(serves, "check: 1"); strings.Contains(out, "newly listed") {
		t.Errorf("the upgraded node has forgotten: %s", out)
	}

	// Removed, it leaves the changed configuration and the data. rpm knows no purge.
	m.must(rpm+"-e bulkhead", "")
	m.must(
		"test ! -e /usr/bin/bulkhead; test ! -e /usr/lib/systemd/system/bulkhead.service; test -f "+
			"/etc/bulkhead/bulkhead.toml.rpmsave; test -d /var/lib/bulkhead/store; test ! -e /var/spool/bulkhead", "")
	m.must(rpm+"-i /tmp/first.rpm", "")
	m.must(serves, "check: 1")
}
