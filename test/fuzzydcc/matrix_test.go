//go:build interop

package fuzzydcc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/testing/matrix"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestMatrix: the matrix of docs/doors.md with the real clients: the commands of Razor and
// Pyzor, rspamd's fuzzy_check, and rspamd and SpamAssassin at dccifd. DCC's own commands are
// in no package: what unlearns is a client of ours.
func TestMatrix(t *testing.T) { newMatrix(t).Copies(t) }

func TestMatrixUnlearns(t *testing.T) { newMatrix(t).Unlearns(t) }

func newMatrix(t *testing.T) *matrix.Matrix {
	web, razor, pyzor, dccd, ifd := nodetest.Address(t), nodetest.Address(t), nodetest.Address(t), nodetest.Address(t),
		nodetest.Address(t)
	port := nodetest.FreePort(t)
	startNode(t, fmt.Sprintf(`
[listen]
http = %q
razor2 = %q
pyzor = %q
dcc = %q
dccifd = %q
fuzzy = "127.0.0.1:%d"
[http]
anonymous_report = "loopback"
[limits]
requests_per_second = 0
[pyzor]
anonymous = ["check", "report", "whitelist"]
[[dcc.clients]]
id = 1000
password = "secret"
[dccifd]
verify = false
thresholds = ["CMN,many"]
`, web, razor, pyzor, dccd, ifd, port))
	for _, address := range []string{web, razor, ifd, fmt.Sprintf("127.0.0.1:%d", port)} {
		nodetest.AwaitTCP(t, address)
	}
	r := startRspamd(t, "fuzzy_check", fuzzyModule(port, "")+fmt.Sprintf(`
modules { path = "/usr/share/rspamd/plugins/dcc.lua"; }
dcc { enabled = true; servers = "%s"; timeout = 50s; body_max = 999999; fuz1_max = 999999; }`, ifd))
	return &matrix.Matrix{Slow: true, Doors: []matrix.Door{
		httpClient(t, admin.New("http://"+web, "")), razorCommands(t, razor), pyzorCommand(t, pyzor),
		dccClients(t, r, ifd, dccd), fuzzyCheck(r),
	}}
}

func httpClient(t *testing.T, c *admin.Client) matrix.Door {
	vote := func(v bulkhead.Vote) func([]byte) error {
		return func(raw []byte) error {
			_, err := c.ReportMessage(t.Context(), raw, client.MessageOptions{Vote: v})
			return err
		}
	}
	return matrix.Door{Name: "HTTP", Report: vote(bulkhead.Spam), Unlearn: vote(bulkhead.Revocation),
		Known: func(raw []byte) (matrix.Word, error) {
			v, err := c.CheckMessage(t.Context(), raw, client.MessageOptions{})
			if err == nil && (v.Class == "spam" || v.Class == "suspected") {
				return matrix.Word(v.Class), nil
			}
			return matrix.Unknown, err
		}}
}

func razorCommands(t *testing.T, server string) matrix.Door {
	dir := t.TempDir()
	run := func(raw []byte, name string, args ...string) (int, error) {
		file := filepath.Join(dir, "mail")
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			return 0, err
		}
		code, out := nodetest.Command(t, "", name,
			append([]string{"-home=" + dir, "-rs=" + server}, append(args, file)...)...)
		if code != 0 && (name != "razor-check" || code != 1) {
			return code, fmt.Errorf("%s: exit %d: %s", name, code, out)
		}
		return code, nil
	}
	if code, out := nodetest.Command(t, "", "razor-admin", "-home="+dir, "-rs="+server, "-register", "-user=ana",
		"-pass=s3cret"); code != 0 {
		t.Fatalf("razor-admin: exit %d: %s", code, out)
	}
	vote := func(name string) func([]byte) error {
		return func(raw []byte) error { _, err := run(raw, name, "-f"); return err }
	}
	return matrix.Door{Name: "Razor", Report: vote("razor-report"), Unlearn: vote("razor-revoke"),
		Known: func(raw []byte) (matrix.Word, error) {
			// The command says spam from min_confidence on, which "suspected" reaches.
			if code, err := run(raw, "razor-check"); err != nil || code == 1 {
				return matrix.Unknown, err
			}
			return matrix.Spam, nil
		}}
}

