package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	pyzordigest "github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/matrix"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

// errNothing means that a client has nothing to report of a mail, or that the door took nothing of the report.
var errNothing = errors.New("nothing was reported")

// onlyAccepted changes what the doors report so that it fails if nothing was reported or taken, and so that Razor takes
// mail of any form.
func onlyAccepted(t *testing.T, n *Node, doors []matrix.Door) []matrix.Door {
	dccClient, err := dcc.Dial(t.Context(), address(t, n, "dcc"), &dcc.Options{ID: 1000, Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dccClient.Close() })
	razorClient, err := razor2.Dial(t.Context(), address(t, n, "razor2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { razorClient.Close() })
	if err := razorClient.Login(t.Context(), razor2.Credentials{User: "ana", Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	hasher := rspamd.NewHasher("", "", rspamd.MumHash)
	for i := range doors {
		report := doors[i].Report
		switch doors[i].Name {
		case "fuzzy":
			doors[i].Report = func(raw []byte) error {
				hashes, err := hasher.Hashes(t.Context(), raw, rspamd.Policy{AllTypes: true})
				if err == nil && len(hashes) == 0 {
					err = errNothing
				}
				return errors.Join(err, report(raw))
			}
		case "Pyzor":
			doors[i].Report = func(raw []byte) error {
				sigs, err := pyzordigest.Signatures(t.Context(), raw)
				if err == nil && len(sigs) == 0 {
					err = errNothing
				}
				return errors.Join(err, report(raw))
			}
		case "dccproc":
			doors[i].Report = func(raw []byte) error {
				sums, err := dccsum.Sums(t.Context(), raw, dccsum.Options{Rules: dccsum.Rules2})
				if err != nil {
					return err
				}
				var all []dcc.Checksum
				for _, s := range sums {
					if s.Type == dccsum.TypeBody || s.Type == dccsum.TypeFuz1 {
						all = append(all, dcc.Checksum{Type: s.Type, Sum: s.Sum})
					}
				}
				totals, err := dccClient.Report(t.Context(), 1, true, all)
				for _, total := range totals {
					if total.Current == dcc.Many {
						return err
					}
				}
				return errors.Join(err, errNothing)
			}
		case "Razor":
			doors[i].Report = func(raw []byte) error {
				header, body, _ := bytes.Cut(raw, []byte("\n\n"))
				if bytes.Contains(bytes.ToLower(header), []byte("multipart/")) {
					return errNothing // the parts are up to the client
				}
				parts, err := razor.Parts(t.Context(), raw)
				if err != nil || len(parts) == 0 || parts[0].Empty {
					return errors.Join(err, errNothing)
				}
				if len(bytes.TrimSpace(body)) == 0 {
					return errNothing
				}
				part := []byte("X-Razor2-Agent: test\n") // razor-report keeps the fields of the content alone
				const most = 61440                       // and the beginning of a long body
				if n := len(body); n > most {
					part, body = fmt.Appendf(nil, "X-Razor2-Origlen-Body: %d\n%s", n, part), body[:most]
				}
				kept := false
				for line := range bytes.Lines(append(header, '\n')) {
					if line[0] != ' ' && line[0] != '\t' {
						kept = bytes.HasPrefix(bytes.ToLower(line), []byte("content-"))
					}
					if kept {
						part = append(part, line...)
					}
				}
				part = append(append(part, '\n'), body...)
				return razorClient.Report(t.Context(), append(header, '\n'), [][]byte{part})
			}
		}
	}
	return doors
}

// dccifdDoor reports and checks whole mail over the dccifd protocol.
func dccifdDoor(t *testing.T, n *Node) matrix.Door {
	ask := func(options string, raw []byte) string {
		return say(t, address(t, n, "dccifd"), options+"\n192.0.2.7\nhelo\nann@example.org\nbob@example.net\n\n"+string(raw))
	}
	return matrix.Door{Name: "dccifd", Report: func(raw []byte) error {
		if answer := ask("spam header", raw); !strings.Contains(answer, "=many") {
			return errNothing
		}
		return nil
	}, Known: func(raw []byte) (matrix.Word, error) {
		if answer := ask("query header", raw); strings.Contains(answer, "=many") {
			return matrix.Spam, nil
		}
		return matrix.Unknown, nil
	}}
}

// TestReportedIsKnownAtDoors checks that mail whose report a door has accepted is known at that door, and mail that
// Razor has accepted also over HTTP: razor-report sends the text, and its report is refused if that is too short.
// The test takes a sample of the corpora, and all of them with BULKHEAD_FULL=1.
func TestReportedIsKnownAtDoors(t *testing.T) {
	every := 100
	switch {
	case os.Getenv("BULKHEAD_FULL") == "1":
		every = 1
	case testing.Short():
		every = 800
	}
	var files []string
	for _, set := range []string{"spamassassin-2002", "csdmc-2009-2010", "phishing-2004-2005", "phishing-pot-2023-2024",
		"lists-2019-2020"} {
		all := mailtest.Must(filepath.Glob(filepath.Join(sharedtest.Unpack(t, set), "*.eml")))
		for i := 0; i < len(all); i += every {
			files = append(files, all[i])
		}
	}
	const atOnce = 500 // files for one node
	accepted, refused := make(map[string]int), make(map[string]int)
	for len(files) > 0 {
		batch := files[:min(atOnce, len(files))]
		files = files[len(batch):]
		for which := range 6 {
			t.Run("", func(t *testing.T) { // a node that has seen the reports of one door alone
				n, _ := start(t, Options{Config: everyDoor(t,
					"[http]\nanonymous_report = \"loopback\"\n[dccifd]\nverify = false\n[limits]\nrequests_per_second = 0\n"+
						"[pyzor]\nanonymous = [\"check\", \"report\", \"whitelist\"]\n[[dcc.clients]]\nid = 1000\n"+
						"password = \"secret\"\n"), Dir: t.TempDir()})
				all := append(onlyAccepted(t, n, matrixDoors(t, n)), dccifdDoor(t, n))
				door := all[which]
				for _, file := range batch {
					raw := mailtest.Must(os.ReadFile(file))
					if known, err := door.Known(raw); err == nil && known != matrix.Unknown {
						continue // a copy of mail before it
					}
					if err := door.Report(raw); err != nil {
						if !errors.Is(err, errNothing) && !refusedBy(err) {
							t.Errorf("%s of %s: %v", door.Name, filepath.Base(file), err)
						}
						refused[door.Name]++
						continue
					}
					accepted[door.Name]++
					if known, err := door.Known(raw); err != nil || known == matrix.Unknown {
						t.Errorf("%s was reported over %s and is %v there, %v", file, door.Name, known, err)
					}
					if door.Name != "Razor" {
						continue
					}
					if known, err := all[0].Known(raw); err != nil || known == matrix.Unknown {
						t.Errorf("%s was reported over Razor and is %v over HTTP, %v", file, known, err)
					}
				}
			})
		}
	}
	t.Logf("accepted %v; refused, or nothing to report: %v", accepted, refused)
	for door, n := range accepted {
		if n < refused[door] {
			t.Errorf("%s: %d reports were accepted, %d refused", door, n, refused[door])
		}
	}
}

// refusedBy reports whether a door refused a report for its content.
func refusedBy(err error) bool {
	return errors.Is(err, bulkhead.ErrMalformed) || errors.Is(err, bulkhead.ErrForbidden) ||
		strings.HasPrefix(err.Error(), "422 ") || strings.HasPrefix(err.Error(), "400 ")
}
