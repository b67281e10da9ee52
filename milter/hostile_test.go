package milter

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestShortTrap: mail to traps alone is discarded even if it is too short for a signature.
func TestShortTrap(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house, Traps: []string{"@trap.example"}, DiscardTrapped: true}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	if r := m.message("x@shop.example", []string{"any@trap.example"}, text("", "hi")); r.code != replyDiscard {
		t.Errorf("%+v, want it discarded", r)
	}
	if r := m.message("x@shop.example", []string{"any@trap.example", "bob@example.com"},
		text("", "hi")); r.code != replyAccept ||
		!strings.Contains(r.inserted[HeaderResults], "traps=1") {
		t.Errorf("%+v, want it accepted with one trap", r)
	}
	s.Flush()
	if n := len(house.Reports()); n != 0 {
		t.Errorf("%d reports without a signature", n)
	}
	// A note that others also write is not identified by its text either, nor its sender by the
	// name in From: a vote on these would affect unrelated mail.
	note := strings.Replace(text("", "Thanks, I got it."), "Ann", "Ann Example", 1)
	if r := m.message("x@shop.example", []string{"any@trap.example"}, note); r.code != replyDiscard {
		t.Errorf("%+v, want it discarded", r)
	}
	m.message("x@shop.example", []string{"any@trap.example", "bob@example.com"}, note)
	s.Flush()
	for _, r := range house.Reports() {
		if r.Vote != bulkhead.Sighting {
			t.Errorf("vote %v on %v", r.Vote, r.Signatures)
		}
		for _, sig := range r.Signatures {
			if f := sig.Scheme().Facet(); f == bulkhead.TextFacet {
				t.Errorf("sighting of a text of four words: %v", sig)
			}
		}
	}
	if n := len(house.Reports()); n != 1 || s.Stats.Trapped.Load() != 0 || s.Stats.Faults.Load() != 0 {
		t.Errorf("%d reports, %d of traps, %d faults; want one sighting", n, s.Stats.Trapped.Load(), s.Stats.Faults.Load())
	}
}

// asked records the texts that the lists were asked for.
type asked struct {
	mu    sync.Mutex
	texts []string
}

func (a *asked) Find(text string) []Match {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.texts = append(a.texts, text)
	return nil
}

// TestManyReplyTo sends more Reply-To fields than a message needs: ten addresses are looked up, in
// whichever fields they are.
func TestManyReplyTo(t *testing.T) {
	var header strings.Builder
	for i := range 40 {
		fmt.Fprintf(&header, "Reply-To: a%d@evil.example, b%d@evil.example, c%d@evil.example\n", i, i, i)
	}
	l := &asked{}
	m := serve(t, &Server{Clearinghouse: &prototest.House{}, Lists: l})(6, everything)
	m.connect("198.51.100.7")
	m.message("x@shop.example", []string{"bob@example.com"}, text(header.String(), offer))
	n := 0
	for _, text := range l.texts {
		if strings.HasSuffix(text, "@evil.example") {
			n++
		}
	}
	if n != 10 {
		t.Errorf("%d addresses of Reply-To were looked up, want 10", n)
	}
}

// TestManyForgedHeaders sends more headers of ours than an honest message can have. For each header
// to remove, the mail server scans the whole header again, so such a message is refused.
func TestManyForgedHeaders(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}, MaxMessage: 100_000}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	for _, tt := range []struct {
		forged int
		body   string
		code   byte
	}{
		{100, offer, replyAccept}, {101, offer, replyCode}, {3000, offer, replyCode},
		{3000, strings.Repeat(offer, 1000), replyCode}, {1, offer, replyAccept},
	} {
		var header strings.Builder
		for i := range tt.forged {
			fmt.Fprintf(&header, "X-Bulkhead-%d: white\n", i)
		}
		r := m.message("x@shop.example", []string{"bob@example.com"}, text(header.String(), tt.body))
		if r.code != tt.code || r.code == replyAccept && len(r.deleted) != tt.forged ||
			r.code == replyCode && len(r.deleted) != 0 {
			t.Errorf("%d headers of ours: %q %q, %d deleted; want %q", tt.forged, r.code, r.text, len(r.deleted), tt.code)
		}
	}
}

// TestRatesOfRecipients: Postfix adds a header for each recipient if the policy door asks for it. The milter neither
// removes these headers nor refuses the message for their number.
func TestRatesOfRecipients(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	rates := strings.Repeat("X-Bulkhead-Rate: rcpts 3.0 of 1000 per 1h\n", maxForged+1)
	r := m.message("x@shop.example", []string{"bob@example.com"}, text(rates+"X-Bulkhead: white\n", offer))
	if r.code != replyAccept || len(r.deleted) != 1 || s.Stats.Forged.Load() != 1 {
		t.Errorf("%q %q, %q deleted, %d forged; want the forged one deleted", r.code, r.text, r.deleted,
			s.Stats.Forged.Load())
	}
}