func pyzorCommand(t *testing.T, server string) matrix.Door {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "servers"), []byte(server+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(raw []byte, op string) (string, error) {
		code, out := nodetest.Command(t, string(raw), "pyzor", "--homedir", dir, "--timeout=60", op)
		if !strings.Contains(out, "(200, 'OK')") || code != 0 && op != "check" {
			return "", fmt.Errorf("pyzor %s: exit %d: %s", op, code, out)
		}
		return out, nil
	}
	vote := func(op string) func([]byte) error {
		return func(raw []byte) error { _, err := run(raw, op); return err }
	}
	return matrix.Door{Name: "Pyzor", Report: vote("report"), Unlearn: vote("whitelist"),
		Known: func(raw []byte) (matrix.Word, error) {
			out, err := run(raw, "check")
			fields := strings.Fields(out)
			if err != nil || len(fields) < 2 {
				return matrix.Unknown, err
			}
			count, err := strconv.Atoi(fields[len(fields)-2])
			switch {
			case err != nil || count == 0 || fields[len(fields)-1] != "0":
				return matrix.Unknown, err
			case count < 5:
				return matrix.Suspected, nil
			}
			return matrix.Spam, nil // also by SpamAssassin's default
		}}
}

func dccClients(t *testing.T, r *rspamd, ifd, server string) matrix.Door {
	report := spamassassinDCC(t, ifd)
	c, err := dcc.Dial(t.Context(), server, &dcc.Options{ID: 1000, Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return matrix.Door{Name: "dccifd", Report: func(raw []byte) error {
		if code, out := report(string(raw), "-r"); code != 0 {
			return fmt.Errorf("spamassassin -r: exit %d: %s", code, out)
		}
		return nil
	}, Unlearn: func(raw []byte) error {
		sums, err := dccsum.Sums(t.Context(), raw, dccsum.Options{Rules: dccsum.Rules2})
		for _, s := range sums {
			if s.Type == dccsum.TypeBody || s.Type == dccsum.TypeFuz1 {
				gone := dcc.ErrNoAnswer
				for range 5 { // the client gives up after some seconds, in which a busy machine may not answer
					if gone = c.Delete(t.Context(), dcc.Checksum{Type: s.Type, Sum: s.Sum}); !errors.Is(gone, dcc.ErrNoAnswer) {
						break
					}
				}
				err = errors.Join(err, gone)
			}
		}
		return err
	}, Known: func(raw []byte) (matrix.Word, error) {
		symbols := r.scan(string(raw), "From", "shop@example.net", "Rcpt", "ann@example.org", "IP", "192.0.2.7", "Helo",
			"mail.example.net")
		if _, failed := symbols["DCC_FAIL"]; failed {
			return matrix.Unknown, fmt.Errorf("rspamd's dcc module failed: %v", symbols)
		}
		if _, ok := symbols["DCC_REJECT"]; ok {
			return matrix.Spam, nil
		}
		return matrix.Unknown, nil
	}}
}

func fuzzyCheck(r *rspamd) matrix.Door {
	learn := func(path string, weight int) func([]byte) error {
		return func(raw []byte) error { r.learn(path, string(raw), 1, weight); return nil }
	}
	return matrix.Door{Name: "fuzzy", Report: learn("/fuzzyadd", 10), Unlearn: learn("/fuzzydel", 0),
		Known: func(raw []byte) (matrix.Word, error) {
			s, ok := r.scan(string(raw))["FUZZY_DENIED"]
			switch {
			case !ok:
				return matrix.Unknown, nil
			case s.Score < 6: // of 12
				return matrix.Suspected, nil
			}
			return matrix.Spam, nil
		}}
}
