//go:build interop

package fuzzydcc

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// dccifdTalk asks the dccifd at address about a message for one recipient.
func dccifdTalk(t *testing.T, address, options, message string) string {
	t.Helper()
	return dccifdRaw(t, address, options+"\n192.0.2.7\nmail.garden.example\nida@garden.example\nreader@farm.example\n\n"+
		message)
}

func dccifdRaw(t *testing.T, address, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(nodetest.Patience))
	reply, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(reply)
}

// TestEximDCC: the condition "dcc" of an Exim ACL. Packages without it (all of
// Debian's) are stood in for by a client that does what the condition does.
func TestEximDCC(t *testing.T) {
	exim := nodetest.Program(t, "exim4")
	nodetest.NeedUsers(t) // Exim becomes the user of its mail
	version, err := exec.Command(exim, "-C", "/dev/null", "-bV").CombinedOutput()
	if err != nil {
		t.Fatalf("exim4 -bV: %v\n%s", err, version)
	}
	address := startDccifd(t, "thresholds = [\"CMN,many\"]\n")
	ask := eximCondition
	if bytes.Contains(version, []byte("DCC")) {
		ask = func(t *testing.T, address, message string) (string, string) {
			return eximACL(t, exim, address, message)
		}
	}
	message := mail("ferry", "9", ferryText)
	letter, header := ask(t, address, message)
	if letter != "A" || !strings.Contains(header, "Body=1") {
		t.Errorf("first mail: %s, %q", letter, header)
	}
	dccifdTalk(t, address, "header spam", message)
	letter, header = ask(t, address, message)
	if letter != "R" || !strings.Contains(header, "bulk Body=many") {
		t.Errorf("after a report of spam: %s, %q", letter, header)
	}
}

// eximCondition asks as docs/specs/dcc.md#dccifd-clients says Exim's condition does, and
// reads the answer by its rules.
func eximCondition(t *testing.T, address, message string) (letter, header string) {
	t.Helper()
	reply := dccifdRaw(t, address, "header\n192.0.2.7\nHELO localhost\nida@garden.example\nreader@farm.example\n\n"+
		message)
	lines := strings.SplitN(reply, "\n", 3)
	if len(lines) != 3 || len(lines[0]) != 1 {
		t.Fatalf("reply %q: the first line must be one letter", reply)
	}
	header = strings.TrimSuffix(lines[2], "\n\n")
	if !strings.HasPrefix(header, "X-DCC") {
		t.Fatalf("reply %q: the rest must begin with X-DCC", reply)
	}
	return lines[0], header[:min(len(header), 120)]
}

// eximACL runs a message through an Exim whose data ACL has the condition.
func eximACL(t *testing.T, exim, address, message string) (letter, header string) {
	t.Helper()
	dir := t.TempDir()
	host, port, _ := net.SplitHostPort(address)
	config := fmt.Sprintf(
		"spool_directory = %s\nlog_file_path = %s/%%slog\ndccifd_address = %s %s\nacl_smtp_data = data\n"+
			"acl_smtp_rcpt = accept\nbegin acl\ndata:\n"+
			"  deny !dcc = *\n       message = R $dcc_header\n  accept message = A $dcc_header\nbegin routers\n"+
			"begin transports\n", dir, dir, host, port)
	file := filepath.Join(dir, "exim.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exim, "-C", file, "-bh", "192.0.2.7")
	cmd.Stdin = strings.NewReader(
		"HELO mail.garden.example\r\nMAIL FROM:<ida@garden.example>\r\nRCPT TO:<reader@farm.example>\r\nDATA\r\n" +
			strings.ReplaceAll(message, "\n", "\r\n") + ".\r\nQUIT\r\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("exim4 -bh: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		for _, l := range []string{"A", "R"} {
			if _, header, ok := strings.Cut(line, l+" X-DCC"); ok {
				return l, "X-DCC" + header
			}
		}
	}
	t.Fatalf("no verdict:\n%s", out)
	return "", ""
}