// TestManyRecipients passes the most recipients that are kept: the mail server
// must not lose its milter for the messages that follow.
func TestManyRecipients(t *testing.T) {
	to := make([]string, maxRecipients+1)
	for i := range to {
		to[i] = fmt.Sprintf("r%d@example.com", i)
	}
	s := &Server{Clearinghouse: &prototest.House{Threshold: 5}, Policies: []Policy{{Bulk: Reject}}}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	if r := m.message("x@shop.example", to[:maxRecipients], text("", offer)); r.code != replyCode {
		t.Errorf("%d recipients: %+v, want it rejected", maxRecipients, r)
	}
	if r := m.message("x@shop.example", to, text("X-Bulkhead: white\n", offer)); r.code != replyAccept ||
		len(r.deleted) != 1 || len(r.inserted) != 0 {
		t.Errorf("%d recipients: %+v, want it to pass unread", len(to), r)
	}
	if r := m.message("x@shop.example", to[:9], text("", prose(1))); r.code != replyCode {
		t.Errorf("the next message: %+v, want it rejected", r)
	}
	// If the milter is asked for each recipient, the sender may send to the others later.
	m = serve(t, &Server{Clearinghouse: &prototest.House{}, Limiter: limits{}})(6, everything)
	m.connect("198.51.100.7")
	if r := m.message("x@shop.example", to, text("", offer)); r.code != replyCode ||
		!strings.HasPrefix(r.text, "452 4.5.3 ") {
		t.Errorf("%d recipients that are limited: %q %q, want 452 for the last", len(to), r.code, r.text)
	}
}

// TestLimiterHolds: a message is put on hold if a rate limit requires it.
func TestLimiterHolds(t *testing.T) {
	for _, login := range []string{"", "ann"} {
		s := &Server{Clearinghouse: &prototest.House{}, Limiter: limits{}, ExemptLogins: true}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		m.macro(cmdMail, "{auth_authen}", login)
		r := m.message("x@shop.example", []string{"dunno@example.com", "hold@example.com", "dunno@example.net"},
			text("", offer))
		if r.code != replyAccept || !strings.Contains(r.quarantine, "x@shop.example from 198.51.100.7 for "+login) {
			t.Errorf("login %q: %+v, want it on hold", login, r)
		}
		if r = m.message("x@shop.example", []string{"dunno@example.com"}, text("", offer)); r.quarantine != "" {
			t.Errorf("login %q, the message after it: %+v", login, r)
		}
	}
}

// TestMemoryAfterMessage: the memory of a long message is given back at its end, because the
// connection may be idle for long.
func TestMemoryAfterMessage(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	k := &session{server: s, macros: make(map[byte]map[string]string)}
	if err := k.negotiate(options{6, 0x1ff, everything}.append(nil)[5:]); err != nil {
		t.Fatal(err)
	}
	for _, p := range []packet{
		{cmdMail, []byte("<a@shop.example>\x00")}, {cmdRcpt, []byte("<b@example.com>\x00")}, {cmdEOH, nil},
		{cmdBody, bytes.Repeat([]byte(offer+"\r\n"), 30_000)}, {cmdEnd, nil},
	} {
		if err := k.command(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	s.Flush()
	if n := k.msg.raw.Cap(); n > 1<<20 {
		t.Errorf("%d bytes are kept after the message", n)
	}
}

// TestMacrosOfTheMessageBefore: a client logs in, and is then no longer logged in (STARTTLS resets
// that). A mail server without a macro to send sends none, and the earlier login must not count.
func TestMacrosOfTheMessageBefore(t *testing.T) {
	for _, abort := range []bool{false, true} {
		s := &Server{Clearinghouse: &prototest.House{}, Policies: []Policy{{Listed: Reject}}, ExemptLogins: true,
			Lists: lists{"evil.example": {List: "bad", Tone: "black"}}}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		m.macro(cmdMail, "{auth_authen}", "ann")
		if abort {
			m.step(cmdMail, []byte("<x@evil.example>\x00"))
			m.send(cmdAbort)
		} else if r := m.message("x@evil.example", []string{"bob@example.com"}, text("", offer)); r.code != replyAccept {
			t.Errorf("with a login: %+v, want it to pass", r)
		}
		if r := m.message("x@evil.example", []string{"bob@example.com"}, text("", offer)); r.code != replyCode {
			t.Errorf("abort %v: without one: %+v, want it rejected", abort, r)
		}
	}
}

// TestInternationalDomains uses a domain with letters beyond ASCII, in the policies and as a trap,
// and sends to both of its forms, also with a dot at the end.
func TestInternationalDomains(t *testing.T) {
	s := &Server{
		Clearinghouse: &prototest.House{}, Traps: []string{"Trap@BÜCHER.example", "@fällen.example"}, DiscardTrapped: true,
		Lists:    lists{"evil.example": {List: "bad", Tone: "black"}},
		Policies: []Policy{{Listed: Reject}, {Domain: "Bücher.example", Listed: Quarantine}},
	}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	for _, domain := range []string{"bücher.example", "BÜCHER.EXAMPLE",
		"xn--bcher-kva.example", "mail.xn--bcher-kva.example", "xn--bcher-kva.example.", "b\u00fccher.example."} {
		if r := m.message("x@evil.example", []string{"bob@" + domain}, text("", offer)); r.code != replyAccept ||
			r.quarantine == "" {
			t.Errorf("%s: %q %q, quarantine %q; want the policy of the domain", domain, r.code, r.text, r.quarantine)
		}
	}
	for _, to := range []string{"trap@bücher.example", "trap@xn--bcher-kva.example", "x@xn--fllen-gra.example",
		"trap@xn--bcher-kva.example.", "x@xn--fllen-gra.example."} {
		if r := m.message("x@shop.example", []string{to}, text("", offer)); r.code != replyDiscard {
			t.Errorf("trap %s: %q, want it discarded", to, r.code)
		}
	}
	s = &Server{Clearinghouse: &prototest.House{}, Policies: []Policy{{Domain: "a\u2028b.example"}}}
	if err := s.Prepare(); err == nil {
		t.Error("a domain that is none was taken")
	}
}
