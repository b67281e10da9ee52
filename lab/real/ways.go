package real

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// report has a reader vote on a mail in the reader's way. The error is a refusal if the node was
// asked in good order and took no vote.
func (p *process) report(ctx context.Context, way Way, user string, m *Mail, original []byte,
	vote bulkhead.Vote) error {
	switch way {
	case Dovecot:
		script := filepath.Join(p.dir, "root/etc/dovecot/bulkhead/pipe/bulkhead-vote")
		_, err := output(exec.CommandContext(ctx, script, vote.String(), user), original)
		return err
	case Command:
		_, err := p.run(ctx, original, "report", "--server", p.http, "--vote", vote.String(), "--user", user, "-")
		return err
	case LearnRspamd, LearnSpamd:
		// The plugins make the same request when they learn, with "user" switched on.
		q := url.Values{"vote": {vote.String()}, "user": {user}}
		_, err := p.post(ctx, "/v1/report?"+q.Encode(), "message/rfc822", original)
		return err
	case Page:
		return p.administer(ctx, "/v1/reports", map[string]string{"message_id": m.MessageID, "vote": vote.String(),
			"user": user}, nil)
	case PyzorReport:
		return p.reportPyzor(ctx, user, original, vote)
	case Maildir:
		return p.reportMaildir(ctx, user, m, original, vote)
	}
	return p.reportByMail(ctx, way, user, m, original, vote)
}

// abuseAddressFor returns the address to which mail is sent that says this.
func abuseAddressFor(vote bulkhead.Vote) string {
	if vote == bulkhead.Ham {
		return abuseHamAddress
	}
	return abuseAddress
}

// reportByMail submits a mail to the abuse address through the mail server, whose milter takes
// the vote and discards the mail.
func (p *process) reportByMail(ctx context.Context, way Way, user string, m *Mail, original []byte,
	vote bulkhead.Vote) error {
	to := abuseAddressFor(vote)
	mail := &Mail{
		Raw: forward(way, m, original, to), Client: netip.AddrFrom4([4]byte{33, 0, 0, 9}), Helo: "[192.168.1.20]",
		Sender: user, Recipient: to,
	}
	_, err := p.askMilter(ctx, mail, user)
	if errors.Is(err, errDiscarded) {
		return nil
	}
	if err == nil {
		err = errors.New("real: mail to the abuse address was taken for other mail")
	}
	return err
}

