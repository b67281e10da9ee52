package node

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/pyzor"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

const newsletterBody = "Dear reader, the library is open on Sundays from now on, and the reading room has " +
	"twelve new desks by the\n" +
	"window to the garden. Please bring back what you have borrowed before the summer, so that others can read " +
	"it, too.\n" +
	"The next evening of chamber music is on the first Friday of the month; tickets are sold at the desk in the hall.\n"

const newsletter = "Authentication-Results: mx.example.com; dkim=pass header.d=library.example.org\r\n" +
	"From: Library <news@library.example.org>\r\nTo: bob@example.com\r\nSubject: news\r\n" +
	"Message-ID: <1@library.example.org>\r\n\r\n"

// say sends a request to a door and returns the whole answer.
func say(t *testing.T, address, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).CloseWrite()
	reply, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(reply)
}

// TestEveryDoorObeysTheWhitelist reports a newsletter, and expects every door to report it as
// listed. Then it is whitelisted, and no door may.
func TestEveryDoorObeysTheWhitelist(t *testing.T) {
	ctx := t.Context()
	raw := strings.ReplaceAll(newsletter, "\r\n", "\n") + "\n" + newsletterBody
	raw = strings.ReplaceAll(strings.Replace(raw, "\n\n\n", "\n\n", 1), "\n", "\r\n")
	cfg := config.Default()
	cfg.Dccifd.Verify = false // a test makes no DNS queries
	s, address := startWith(t, cfg, "dcc", "dccifd", "razor2", "pyzor", "fuzzy", "razor_helper", "pyzor_helper")
	sigs, _, err := messages{s.core}.Read(t.Context(), []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	of := make(map[bulkhead.Scheme]bulkhead.Signature)
	for _, sig := range sigs {
		if _, known := of[sig.Scheme()]; !known {
			of[sig.Scheme()] = sig
		}
	}
	text := of[bulkhead.RspamdText]
	fuzzyClient, err := fuzzy.Dial(ctx, address["fuzzy"], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fuzzyClient.Close()
	dccClient, err := dcc.Dial(ctx, address["dcc"], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dccClient.Close()
	razorClient, err := razor2.Dial(ctx, address["razor2"], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer razorClient.Close()
	pyzorClient, err := pyzor.Dial(ctx, address["pyzor"], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pyzorClient.Close()

	body := of[bulkhead.DCCBody]
	checksums := []dcc.Checksum{{Type: dccsum.TypeBody, Sum: [16]byte(body.Sum())}}
	local := bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}
	if _, err := s.engine.Report(ctx,
		bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam, Reporter: local}); err != nil {
		t.Fatal(err)
	}
	if err := fuzzyClient.Write(ctx, [64]byte(text.Sum()), nil, 1, 100); err != nil {
		t.Fatal(err)
	}
	ifd := func(options string) string {
		return say(t, address["dccifd"], options+"\n192.0.2.7\nhelo\nnews@library.example.org\nbob\n\n"+raw)
	}
	ifd("spam header")

	doors := []struct {
		name   string
		scheme bulkhead.Scheme
		whole  bool // it sees the whole mail
		bad    func() (answer string, listed bool)
	}{
		{"http", bulkhead.Exact, true, func() (string, bool) {
			sigs, source, err := messages{s.core}.Read(t.Context(), []byte(raw))
			if err != nil {
				t.Fatal(err)
			}
			v, err := s.engine.Check(ctx, bulkhead.Query{Signatures: sigs, Source: source})
			return fmt.Sprint(v.Reasons, err), v.Unwanted()
		}},
		{"razor2", bulkhead.RazorE4, false, func() (string, bool) {
			a, err := razorClient.Check(ctx, of[bulkhead.RazorE4])
			return fmt.Sprint(a, err), err != nil || a[0].Spam
		}},
		{"pyzor", bulkhead.PyzorDigest, false, func() (string, bool) {
			r, err := pyzorClient.Do(ctx, pyzor.OpCheck, of[bulkhead.PyzorDigest])
			return fmt.Sprint(r, err), err != nil || r.Values["Count"] != "0"
		}},
		{"dcc", bulkhead.DCCBody, false, func() (string, bool) {
			a, err := dccClient.Query(ctx, checksums)
			return fmt.Sprint(a, err), err != nil || a[0].Current > 0
		}},
		{"dccifd", bulkhead.DCCBody, true, func() (string, bool) {
			r := ifd("query header")
			return r, strings.Contains(r, "many")
		}},
		{"fuzzy", bulkhead.RspamdText, false, func() (string, bool) {
			r, err := fuzzyClient.Check(ctx, [64]byte(text.Sum()), nil)
			return fmt.Sprint(r, err), err != nil || r.OK()
		}},
		{"razor_helper", bulkhead.RazorE4, true, func() (string, bool) {
			r := say(t, address["razor_helper"], raw)
			return r, r != "ham"
		}},
		{"pyzor_helper", bulkhead.PyzorDigest, true, func() (string, bool) {
			r := say(t, address["pyzor_helper"], raw)
			return r, !strings.HasSuffix(r, "\t0\t0\n")
		}},
	}
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			if answer, listed := d.bad(); !listed {
				t.Fatalf("the reported newsletter is answered %q", answer)
			}
			entries := []string{fmt.Sprintf("signatures = [%q]", of[d.scheme])}
			if d.whole {
				entries = append(entries, fmt.Sprintf("signatures = [%q]", of[bulkhead.Exact]),
					"authentication_results = [\"mx.example.com\"]\ndomains = [\"library.example.org\"]",
					"domains = [\"forgeable:library.example.org\"]")
			}
			for _, entry := range entries {
				takeOver(t, s, "[whitelist]\n"+entry+"\n")
				if answer, listed := d.bad(); listed {
					t.Errorf("whitelisted by %s, it is answered %q", entry, answer)
				}
			}
			takeOver(t, s, "[whitelist]\ndomains = [\"library.example.org\"]\n")
			if answer, listed := d.bad(); !listed {
				t.Errorf("whitelisted by a name that nobody has verified, it is answered %q", answer)
			}
		})
	}
}
