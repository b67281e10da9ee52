package lies

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
	"github.com/bulkhead-mail/bulkhead/milter"
	"github.com/bulkhead-mail/bulkhead/pyzor"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

// The mail that everybody asks about.
const (
	head = "Received: from mail.example.org (mail.example.org [192.0.2.7])\n\tby mx.example.net; Mon, 1 Jan 2024 " +
		"00:00:00 +0000\n" +
		"From: Alice <alice@example.org>\nMessage-ID: <1@example.org>\nSubject: ferry\n"
	body = "The ferry to the island leaves at nine on every day of the week\nbut Sunday, and returns at six; tickets " +
		"are sold on board.\n" +
		"Whoever is late may wait in the harbour, where there is bread and tea for all.\n"
	mail = head + "\n" + body
)

// An operation is something that a client of a door asks for. It returns what the
// client makes of the answer, in one of these words.
type operation struct {
	name string
	do   func() string
}

// The words. No door should cause any other.
const (
	spam    = "S" // spam, or the mail is refused
	bulk    = "B" // seen or reported by several, or doubtful
	clean   = "C" // nothing is known
	passed  = "P" // the mail passes, and nothing is said of it
	taken   = "T" // a report was acknowledged
	refused = "R" // for good
	later   = "L" // the client may try again, or the server has a fault
	silence = "N" // no answer, which the client takes for a fault too
)

// patience is how long a client waits.
const patience = 20 * time.Second

// doors opens every front door before a clearinghouse.
var doors = map[string]func(testing.TB, bulkhead.Clearinghouse) []operation{
	"razor2": openRazor, "razor helper": openRazorHelper, "pyzor": openPyzor, "pyzor helper": openPyzorHelper,
	"dcc": openDCC, "dccifd": openIfd, "fuzzy": openFuzzy, "milter": openMilter, "api": openAPI,
}

type secrets map[string]string

func (s secrets) Secret(_ context.Context, name string) ([]byte, bool, error) {
	secret, ok := s[name]
	return []byte(secret), ok, nil
}

func (s secrets) Register(context.Context, string, []byte, netip.Addr) error { return razor2.ErrTaken }