// reportMaildir puts a mail into the Maildir of "bulkhead abuse", as the mail server delivers
// it, and runs the command over it.
func (p *process) reportMaildir(ctx context.Context, user string, m *Mail, original []byte, vote bulkhead.Vote) error {
	flag, dir := "--maildir", filepath.Join(p.dir, "spam")
	if vote == bulkhead.Ham {
		flag, dir = "--ham", filepath.Join(p.dir, "notspam")
	}
	for _, sub := range []string{"new", "cur", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	head := fmt.Sprintf("Received: from [192.168.1.20] (home.example [33.0.0.9])\r\n\t(Authenticated sender: %s)\r\n"+
		"\tby %s (Postfix) with ESMTPSA id 4XvQ2z2\r\n\tfor <%s>; %s\r\n",
		user, resultsHost, abuseAddressFor(vote), m.Date)
	mail := append([]byte(head), forward(Thunderbird, m, original, abuseAddressFor(vote))...)
	p.maildir++
	if err := os.WriteFile(filepath.Join(dir, "new", fmt.Sprintf("%d.real", p.maildir)), mail, 0o600); err != nil {
		return err
	}
	out, err := p.run(ctx, nil, "abuse", "--once", "--json", "--server", p.http, "--host", resultsHost, flag, dir)
	if err != nil {
		return err
	}
	var total struct{ Mails, Messages, Refused int }
	if err := json.Unmarshal([]byte(out), &total); err != nil {
		return fmt.Errorf("real: bulkhead abuse prints %.200q: %w", out, err)
	}
	if total.Messages == 0 {
		return refusal{errors.New("bulkhead abuse has reported nothing")}
	}
	return nil
}

// pyzorKey is the key of all Pyzor accounts.
const pyzorKey = "0123456789abcdef0123456789abcdef01234567"

// addPyzorUser makes an account for a reader.
func (p *process) addPyzorUser(ctx context.Context, user string) error {
	if _, err := p.run(ctx, nil, "user", "add", pyzorName(user), "--role", "trusted", "--server", p.http, "--data",
		p.data()); err != nil {
		return err
	}
	_, err := p.run(ctx, []byte(pyzorKey+"\n"), "user", "passwd", pyzorName(user), "--protocol", "pyzor", "--server",
		p.http, "--data", p.data())
	return err
}

// pyzorName returns the account of a reader. Readers of several sites may have the same local part.
func pyzorName(user string) string { return "pyzor-" + strings.ReplaceAll(user, "@", "-") }

// reportPyzor sends the request of the pyzor command, with the digest that the node computes.
func (p *process) reportPyzor(ctx context.Context, user string, original []byte, vote bulkhead.Vote) error {
	answer, err := p.post(ctx, "/v1/signatures", "message/rfc822", original)
	if err != nil {
		return err
	}
	var of struct{ Signatures []string }
	if err := json.Unmarshal(answer, &of); err != nil {
		return err
	}
	digest := ""
	for _, s := range of.Signatures {
		if hex, ok := strings.CutPrefix(s, "pyzor/digest:"); ok {
			digest = hex
		}
	}
	if digest == "" {
		return refusal{errors.New("the mail has no Pyzor digest")}
	}
	op := "report"
	if vote == bulkhead.Ham {
		op = "whitelist"
	}
	name, key := pyzorName(user), pyzorKey
	if p.edge { // which has no accounts
		name, key = "anonymous", ""
	}
	reply, err := exchangeDatagram(ctx, p.pyzor, pyzorRequest(op, digest, name, key, time.Now()))
	if err != nil {
		return err
	}
	switch {
	case bytes.Contains(reply, []byte("Code: 200")):
		return nil
	case bytes.Contains(reply, []byte("Code: 403")): // anonymous clients may not object
		return refusal{fmt.Errorf("pyzor answers %.200q", reply)}
	}
	return fmt.Errorf("real: pyzor answers %.200q", reply)
}

// pyzorRequest returns a signed request of version 2.1.
//
// Source: docs/specs/pyzor.md#signatures.
func pyzorRequest(op, digest, user, key string, now time.Time) []byte {
	text := fmt.Sprintf("Op: %s\nOp-Digest: %s\nOp-Spec: 20,3,60,3\nThread: %d\nPV: 2.1\nUser: %s\nTime: %d",
		op, digest, 1024+now.Nanosecond()%60_000, user, now.Unix())
	secret := sha1.Sum([]byte(user + ":" + key))
	sum := sha1.Sum([]byte(text))
	signed := sha1.Sum([]byte(string(sum[:]) + ":" + fmt.Sprint(now.Unix()) + ":" + hex.EncodeToString(secret[:])))
	return []byte(text + "\nSig: " + hex.EncodeToString(signed[:]) + "\n\n")
}

// exchangeDatagram sends a datagram, and returns the answer.
func exchangeDatagram(ctx context.Context, address string, request []byte) ([]byte, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	buf := make([]byte, 8192)
	n, err := conn.Read(buf)
	return buf[:n], err
}

// setUpDovecot has "bulkhead setup" write the scripts for Dovecot into a folder that stands for
// the root, and has the script call this program.
func (p *process) setUpDovecot(ctx context.Context) error {
	root := filepath.Join(p.dir, "root")
	for name, text := range map[string]string{
		"etc/dovecot/dovecot.conf":                           "!include conf.d/*.conf\n",
		"usr/lib/dovecot/modules/lib95_imap_sieve_plugin.so": "",
		"etc/bulkhead/bulkhead.toml": fmt.Sprintf("[listen]\nhttp = %q\n",
			strings.TrimPrefix(p.http, "http://")),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if _, err := p.run(ctx, nil, "setup", "--root", root, "--for", "dovecot", "--yes"); err != nil {
		return err
	}
	script := filepath.Join(root, "etc/dovecot/bulkhead/pipe/bulkhead-vote")
	text, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	here := bytes.ReplaceAll(text, []byte("/usr/bin/bulkhead"), []byte(p.program))
	if bytes.Equal(here, text) {
		return fmt.Errorf("real: the script for Dovecot does not call /usr/bin/bulkhead:\n%s", text)
	}
	return os.WriteFile(script, here, 0o755)
}
