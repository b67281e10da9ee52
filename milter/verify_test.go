package milter

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestVerify: a domain that the milter verifies by itself clears a message, as the result of a
// trusted host does. An unverified domain does not. Verify gets the message as it was sent, and its
// envelope.
func TestVerify(t *testing.T) {
	for _, v := range versions {
		house := &prototest.House{}
		report(t, house, offer)
		var mu sync.Mutex
		var seen []string
		s := &Server{
			Clearinghouse: house, Policies: []Policy{{Spam: Reject}}, Timeout: time.Minute,
			Lists: lists{"friend.example": {List: "good", Tone: "white"}, "198.51.100.99": {List: "good", Tone: "white"}},
			Verify: func(_ context.Context, raw []byte, client netip.Addr, sender string) (dkim []string, spf string) {
				mu.Lock()
				seen = append(seen, string(raw)+"|"+client.String()+"|"+sender)
				mu.Unlock()
				switch text := string(raw); {
				case strings.Contains(text, "X-Test: dkim"):
					return []string{"other.example", "friend.example"}, ""
				case strings.Contains(text, "X-Test: spf"):
					return nil, "friend.example"
				case strings.Contains(text, "X-Test: panic"):
					panic("test")
				}
				return []string{"shop.example"}, "evil.example"
			},
		}
		m := serve(t, s)(v.version, v.steps)
		m.connect("198.51.100.7")
		for _, tt := range []struct {
			header, from string
			code         byte
			class        Class
		}{
			{"X-Test: dkim\n", "x@shop.example", replyAccept, ClassWhite},
			{"X-Test: spf\n", "x@friend.example", replyAccept, ClassWhite},
			{"X-Test: spf\n", "x@mx.friend.example", replyAccept, ClassWhite},
			{"X-Test: none\n", "x@friend.example", replyCode, ""},
			{"X-Test: panic\n", "x@friend.example", replyCode, ""},
			{"Sender: x@friend.example\n", "x@shop.example", replyCode, ""},
		} {
			r := m.message(tt.from, []string{"bob@example.com"}, text(tt.header, offer))
			if r.code != tt.code || r.inserted[HeaderClass] != string(tt.class) {
				t.Errorf("%s, %q from %s: %q %q, class %q; want %q, %q", v.name, tt.header, tt.from, r.code, r.text,
					r.inserted[HeaderClass], tt.code, tt.class)
			}
		}
		if n := s.Stats.Verified.Load(); n != 5 {
			t.Errorf("%d messages counted as verified, want 5", n)
		}
		sent := strings.ReplaceAll(text("X-Test: dkim\n", offer), "\n", "\r\n") + "|198.51.100.7|x@shop.example"
		if !slices.Contains(seen, sent) {
			t.Errorf("%s: verified %q\nwant %q", v.name, seen[0], sent)
		}
	}
}

// TestSenders: a message is identified by its verified senders, and by the network of its client if
// there is none.
func TestSenders(t *testing.T) {
	for want, domains := range map[string][]string{
		"shop.example ann@shop.example": {"shop.example"},
		"esp.example|shop.example":      {"esp.example"},
		"198.51.100.0/24":               nil,
	} {
		house := &prototest.House{}
		s := &Server{Clearinghouse: house, Verify: func(context.Context, []byte, netip.Addr, string) ([]string, string) {
			return domains, ""
		}}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		m.message("x@elsewhere.example", []string{"bob@example.com"}, text("", offer))
		s.Flush()
		var got []string
		for _, r := range house.Reports() {
			for _, sig := range r.Signatures {
				if f := sig.Scheme().Facet(); f == bulkhead.SenderFacet || f == bulkhead.NetworkFacet {
					got = append(got, sig.Name())
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("verified %q: counted %q, want %q", domains, got, want)
		}
	}
}

// TestHeadersAsSent: headers that a mail server sends with the space before their values are
// verified unchanged.
func TestHeadersAsSent(t *testing.T) {
	var got string
	s := &Server{Clearinghouse: &prototest.House{}, Verify: func(_ context.Context, raw []byte,
		_ netip.Addr, _ string) ([]string, string) {
		got = string(raw)
		return nil, ""
	}}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	const header = "From:ann@shop.example\nTo:  bob@example.com\nSubject: chairs\n  and tables\t\nX-Empty:\nX-Tab:\tx"
	m.message("x@shop.example", []string{"bob@example.com"}, header+"\n\n"+prose(1)+"\n")
	if want := strings.ReplaceAll(header+"\n\n"+prose(1)+"\n", "\n", "\r\n"); got != want {
		t.Errorf("verified\n%q\nwant\n%q", got, want)
	}
}

// TestClientGone checks that the work on a message ends when the mail server disconnects, long before
// its time is over, and that the message is not counted.
func TestClientGone(t *testing.T) {
	house := &prototest.House{}
	begun, ended := make(chan struct{}), make(chan error, 1)
	s := &Server{Clearinghouse: house, Timeout: time.Hour,
		Verify: func(ctx context.Context, _ []byte, _ netip.Addr, _ string) (dkim []string, spf string) {
			close(begun)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, ""
		}}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	if p, ok := m.begin("x@shop.example", []string{"bob@example.com"}, text("", offer)); !ok {
		t.Fatalf("%+v", p)
	}
	m.send(cmdEnd)
	<-begun
	m.c.Close()
	if err := <-ended; err != door.ErrClientGone {
		t.Errorf("the work ended by %v", err)
	}
	s.Flush()
	if n := len(house.Reports()); n != 0 {
		t.Errorf("%d reports of a message after its client has gone", n)
	}
}