func openRazor(t testing.TB, house bulkhead.Clearinghouse) []operation {
	s := &razor2.Server{Clearinghouse: house, Accounts: secrets{"ana": "s3cret"}}
	address := prototest.ServeStream(t, "127.0.0.1:0", s).String()
	part := []byte("X-Razor2-Agent: Razor-Agents v2.84\n\n" + body)
	of, ok := razor.Prepared(part)
	if !ok {
		t.Fatal("the mail has no signature")
	}
	login := func() *razor2.Client {
		c, err := razor2.Dial(t.Context(), address, nil)
		if err == nil {
			err = c.Login(t.Context(), razor2.Credentials{User: "ana", Password: "s3cret"})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	word := func(err error) string {
		var code razor2.ServerError
		switch {
		case err == nil:
			return taken
		case errors.Is(err, bulkhead.ErrForbidden), errors.Is(err, bulkhead.ErrUnauthorised):
			return refused
		case !errors.As(err, &code):
			return silence
		case code >= 200 && code < 203:
			return refused
		}
		return later
	}
	return []operation{
		{"check", func() string {
			answers, err := login().Check(t.Context(), of.E4)
			if err != nil {
				return word(err)
			}
			return map[bool]string{true: spam, false: clean}[answers[0].Spam]
		}},
		{"report", func() string { return word(login().Report(t.Context(), []byte(head), [][]byte{part})) }},
		{"revoke", func() string { return word(login().Revoke(t.Context(), of.E4)) }},
	}
}

func openRazorHelper(t testing.TB, house bulkhead.Clearinghouse) []operation {
	h := &razor2.Helper{Clearinghouse: house, MailServer: door.MailServer{MaxMail: 1 << 20}}
	address := prototest.ServeStream(t, "127.0.0.1:0", h)
	return []operation{{"check", func() string {
		got, _ := prototest.Ask(t, address, []byte(mail))
		return map[string]string{"spam": spam, "ham": clean, "": silence}[got]
	}}}
}

func openPyzor(t testing.TB, house bulkhead.Clearinghouse) []operation {
	s := &pyzor.Server{Clearinghouse: house, Anonymous: pyzor.Ops()}
	c, err := pyzor.Dial(t.Context(), prototest.ServePackets(t, "127.0.0.1:0", 1, s).String(),
		&pyzor.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	digest, _ := pyzor.ParseDigest([]byte("dc2f1aac4a98fe905e0d362276084a814b77f391"))
	do := func(op pyzor.Op) (*pyzor.Reply, string) {
		r, err := c.Do(t.Context(), op, digest)
		switch {
		case r == nil:
			return nil, silence + fmt.Sprint(err)
		case r.Code == 200:
			return r, taken
		case r.Code < 500:
			return r, refused
		}
		return r, later
	}
	vote := func(op pyzor.Op) func() string {
		return func() string { _, word := do(op); return word }
	}
	return []operation{
		{"check", func() string {
			r, word := do(pyzor.OpCheck)
			if word != taken {
				return word
			}
			if n, err := r.Count("Count"); err != nil || n > 0 {
				return bulk
			}
			return clean
		}},
		{"report", vote(pyzor.OpReport)},
		{"whitelist", vote(pyzor.OpWhitelist)},
	}
}

func openPyzorHelper(t testing.TB, house bulkhead.Clearinghouse) []operation {
	h := &pyzor.Helper{Clearinghouse: house, MailServer: door.MailServer{MaxMail: 1 << 20}}
	address := prototest.ServeStream(t, "127.0.0.1:0", h)
	return []operation{{"check", func() string {
		got, _ := prototest.Ask(t, address, []byte(mail))
		fields := strings.Split(strings.TrimSpace(got), "\t")
		switch {
		case got == "":
			return silence
		case len(fields) != 4 || fields[1] != "(200, 'OK')":
			return "?" + got
		case fields[2] == "0":
			return clean
		}
		return bulk
	}}}
}

func openDCC(t testing.TB, house bulkhead.Clearinghouse) []operation {
	s := &dcc.Server{Clearinghouse: house, Account: func(id uint32) (dcc.Account, bool) {
		return dcc.Account{Passwords: []string{"secret"}, Name: "ana"}, true
	}}
	address := prototest.ServePackets(t, "127.0.0.1:0", 1, s).String()
	c, err := dcc.Dial(t.Context(), address, &dcc.Options{ID: 101, Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	sums := []dcc.Checksum{{Type: digests.TypeBody, Sum: [16]byte{1}}}
	word := func(err error) string {
		if err != nil {
			return later // the protocol has no word for "never"
		}
		return taken
	}
	return []operation{
		{"check", func() string {
			totals, err := c.Query(t.Context(), sums)
			switch {
			case err != nil:
				return word(err)
			case totals[0].Current == dcc.Many:
				return spam
			case totals[0].Current == 0:
				return clean
			}
			return bulk
		}},
		{"report", func() string { _, err := c.Report(t.Context(), 1, false, sums); return word(err) }},
		{"report spam", func() string { _, err := c.Report(t.Context(), 1, true, sums); return word(err) }},
		{"delete", func() string { return word(c.Delete(t.Context(), sums[0])) }},
	}
}

func openIfd(t testing.TB, house bulkhead.Clearinghouse) []operation {
	s := &dcc.Ifd{Clearinghouse: house, Host: "mx", Thresholds: map[digests.Type]uint32{digests.TypeBody: dcc.Many}}
	address := prototest.ServeStream(t, "127.0.0.1:0", s)
	ask := func(options string) func() string {
		return func() string {
			got, _ := prototest.Ask(t, address, []byte(options+
				"\n192.0.2.7\nmail.example.org\nalice@example.org\nbob@example.net\n\n"+mail))
			switch {
			case got == "":
				return silence
			case strings.HasPrefix(got, "R\n"):
				return spam
			case strings.HasPrefix(got, "T\n"):
				return later
			case strings.Contains(got, "Body="):
				if strings.Contains(got, "Body=0") {
					return clean
				}
				return bulk
			}
			return passed
		}
	}
	return []operation{{"query", ask("header query")}, {"report", ask("header")}, {"report spam", ask("header spam")}}
}

func openFuzzy(t testing.TB, house bulkhead.Clearinghouse) []operation {
	s := &fuzzy.Server{Clearinghouse: house}
	c, err := fuzzy.Dial(t.Context(), prototest.ServePackets(t, "127.0.0.1:0", 1, s).String(),
		&fuzzy.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	digest, shingles := [fuzzy.DigestSize]byte{1, 2, 3}, [32]uint64{1, 2, 3}
	word := func(r fuzzy.Reply, err error) string {
		switch {
		case err != nil && (errors.Is(err, bulkhead.ErrForbidden) || errors.Is(err, bulkhead.ErrUnauthorised)):
			return refused
		case err != nil:
			return later
		}
		return taken
	}
	do := func(command fuzzy.Command) (fuzzy.Reply, error) {
		return c.Do(t.Context(), fuzzy.Request{Command: command, Digest: digest, Shingled: true, Shingles: shingles, Flag: 1,
			Value: 1, Tag: uint32(command) + 1})
	}
	update := func(command fuzzy.Command) func() string {
		return func() string {
			r, err := do(command)
			if err == nil && !r.OK() {
				return "?" + fmt.Sprint(r)
			}
			return word(r, err)
		}
	}
	return []operation{
		{"check", func() string {
			switch r, err := do(fuzzy.Check); {
			case err != nil:
				return word(r, err)
			case !r.OK():
				return clean
			case r.Value >= 20 && r.Flag == 1:
				return spam
			default:
				return bulk
			}
		}},
		{"write", update(fuzzy.Write)},
		{"delete", update(fuzzy.Delete)},
	}
}

// openMilter speaks the milter protocol of version 6, with all replies.
func openMilter(t testing.TB, house bulkhead.Clearinghouse) []operation {
	var all []operation
	for name, tempfail := range map[string]bool{"pass": false, "defer": true} {
		s := &milter.Server{Clearinghouse: house, Host: "mx", FailTempfail: tempfail,
			Policies: []milter.Policy{{Spam: milter.Reject, Bulk: milter.Reject}}}
		address := prototest.ServeStream(t, "127.0.0.1:0", s)
		all = append(all, operation{name, func() string {
			c, err := net.Dial("tcp", address.String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			send := func(cmd byte, data string) {
				c.Write(append(append(binary.BigEndian.AppendUint32(nil, uint32(1+len(data))), cmd), data...))
			}
			read := func() (byte, string) {
				var size [4]byte
				if _, err := io.ReadFull(c, size[:]); err != nil {
					return 0, ""
				}
				packet := make([]byte, binary.BigEndian.Uint32(size[:]))
				if _, err := io.ReadFull(c, packet); err != nil || len(packet) == 0 {
					return 0, ""
				}
				return packet[0], string(packet[1:])
			}
			send('O', "\x00\x00\x00\x06\x00\x00\x01\xff\x00\x00\x00\x00")
			read()
			steps := []struct {
				cmd  byte
				data string
			}{
				{'C', "client.example.org\x004\x04\xd2198.51.100.7\x00"}, {'H', "client.example.org\x00"},
				{'M', "<x@shop.example>\x00"}, {'R', "<bob@example.com>\x00"},
				{'T', ""}, {'L', "Subject\x00ferry\x00"}, {'N', ""}, {'B', strings.ReplaceAll(body, "\n", "\r\n")},
			}
			for _, step := range steps {
				send(step.cmd, step.data)
				if code, text := read(); code != 'c' {
					return fmt.Sprintf("?%c answered with %c %s", step.cmd, code, text)
				}
			}
			send('E', "")
			header := ""
			for {
				switch code, text := read(); code {
				case 0:
					return silence
				case 'i':
					if name, value, _ := strings.Cut(text[4:], "\x00"); name == milter.HeaderClass {
						header = strings.TrimSpace(strings.TrimRight(value, "\x00"))
					}
				case 'm':
				case 'a', 'c':
					if header == "none" {
						return clean
					}
					if header == "" {
						return passed
					}
					return "?accepted as " + header
				case 'y':
					if strings.HasPrefix(text, "5") {
						return spam
					}
					return later
				case 't':
					return later
				default:
					return fmt.Sprintf("?%c %s", code, text)
				}
			}
		}})
	}
	return all
}

func newAPI(t testing.TB, house bulkhead.Clearinghouse) *api.Server {
	sig := bulkhead.MustSignature(bulkhead.Exact, []byte("the ferry to the island"))
	s, err := api.New(api.Options{Clearinghouse: house,
		Read: func(context.Context, []byte, []string) ([]bulkhead.Signature, bulkhead.Source, error) {
			return []bulkhead.Signature{sig}, bulkhead.Source{}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openAPI(t testing.TB, house bulkhead.Clearinghouse) []operation {
	server := httptest.NewServer(newAPI(t, house))
	t.Cleanup(server.Close)
	post := func(path string) (string, string) {
		resp, err := http.Post(server.URL+path, "message/rfc822", strings.NewReader(mail))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(prototest.ErrFault.Error())) {
			return "?a client is told of the node's fault: " + string(text), ""
		}
		switch {
		case resp.StatusCode == 200:
			return taken, string(text)
		case resp.StatusCode == 429 || resp.StatusCode >= 500:
			return later, ""
		}
		return refused, ""
	}
	report := func(vote string) func() string {
		return func() string { word, _ := post("/v1/report?vote=" + vote); return word }
	}
	return []operation{
		{"check", func() string {
			word, text := post("/v1/check")
			switch {
			case word != taken:
				return word
			case strings.Contains(text, `"spam":true`):
				return spam
			case strings.Contains(text, `"bulk":true`):
				return bulk
			}
			return clean
		}},
		{"report spam", report("spam")},
		{"report ham", report("ham")},
		{"revoke", report("revoke")},
	}
}
