package milter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
	"github.com/bulkhead-mail/bulkhead/policy"
	"github.com/bulkhead-mail/bulkhead/signature"
)

const offer = "Dear reader, our new catalogue of garden chairs has arrived and every single chair " +
	"is sold at half of the usual price until the end of this month, so please visit our shop today."

// prose returns a text that has nothing in common with the text of another seed.
func prose(seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for range 60 {
		for range 3 + random.IntN(6) {
			b.WriteByte('a' + byte(random.IntN(26)))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func text(header, body string) string {
	return "From: Ann <ann@shop.example>\nTo: bob@example.com\nSubject: chairs\n" + header + "\n" + body + "\n"
}

// lists finds exact texts.
type lists map[string]Match

func (l lists) Find(text string) []Match {
	for entry, m := range l {
		if strings.Contains(text, entry) {
			m.Entry = entry
			return []Match{m}
		}
	}
	return nil
}

const everything = 0x1fffff // steps that a mail server of version 6 offers

// versions are the offers of real mail servers: Sendmail and Postfix today, and
// the oldest version there is.
var versions = []struct {
	name           string
	version, steps uint32
}{{"version 6", 6, everything}, {"version 2", 2, 0x7f}}

// report reports a body as spam.
func report(t testing.TB, house *prototest.House, body string) {
	t.Helper()
	sigs, err := signature.Compute(t.Context(), []byte("Subject: chairs\r\n\r\n"+body+"\r\n"), signature.Options{})
	if err == nil {
		_, err = house.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam})
	}
	if err != nil || len(sigs) == 0 {
		t.Fatal(err, len(sigs))
	}
}

func TestClassesAndActions(t *testing.T) {
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			house := &prototest.House{Threshold: 5}
			report(t, house, offer)
			dial := serve(t, &Server{
				Clearinghouse: house, Host: "mx.example.com", AuthResults: func() []string { return []string{"MX.example.com"} },
				Lists: lists{
					"evil.example":  {List: "bad", Tone: "black", Reason: "phishing", Error: 1e-6},
					"198.51.100.66": {List: "bad", Tone: "black"},
					"grey.example":  {List: "odd", Tone: "grey"}, "friend.example": {List: "good", Tone: "white"},
					"198.51.100.99": {List: "good", Tone: "white"},
				},
				Policies: []Policy{
					{Spam: Reject, Listed: Quarantine, Bulk: Tempfail},
					{Domain: "soft.example.net", Spam: Header, Bulk: None, Grey: Quarantine, Text: "no {class}: {reason}"},
					{Domain: "strict.example.org", Listed: Reject, Text: "we say: {class}, 100% sure"},
				},
			})
			m := dial(v.version, v.steps)
			m.connect("198.51.100.7")
			for _, tt := range []struct {
				name, from, to, header, body string
				code                         byte
				class                        Class
				quarantined                  bool
				want                         string // in the reply or the results
			}{
				{"spam", "x@shop.example", "bob@example.com", "", offer, replyCode, "", false, "550 5.7.1 message refused as spam"},
				{"spam, soft", "x@shop.example", "bob@a.soft.example.net", "", offer, replyAccept, ClassSpam, false,
					"bulkhead=spam confidence=100"},
				{"mildest wins", "x@shop.example", "bob@example.com bob@soft.example.net", "", offer, replyAccept, ClassSpam, false,
					"spam=1"},
				{"white envelope sender, forged", "x@friend.example", "bob@example.com", "", offer, replyCode, "", false, "550"},
				{"white Sender, forged", "x@shop.example", "bob@example.com", "Sender: x@friend.example\n",
					offer, replyCode, "", false, "550"},
				{"white Reply-To", "x@shop.example", "bob@example.com", "Reply-To: x@friend.example\n", offer, replyCode, "", false,
					"550"},
				{"white sender, SPF", "x@friend.example", "bob@example.com",
					"Authentication-Results: mx.example.com; spf=pass smtp.mailfrom=x@friend.example\n",
					offer, replyAccept, ClassWhite, false, "envelope sender friend.example is in list good"},
				{"white sender, SPF of another", "x@friend.example", "bob@example.com",
					"Authentication-Results: mx.example.com; spf=pass smtp.mailfrom=x@evil.example\n", offer, replyCode, "", false,
					"550"},
				{"white sender, SPF by a stranger", "x@friend.example", "bob@example.com",
					"Authentication-Results: mx.example.org; spf=pass smtp.mailfrom=x@friend.example\n", offer, replyCode, "", false,
					"550"},
				{"white sender, DKIM failed", "x@friend.example", "bob@example.com",
					"Authentication-Results: mx.example.com; dkim=fail header.d=friend.example\n", offer, replyCode, "", false, "550"},
				{"white DKIM", "x@shop.example", "bob@example.com",
					"Authentication-Results: mx.example.com; dkim=pass header.d=friend.example\n", offer, replyAccept, ClassWhite,
					false, "dkim friend.example is in list good"},
				{"white DKIM, Sender of another", "x@shop.example", "bob@example.com",
					"Sender: x@friend.example\nAuthentication-Results: mx.example.com; dkim=pass header.d=shop.example\n",
					offer, replyCode, "", false, "550"},
				{"white client", "x@shop.example", "bob@example.com", "", offer, replyAccept,
					ClassWhite, false, "client 198.51.100.99"},
				{"black sender", "x@evil.example", "bob@example.com", "", prose(20), replyAccept, ClassListed, true,
					"list=black:bad (envelope sender evil.example) error=1.0e-06"},
				{"black, strict", "x@evil.example", "bob@strict.example.org", "", prose(1), replyCode, "", false,
					"550 5.7.1 we say: listed, 100  sure"},
				{"black reply-to", "x@shop.example", "bob@example.com", "Reply-To: \"A, b\" <x@evil.example>\n", prose(2),
					replyAccept, ClassListed, true, "reply-to evil.example"},
				{"black URL", "x@shop.example", "bob@example.com", "", prose(21) + " http://www.evil.example/x", replyAccept,
					ClassListed, true, "(phishing)"},
				{"white URL clears nothing", "x@shop.example", "bob@example.com", "", offer + "\nhttp://friend.example/", replyCode,
					"", false, "550"},
				{"grey", "x@grey.example", "bob@soft.example.net", "", prose(3), replyAccept, ClassGrey, true, "list=grey:odd"},
				{"clean", "x@shop.example", "bob@example.com", "", prose(4), replyAccept, ClassNone, false, "bulkhead=none"},
				{"too short", "x@shop.example", "bob@example.com", "", "hi", replyAccept, ClassNone, false, "too short"},
			} {
				if tt.name == "white client" {
					m = dial(v.version, v.steps)
					m.connect("198.51.100.99")
				}
				r := m.message(tt.from, strings.Fields(tt.to), text(tt.header, tt.body))
				if tt.name == "white client" {
					m = dial(v.version, v.steps)
					m.connect("198.51.100.7")
				}
				results := r.inserted[HeaderResults]
				if r.code != tt.code || r.inserted[HeaderClass] != string(tt.class) || (r.quarantine != "") != tt.quarantined ||
					!strings.Contains(r.text+results, tt.want) {
					t.Errorf("%s: reply %q %q, headers %q, quarantine %q; want %q, class %q, %q",
						tt.name, r.code, r.text, r.inserted, r.quarantine, tt.code, tt.class, tt.want)
				}
				if results != "" && (!strings.HasPrefix(results, "mx.example.com; ") || strings.Contains(results, "\r")) {
					t.Errorf("%s: results %q", tt.name, results)
				}
			}
		})
	}
}

// TestFromClearsOnlyIfVerified: a whitelisted From lets spam in only if a trusted host has verified
// the domain. A blacklisted From always condemns.
func TestFromClearsOnlyIfVerified(t *testing.T) {
	house := &prototest.House{}
	report(t, house, offer)
	for _, tt := range []struct {
		name, header, body string
		hosts              []string
		want               string // class, or "" if refused
	}{
		{"forged", "", offer, []string{"mx.example.com"}, ""},
		{"signed", "Authentication-Results: mx.example.com; dkim=pass header.d=friend.example\r\n", offer,
			[]string{"mx.example.com"}, "white"},
		{"signed, nobody is believed", "Authentication-Results: mx.example.com; dkim=pass header.d=friend.example\r\n", offer,
			nil, ""},
		{"signed by another", "Authentication-Results: mx.example.com; dkim=pass header.d=unfriend.example\r\n", offer,
			[]string{"mx.example.com"}, ""},
		{"listed in the List-Id", "List-Id: <friend.example>\r\n", offer, []string{"mx.example.com"}, ""},
	} {
		s := &Server{
			Clearinghouse: house, Policies: []Policy{{Spam: Reject}}, AuthResults: func() []string { return tt.hosts },
			Lists: lists{"@friend.example": {List: "good", Tone: "white"}},
		}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		r := m.message("x@shop.example", []string{"bob@example.com"}, strings.ReplaceAll("From: Ann <ann@friend.example>\r\n"+
			tt.header+"\r\n"+tt.body+"\r\n", "\r\n", "\n"))
		if r.inserted[HeaderClass] != tt.want || (r.code == replyCode) != (tt.want == "") {
			t.Errorf("%s: %q %q, headers %q; want %q", tt.name, r.code, r.text, r.inserted, tt.want)
		}
	}
}

// TestBulk sends one text to growing numbers of recipients: the message that
// passes the threshold is bulk.
func TestBulk(t *testing.T) {
	house := &prototest.House{Threshold: 10}
	s := &Server{Clearinghouse: house, Policies: []Policy{{Bulk: Tempfail}, {Domain: "example.net", Threshold: 100}}}
	m := serve(t, s)(6, everything)
	m.connect("2001:db8::7")
	for i := range 4 {
		r := m.message("ann@shop.example", []string{"a@example.com", "b@example.com", "c@example.com"}, text("", offer))
		want := byte(replyAccept)
		if i == 3 {
			want = replyCode // 12 recipients
		}
		if r.code != want {
			t.Errorf("message %d: %q %q, want %q", i, r.code, r.text, want)
		}
		s.Flush()
	}
	if r := m.message("ann@shop.example", []string{"a@example.net"}, text("", offer)); r.code != replyAccept ||
		r.inserted[HeaderClass] != "none" {
		t.Errorf("domain with a higher threshold: %q %q", r.code, r.inserted)
	}
	s.Flush()
	if n := len(house.Reports()); n != 5 {
		t.Errorf("%d sightings for 5 messages", n)
	}
	for i, report := range house.Reports() {
		if want := []uint32{3, 3, 3, 3, 1}[i]; report.Count != want || report.Vote != bulkhead.Sighting ||
			report.Source.Client != netip.MustParseAddr("2001:db8::7") {
			t.Errorf("sighting %d: %+v, want a count of %d", i, report, want)
		}
	}
}

// TestRetry: the same delivery has the same ID, and another delivery has another ID.
func TestRetry(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	withID := text("Message-ID: <1@shop.example>\n", offer)
	m.message("ann@shop.example", []string{"a@example.com", "b@example.com"}, withID)
	s.Flush()
	m.message("ann@shop.example", []string{"b@example.com", "a@example.com"}, withID)
	s.Flush()
	m.message("ann@shop.example", []string{"c@example.com"}, withID)
	s.Flush()
	r := house.Reports()
	if len(r) != 3 || r[0].ID == "" || r[0].ID != r[1].ID || r[0].ID == r[2].ID {
		t.Errorf("IDs of %d reports: %q, %q, %q", len(r), r[0].ID, r[1].ID, r[2].ID)
	}
}

// TestRetryIsNoBulk sends one message again, as after a temporary refusal of
// another filter: it must not count itself twice on its way to the threshold.
func TestRetryIsNoBulk(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{Threshold: 8}, Policies: []Policy{{Bulk: Reject}}}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	withID := text("Message-ID: <1@shop.example>\n", offer)
	for i, tt := range []struct {
		to   []string
		text string
		code byte
	}{
		{[]string{"a@example.com", "b@example.com", "c@example.com", "d@example.com"}, withID, replyAccept},
		{[]string{"a@example.com", "b@example.com", "c@example.com", "d@example.com"}, withID, replyAccept},
		{[]string{"e@example.com", "f@example.com", "g@example.com"}, withID, replyAccept}, // 7
		{[]string{"h@example.com"}, withID, replyCode},
	} {
		if r := m.message("ann@shop.example", tt.to, tt.text); r.code != tt.code {
			t.Errorf("message %d: %q %q, want %q", i, r.code, r.text, tt.code)
		}
		s.Flush()
	}
}

// TestDeliveries: the last deliveries are remembered, and no more than the limit.
func TestDeliveries(t *testing.T) {
	var d deliveries
	d.add("")
	for i := range 3 * maxDeliveries {
		d.add(fmt.Sprint(i))
		if first := max(0, i-maxDeliveries+1); d.has("") || !d.has(fmt.Sprint(i)) || !d.has(fmt.Sprint(first)) {
			t.Fatalf("after %d: the last or the one before %d is forgotten, or one without ID is known", i, maxDeliveries)
		}
	}
	if n := len(d.young) + len(d.old); n > 2*maxDeliveries || d.has("0") {
		t.Errorf("%d deliveries are kept", n)
	}
}

func TestForgedHeaders(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	r := m.message("ann@shop.example", []string{"bob@example.com"},
		text("X-Bulkhead: none\nx-bulkhead-results: all is well\nX-BULKHEAD: white\nX-Bulkheads: not ours\n", offer))
	got := strings.Join(r.deleted, ", ")
	if len(r.deleted) != 3 || !strings.Contains(got, "2 x-bulkhead, 1 x-bulkhead") ||
		!strings.Contains(got, "1 x-bulkhead-results") {
		t.Errorf("deleted %q", got)
	}
	if r.inserted[HeaderClass] != "none" || s.Stats.Forged.Load() != 3 {
		t.Errorf("inserted %q, %d forged", r.inserted, s.Stats.Forged.Load())
	}
	// A mail server that lets no header be changed gets no such request.
	m = serveWith(t, &Server{Clearinghouse: house}, 0x1ff&^actChangeHeaders)(6, everything)
	m.connect("198.51.100.7")
	r = m.message("ann@shop.example", []string{"bob@example.com"}, text("X-Bulkhead: none\n", offer))
	if len(r.deleted) > 0 || r.code != replyAccept {
		t.Errorf("deleted %q, %q", r.deleted, r.code)
	}
}

func TestExempt(t *testing.T) {
	house := &prototest.House{}
	report(t, house, offer)
	s := &Server{
		Clearinghouse: house, Policies: []Policy{{Spam: Reject}}, ExemptLogins: true,
		ExemptNetworks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}
	dial := serve(t, s)
	m := dial(6, everything)
	m.connect("198.51.100.7")
	m.macro(cmdMail, "i", "1", "{auth_authen}", "ann")
	if r := m.message("ann@example.com", []string{"bob@example.net"}, text("", offer)); r.code != replyAccept {
		t.Errorf("authenticated: %q %q", r.code, r.text)
	}
	m.macro(cmdMail, "i", "2")
	if r := m.message("ann@example.com", []string{"bob@example.net"}, text("", offer)); r.code != replyCode {
		t.Errorf("the next message, not authenticated: %q %q", r.code, r.text)
	}
	m = dial(6, everything)
	m.connect("192.0.2.5")
	if r := m.message("ann@example.com", []string{"bob@example.net"}, text("", offer)); r.code != replyAccept {
		t.Errorf("exempt network: %q %q", r.code, r.text)
	}
	for _, family := range []string{"U", "L\x00\x00/run/x\x00"} {
		m = dial(6, everything)
		m.step(cmdConnect, []byte("localhost\x00"+family))
		if r := m.message("ann@example.com", []string{"bob@example.net"}, text("", offer)); r.code != replyAccept {
			t.Errorf("local submission %q: %q %q", family, r.code, r.text)
		}
	}
	s.Flush()
	if n := len(house.Reports()); n != 2 || s.Stats.Exempt.Load() != 4 {
		t.Errorf("%d reports, %d exempt messages, want 2 and 4", n, s.Stats.Exempt.Load())
	}
	if n, _, _ := s.Stats.Times.Read(); n != uint64(s.Stats.Messages.Load()) || n == 0 {
		t.Errorf("times of %d answers to %d messages", n, s.Stats.Messages.Load())
	}
}

// TestRecipients: a sighting names the mailboxes of the message, each once, and no more than a
// report may name. All of them count for the threshold.
func TestRecipients(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	var many []string
	for i := range bulkhead.MaxRecipients + 5 {
		many = append(many, fmt.Sprintf("user%d@example.com", i))
	}
	m.message("x@shop.example", []string{"Bob@example.com", "bob+shops@Example.com", "bob+@example.com",
		"ann@example.com"}, text("", offer))
	s.Flush() // sightings are counted beside each other, in any order
	m.message("x@shop.example", many, text("", prose(1)))
	s.Flush()
	reports := house.Reports()
	if len(reports) != 2 {
		t.Fatalf("%d reports, want 2", len(reports))
	}
	if got, want := reports[0].Recipients, []string{"bob@example.com", "ann@example.com"}; !slices.Equal(got, want) ||
		reports[0].Count != 4 {
		t.Errorf("recipients %q, count %d; want %q and 4", got, reports[0].Count, want)
	}
	if got := reports[1]; len(got.Recipients) != bulkhead.MaxRecipients || got.Count != uint32(len(many)) {
		t.Errorf("%d recipients, count %d; want %d and %d", len(got.Recipients), got.Count, bulkhead.MaxRecipients, len(many))
	}
}

// TestSuspected: a suspected message is reported and counted as such, and each domain decides on
// the action. The same holds for spam with less confidence than the domain requires.
func TestSuspected(t *testing.T) {
	house := &prototest.House{}
	report(t, house, offer)
	sigs, err := signature.Compute(t.Context(), []byte(strings.ReplaceAll(text("", prose(7)), "\n", "\r\n")),
		signature.Options{})
	if err != nil || len(sigs) == 0 {
		t.Fatal(err)
	}
	house.Suspected = map[bulkhead.Signature]bool{sigs[0]: true}
	s := &Server{
		Clearinghouse: house, Lists: lists{"evil.example": {List: "bad", Tone: "black"},
			"friend.example": {List: "good", Tone: "white"}, "198.51.100.99": {List: "good", Tone: "white"}},
		Policies: []Policy{
			{Spam: Reject, Listed: Tempfail},
			{Domain: "strict.example.net", Suspected: Reject, Spam: Reject},
			{Domain: "sure.example.org", Spam: Reject, Suspected: Quarantine, Confidence: 100},
			{Domain: "quiet.example.org", Suspected: None},
		},
	}
	dial := serve(t, s)
	m := dial(6, everything)
	m.connect("198.51.100.7")
	for _, tt := range []struct {
		from, to, body string
		code           byte
		class          Class
	}{
		{"x@shop.example", "bob@example.com", prose(7), replyAccept, ClassSuspected},
		{"x@shop.example", "bob@strict.example.net", prose(7), replyCode, ""},
		{"x@shop.example", "bob@quiet.example.org", prose(7), replyAccept, ""},
		{"x@evil.example", "bob@example.com", prose(7), replyCode, ""},
		{"x@shop.example", "bob@example.com", prose(8), replyAccept, ClassNone},
	} {
		if r := m.message(tt.from, []string{tt.to}, text("", tt.body)); r.code != tt.code ||
			r.inserted[HeaderClass] != string(tt.class) {
			t.Errorf("%s to %s: %q %q, class %q; want %q, %q", tt.from, tt.to, r.code, r.text, r.inserted[HeaderClass], tt.code,
				tt.class)
		}
	}
	if n := s.Stats.Classes.Suspected.Load(); n != 3 {
		t.Errorf("%d messages counted as suspected, want 3", n)
	}

	// Almost certain: another voter calls it ham.
	sure := &findings{verdict: bulkhead.Verdict{Judged: bulkhead.JudgedSpam, Class: bulkhead.ClassSpam, Confidence: 70,
		Threshold: 20}}
	for domain, want := range map[string]Class{"sure.example.org": ClassSuspected, "strict.example.net": ClassSpam} {
		if _, c, a := s.setup.policies.Load().decide([]string{"bob@" + domain}, sure); c != want || want == ClassSuspected &&
			a != Quarantine {
			t.Errorf("at %s: %s, %s; want %s", domain, c, a, want)
		}
	}
	white := &findings{verdict: bulkhead.Verdict{Class: bulkhead.ClassSuspected}, white: &Match{}}
	if _, c, _ := s.setup.policies.Load().decide([]string{"bob@example.com"}, white); c != ClassWhite {
		t.Errorf("suspected and whitelisted is %s", c)
	}
}

// TestSkip checks that a mail server that waits for the answer to each part of a body is asked to skip the rest
// of a body that is too large, if it can.
func TestSkip(t *testing.T) {
	for _, tt := range []struct {
		steps uint32
		want  byte
	}{
		{everything &^ noReplyBody, replySkip}, {everything &^ (noReplyBody | canSkip), replyContinue},
		{everything, replyContinue},
	} {
		m := serve(t, &Server{Clearinghouse: &prototest.House{}, MaxMessage: 2000})(6, tt.steps)
		m.connect("198.51.100.7")
		m.begin("x@shop.example", []string{"bob@example.com"}, text("", offer))
		for size, want := range []byte{replyContinue, tt.want, tt.want} {
			if p := m.step(cmdBody, bytes.Repeat([]byte("x"), 1+2000*size)); p.cmd != want {
				t.Errorf("steps %x, part %d: reply %q, want %q", tt.steps, size, p.cmd, want)
			}
		}
	}
}

func TestTraps(t *testing.T) {
	for _, discard := range []bool{false, true} {
		house := &prototest.House{}
		s := &Server{Clearinghouse: house, Traps: []string{"Trap@example.com", "@trap.example"}, DiscardTrapped: discard}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		want := byte(replyAccept)
		if discard {
			want = replyDiscard
		}
		if r := m.message("x@shop.example", []string{"trap@EXAMPLE.com", "any@trap.example"},
			text("", offer)); r.code != want {
			t.Errorf("discard %v: %q", discard, r.code)
		}
		if r := m.message("x@shop.example", []string{"trap@example.com", "bob@example.com"},
			text("Message-ID: <1@shop.example>\n", offer)); r.code != replyAccept {
			t.Errorf("discard %v, one recipient is none: %q", discard, r.code)
		}
		if r := m.message("x@shop.example", nil, text("", offer)); r.code != replyAccept {
			t.Errorf("discard %v, without recipients: %q", discard, r.code)
		}
		s.Flush()
		spam := 0
		var delivered []string
		ids := make(map[string]bool)
		for _, r := range house.Reports() {
			if r.Vote == bulkhead.Spam {
				spam += int(r.Count)
			} else {
				delivered = append(delivered, r.Recipients...)
			}
			ids[r.ID] = true
			if trap := r.Vote == bulkhead.Spam; r.Trap != trap || trap && len(r.Recipients) > 0 || !trap && r.Count != 1 {
				t.Errorf("discard %v: %+v", discard, r)
			}
		}
		if !slices.Equal(delivered, []string{"bob@example.com"}) {
			t.Errorf("discard %v: delivered to %q, want bob alone: traps are nobody's mailboxes", discard, delivered)
		}
		trapped := false
		for id := range ids {
			delivery, ok := strings.CutPrefix(id, "trap ")
			if trapped = trapped || ok; ok && (delivery == "" || !ids[delivery]) {
				t.Errorf("discard %v: the vote %q is of no delivery; %v", discard, id, ids)
			}
		}
		if !trapped {
			t.Errorf("discard %v: no vote of a trap has an ID of its own: %v", discard, ids)
		}
		if spam != 3 || s.Stats.Trapped.Load() != 2 {
			t.Errorf("discard %v: %d spam votes of %d messages, want 3 of 2", discard, spam, s.Stats.Trapped.Load())
		}
	}
	for _, bad := range []string{"trap", "trap@", "a b@example.com"} {
		if err := (&Server{Clearinghouse: &prototest.House{}, Traps: []string{bad}}).Prepare(); err == nil {
			t.Errorf("trap %q was taken", bad)
		}
	}
}

// panicky panics, or is out of order.
type panicky struct{ *prototest.House }

func (panicky) Check(context.Context, bulkhead.Query) (bulkhead.Verdict, error) {
	panic("at the disco")
}

// noReports answers checks but takes no reports.
type noReports struct{ *prototest.House }

func (noReports) Report(context.Context, bulkhead.Report) (bulkhead.Receipt, error) {
	return bulkhead.Receipt{}, errors.New("no room")
}

func TestTrouble(t *testing.T) {
	full := &prototest.House{}
	report(t, full, offer)
	for _, tt := range []struct {
		name     string
		house    bulkhead.Clearinghouse
		tempfail bool
		want     byte
		judged   bool
	}{
		{"fault", &prototest.House{Err: errors.New("disk on fire")}, false, replyAccept, false},
		{"fault, tempfail", &prototest.House{Err: errors.New("disk on fire")}, true, replyTempfail, false},
		{"panic", panicky{full}, false, replyAccept, false},
		{"panic, tempfail", panicky{full}, true, replyTempfail, false},
		{"read-only", noReports{full}, true, replyCode, true},
	} {
		s := &Server{Clearinghouse: tt.house, FailTempfail: tt.tempfail, Policies: []Policy{{Spam: Reject}}}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		for range 2 { // the connection survives
			r := m.message("x@shop.example", []string{"bob@example.com"}, text("X-Bulkhead: white\n", offer))
			if r.code != tt.want || len(r.inserted) > 0 || (r.code == replyAccept) != (len(r.deleted) == 1) {
				t.Errorf("%s: %+v, want %q", tt.name, r, tt.want)
			}
		}
		s.Flush()
		if got := s.Stats.Faults.Load(); got != 2 {
			t.Errorf("%s: %d faults, want 2", tt.name, got)
		}
	}
}

// TestTimeout: a message whose signatures take longer than the timeout is answered as one that
// cannot be judged, and is neither looked up nor counted. House ignores contexts, so reading must
// have ended.
func TestTimeout(t *testing.T) {
	for _, tt := range []struct {
		tempfail bool
		want     byte
	}{{false, replyAccept}, {true, replyTempfail}} {
		house := &prototest.House{}
		report(t, house, offer)
		known := len(house.Reports())
		s := &Server{Clearinghouse: house, FailTempfail: tt.tempfail, Timeout: time.Nanosecond,
			Policies: []Policy{{Spam: Reject}}}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		if r := m.message("x@shop.example", []string{"bob@example.com"}, text("", offer)); r.code != tt.want {
			t.Errorf("reply %+v, want %q", r, tt.want)
		}
		s.Flush()
		if n := s.Stats.Faults.Load(); n != 1 || len(house.Reports()) != known {
			t.Errorf("%d faults, %d messages counted; want 1 and none", n, len(house.Reports())-known)
		}
	}
}

// TestCrowded: a message that finds no memory is answered as one that cannot be judged, and gives
// back all that it held. The next message, which finds memory, is judged.
func TestCrowded(t *testing.T) {
	for _, tt := range []struct {
		tempfail bool
		want     byte
	}{{false, replyAccept}, {true, replyTempfail}} {
		house := &prototest.House{}
		report(t, house, offer)
		memory := door.NewMemory(1 << 20)
		others := memory.Hold()
		s := &Server{Clearinghouse: house, FailTempfail: tt.tempfail, Timeout: 10 * time.Second, Memory: memory,
			Policies: []Policy{{Spam: Reject}}}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		// Room for the header and not for the body, which then does not wait.
		if err := others.Take(t.Context(), 1<<20-8<<10, 0); err != nil {
			t.Fatal(err)
		}
		r := m.message("x@shop.example", []string{"bob@example.com"}, text("", strings.Repeat(offer, 30)))
		if r.code != tt.want || s.Stats.Faults.Load() != 1 {
			t.Errorf("reply %+v and %d faults, want %q and 1", r, s.Stats.Faults.Load(), tt.want)
		}
		if _, held, refusals := memory.Usage(); held != 1<<20-8<<10 || refusals != 1 {
			t.Errorf("%d bytes are held, %d refusals", held, refusals)
		}
		others.Release()
		if r := m.message("x@shop.example", []string{"bob@example.com"}, text("", offer)); r.code != replyCode {
			t.Errorf("with memory again: reply %+v, want %q", r, replyCode)
		}
	}
}

// TestCrowd sends large messages through many connections at once, with memory for two
// of them. Each is judged or let through, and all memory is given back.
func TestCrowd(t *testing.T) {
	house := &prototest.House{}
	report(t, house, offer)
	memory := door.NewMemory(2 * door.Cost * 300_000)
	s := &Server{Clearinghouse: house, Timeout: time.Minute, Memory: memory}
	dial := serve(t, s)
	large := text("", strings.Repeat("All that we wrote in those years, line by line.\r\n", 5000))
	var all sync.WaitGroup
	for range 8 {
		m := dial(6, everything)
		m.connect("198.51.100.7")
		all.Go(func() {
			for range 3 {
				if r := m.message("x@shop.example", []string{"bob@example.com"}, large); r.code != replyAccept &&
					r.code != replyContinue {
					t.Errorf("reply %+v", r)
				}
			}
		})
	}
	all.Wait()
	s.Flush()
	_, held, refusals := memory.Usage()
	if held != 0 || refusals != s.Stats.Faults.Load() || s.Stats.Messages.Load() != 24 || refusals == 24 {
		t.Errorf("%d bytes are held; %d of %d messages were refused, %d faults", held, refusals,
			s.Stats.Messages.Load(), s.Stats.Faults.Load())
	}
}

// deadlines notes the deadline of each check and of each report.
type deadlines struct {
	*prototest.House
	check, report chan time.Time
}

func (d *deadlines) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	end, _ := ctx.Deadline()
	d.check <- end
	return d.House.Check(ctx, q)
}

func (d *deadlines) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	end, _ := ctx.Deadline()
	d.report <- end
	return d.House.Report(ctx, r)
}

// TestCountInTime: while too many sightings wait for the disk, a message waits for its own
// sighting, but not beyond its time limit.
func TestCountInTime(t *testing.T) {
	house := &deadlines{&prototest.House{}, make(chan time.Time, 1), make(chan time.Time, 1)}
	s := &Server{Clearinghouse: house, Policies: []Policy{{Spam: Reject}}}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	for range maxPending {
		s.counting.slots <- struct{}{}
	}
	if r := m.message("x@shop.example", []string{"bob@example.com"}, text("", offer)); r.code != replyAccept {
		t.Errorf("reply %+v", r)
	}
	for range maxPending {
		<-s.counting.slots
	}
	if check, report := <-house.check, <-house.report; check.IsZero() || !report.Equal(check) {
		t.Errorf("checked until %v, counted until %v; want the same", check, report)
	}
}

func TestOversize(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house, MaxMessage: 100_000}
	for _, v := range versions {
		m := serve(t, s)(v.version, v.steps)
		m.connect("198.51.100.7")
		if r := m.message("x@shop.example", []string{"bob@example.com"},
			text("", strings.Repeat(offer+"\n", 1000))); r.code != replyAccept || len(r.inserted) > 0 {
			t.Errorf("%s: %+v", v.name, r)
		}
		if r := m.message("x@shop.example", []string{"bob@example.com"}, text("", offer)); r.inserted[HeaderClass] != "none" {
			t.Errorf("%s: the message after it: %+v", v.name, r)
		}
		s.Flush()
		s = &Server{Clearinghouse: house, MaxMessage: 100_000}
	}
	if n := len(house.Reports()); n != 2 {
		t.Errorf("%d reports, want 2", n)
	}
}

// TestRoom: a message of exactly the limit is kept, in whatever chunks it arrives. A message one
// byte longer is not kept, nor are its further bytes.
func TestRoom(t *testing.T) {
	for _, tt := range []struct {
		chunks []int
		kept   int
	}{{[]int{1024}, 1024}, {[]int{1023, 1}, 1024}, {[]int{1025}, 0}, {[]int{1024, 1}, 0}, {[]int{1024, 1, 0, 10}, 0},
		{[]int{1000, 0, 24}, 1024}} {
		k := &session{server: &Server{MaxMessage: 1024}}
		for _, n := range tt.chunks {
			k.body(make([]byte, n))
		}
		if got := k.msg.raw.Len(); got != tt.kept || k.msg.oversize != (tt.kept == 0) {
			t.Errorf("chunks of %v bytes: %d kept, oversize %v; want %d", tt.chunks, got, k.msg.oversize, tt.kept)
		}
	}
}

// TestRoomForHeader: the blank, the colon and the line end of a header take room as well.
func TestRoomForHeader(t *testing.T) {
	for n, kept := range map[int]int{1024: 1024, 1025: 0} {
		k := &session{server: &Server{MaxMessage: 1024}}
		if err := k.header([]byte("Name\x00" + strings.Repeat("x", n-len("Name: \r\n")) + "\x00")); err != nil {
			t.Fatal(err)
		}
		if got := k.msg.raw.Len(); got != kept || k.msg.oversize != (kept == 0) {
			t.Errorf("a header of %d bytes: %d kept, oversize %v; want %d", n, got, k.msg.oversize, kept)
		}
	}
}

// TestMacrosEndWithMessage: macros of a message do not apply to the next one. Macros of the connection and of the
// next sender do.
func TestMacrosEndWithMessage(t *testing.T) {
	for cmd, lasts := range map[byte]bool{cmdConnect: true, cmdHelo: true, cmdMail: true, cmdRcpt: false, cmdData: false,
		cmdEnd: false} {
		k := &session{server: &Server{}, macros: make(map[byte]map[string]string)}
		if err := k.setMacros(append([]byte{cmd}, "{i}\x004711\x00"...)); err != nil || k.macro("i") != "4711" {
			t.Fatalf("%c: %q, %v", cmd, k.macro("i"), err)
		}
		if k.reset(); (k.macro("i") != "") != lasts {
			t.Errorf("%c: %q after the message", cmd, k.macro("i"))
		}
	}
}

// TestAborts: messages are broken off at every point, and the next message is judged correctly.
func TestAborts(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	for range 3 {
		m.step(cmdMail, []byte("<x@evil.example>\x00"))
		m.send(cmdAbort)
		m.begin("y@evil.example", []string{"a@example.net", "b@example.net"},
			text("X-Bulkhead: x\nReply-To: z@evil.example\n", offer+offer))
		m.send(cmdAbort)
	}
	if r := m.message("x@shop.example", []string{"bob@example.com"}, text("", offer)); r.code != replyAccept ||
		len(r.deleted) != 0 {
		t.Errorf("%+v", r)
	}
	s.Flush()
	// The mail server uses the connection for another client.
	m.send(cmdNewConn)
	m.connect("203.0.113.9")
	m.message("x@shop.example", []string{"bob@example.com"}, text("", offer))
	s.Flush()
	reports := house.Reports()
	if len(reports) != 2 || reports[0].Count != 1 || reports[0].Source.ClaimedSender != "x@shop.example" ||
		reports[0].Source.Sender != "" ||
		reports[1].Source.Client != netip.MustParseAddr("203.0.113.9") {
		t.Fatalf("reports %+v", reports)
	}
	want, err := signature.Compute(t.Context(), []byte("From: x\r\n\r\n"+offer+"\r\n"), signature.Options{})
	want = append(want, bulkhead.NamedSignature(bulkhead.Network, "198.51.100.0/24"))
	if err != nil || fmt.Sprint(reports[0].Signatures) != fmt.Sprint(want) {
		t.Errorf("signatures %v, %v, want those of the text and the client's network, %v", reports[0].Signatures, err, want)
	}
}

// TestManyConnections holds 500 connections at once, each with several messages.
func TestManyConnections(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house, Timeout: time.Hour} // 500 at once are slow on a busy machine
	dial := serve(t, s)
	const conns, messages = 500, 3
	var open, wg sync.WaitGroup
	open.Add(conns)
	for i := range conns {
		m := dial(6, everything)
		wg.Go(func() {
			m.connect("198.51.100.7")
			open.Done()
			open.Wait() // all of them are connected now
			for j := range messages {
				r := m.message("x@shop.example", []string{"bob@example.com"}, text("", fmt.Sprint(offer, " ", i*messages+j)))
				if r.code != replyAccept {
					t.Errorf("connection %d: %q", i, r.code)
				}
			}
			m.send(cmdQuit)
		})
	}
	wg.Wait()
	s.Flush()
	if n := len(house.Reports()); n != conns*messages {
		t.Errorf("%d messages counted, want %d", n, conns*messages)
	}
}

// limits takes the action from the local part of the recipient's address.
type limits struct{}

func (limits) Limit(_ context.Context, attr func(string) []byte) (action policy.Action, text string, err error) {
	to := string(attr("recipient"))
	local, _, _ := strings.Cut(to, "@")
	return policy.Action(local),
		fmt.Sprintf("%s from %s for %s", attr("sender"), attr("client_address"), attr("sasl_username")), nil
}

func TestLimiter(t *testing.T) {
	house := &prototest.House{}
	s := &Server{Clearinghouse: house, Limiter: limits{}, ExemptLogins: true}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	for to, want := range map[string]string{
		"defer@example.com":  "450 4.7.1 x@shop.example from 198.51.100.7 for ann",
		"reject@example.com": "550 5.7.1 x@shop.example from 198.51.100.7 for ann",
		"dunno@example.com":  "",
	} {
		m.macro(cmdMail, "{auth_authen}", "ann") // mail servers send these before every sender
		r := m.message("x@shop.example", []string{to}, text("", offer))
		if r.text != want || (r.code == replyAccept) != (want == "") {
			t.Errorf("%s: %q %q, want %q", to, r.code, r.text, want)
		}
	}
	if n := len(house.Reports()); n != 0 {
		t.Errorf("%d reports of an exempt sender", n)
	}
}

func TestMalformedPackets(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}}
	dial := serve(t, s)
	for name, raw := range map[string]string{
		"no length":          "\x00\x00\x00\x00B",
		"huge":               "\xff\xff\xff\xffB",
		"connect, no end":    "\x00\x00\x00\x02Cx",
		"connect, no family": "\x00\x00\x00\x03Cx\x00",
		"connect, cut":       "\x00\x00\x00\x05Cx\x004\x00",
		"connect, address":   "\x00\x00\x00\x08Cx\x004\x00\x19x\x00",
		"connect, family":    "\x00\x00\x00\x04Cx\x00Z",
		"mail, no end":       "\x00\x00\x00\x03M<>",
		"mail, empty":        "\x00\x00\x00\x01M",
		"rcpt, no end":       "\x00\x00\x00\x03R<>",
		"rcpt, empty":        "\x00\x00\x00\x01R",
		"header":             "\x00\x00\x00\x03Lx\x00",
		"macros":             "\x00\x00\x00\x04DMi\x00",
		"no macros":          "\x00\x00\x00\x01D",
		"unknown":            "\x00\x00\x00\x01z",
		"again":              "\x00\x00\x00\x0dO\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		m := dial(6, everything)
		if _, err := m.c.Write([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		if out, err := io.ReadAll(m.r); len(out) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %q, %v, want the connection closed", name, out, err)
		}
	}
	m := dial(6, everything)
	m.connect("198.51.100.7")
	if r := m.message("x@shop.example", []string{"bob@example.com"}, text("", offer)); r.code != replyAccept {
		t.Errorf("afterwards: %q", r.code)
	}
}

func TestBadPolicies(t *testing.T) {
	for _, bad := range [][]Policy{
		{{Spam: "explode"}}, {{Confidence: 101}}, {{Confidence: -1}}, {{Text: "a\nb"}}, {{Text: strings.Repeat("x", 401)}},
		{{Domain: "a.example"}, {Domain: "A.example."}},
	} {
		s := &Server{Clearinghouse: &prototest.House{}, Policies: bad}
		if err := s.Prepare(); err == nil || !strings.HasPrefix(err.Error(), "milter: ") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := (&Server{}).Prepare(); err == nil {
		t.Error("no clearinghouse, no error")
	}
	if err := (&Server{Clearinghouse: &prototest.House{}, MaxMessage: 1 << 30}).Prepare(); err == nil {
		t.Error("MaxMessage of a gibibyte was taken")
	}
}

func TestURLs(t *testing.T) {
	raw := "Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\n" +
		"See http://a.example/x?y=1&z=2, (https://b.example/) or seehttp://c.example. Not ftp://d.example, not ://\r\n" +
		"HTTP://E.example/ http://a.example/x?y=1&z=2\r\n--x\r\nContent-Type: text/html\r\n" +
		"Content-Transfer-Encoding: quoted-printable\r\n\r\n" +
		"<a href=3D\"http://f.exam=\r\nple/?a=3D1&amp;b=3D2\">x</a><img src=3D\"//g.example/i.png\">\r\n--x--\r\n"
	m, err := mail.Read(t.Context(), []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(urls(t.Context(), m))
	if want := "[http://a.example/x?y=1&z=2 http://b.example/ http://c.example/ http://e.example/ " +
		"http://f.example/?a=1&b=2 http://g.example/i.png]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// FuzzSession feeds a connection's bytes after the negotiation to a session: it
// must not panic, and every reply must be a well-formed packet.
func FuzzSession(f *testing.F) {
	var good []byte
	good = appendPacket(good, cmdConnect, []byte("x\x004\x00\x19192.0.2.1\x00"))
	good = appendPacket(good, cmdMacro, []byte("Mi\x001\x00"))
	good = appendPacket(good, cmdMail, []byte("<a@shop.example>\x00"))
	good = appendPacket(good, cmdRcpt, []byte("<b@example.com>\x00"))
	good = appendPacket(good, cmdHeader, []byte("X-Bulkhead\x00x\x00"))
	good = appendPacket(good, cmdHeader, []byte("Reply-To\x00a@b\n\tc\x00"))
	good = appendPacket(good, cmdEOH)
	good = appendPacket(good, cmdBody, []byte(offer))
	good = appendPacket(good, cmdEnd)
	f.Add(good, uint32(everything))
	f.Add(good[:40], uint32(0))
	f.Add([]byte("\x00\x00\x00\x02Cx"), uint32(0x7f))
	s := &Server{Clearinghouse: &prototest.House{}, MaxMessage: 4096, Policies: []Policy{{Bulk: Quarantine}}}
	if err := s.Prepare(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, steps uint32) {
		k := &session{server: s, macros: make(map[byte]map[string]string)}
		if err := k.negotiate(options{6, 0x1ff, steps}.append(nil)[5:]); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(bytes.NewReader(data))
		for {
			p, buf, err := readPacket(r, k.buf)
			if k.buf = buf; err != nil {
				break
			}
			if err := k.command(t.Context(), p); err != nil {
				break
			}
		}
		replies := bufio.NewReader(bytes.NewReader(k.out))
		for {
			p, _, err := readPacket(replies, nil)
			if err == io.EOF {
				return
			}
			if err != nil || !bytes.ContainsRune([]byte("Oacdimqsty"), rune(p.cmd)) {
				t.Fatalf("reply %q, %v of % x", p.cmd, err, k.out)
			}
		}
	})
}

// BenchmarkMessage measures a message of 20 KB from its first command to its
// verdict, over loopback, with the mail server's side on the same machine.
func BenchmarkMessage(b *testing.B) {
	m := serve(b, &Server{Clearinghouse: &prototest.House{}})(6, everything)
	m.connect("198.51.100.7")
	body := strings.Repeat(offer+"\n", 20_000/len(offer))
	serial := make([]byte, 8)
	for i := range b.N {
		binary.BigEndian.PutUint64(serial, uint64(i))
		if r := m.message("x@shop.example", []string{"bob@example.com"},
			text("", fmt.Sprintf("%s %x", body, serial))); r.code != replyAccept {
			b.Fatal(r.code)
		}
	}
}

// TestTrapNotCounted checks that a vote of a trap which the node refuses is a fault, and that the mail is still
// accepted.
func TestTrapNotCounted(t *testing.T) {
	var log bytes.Buffer
	house := &noVotes{}
	s := &Server{Clearinghouse: house, Traps: []string{"@trap.example"}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	m := serve(t, s)(6, everything)
	m.connect("198.51.100.7")
	if r := m.message("x@shop.example", []string{"any@trap.example"}, text("", offer)); r.code != replyAccept {
		t.Errorf("answer %q, want it accepted", r.code)
	}
	s.Flush()
	if s.Stats.Trapped.Load() != 0 || s.Stats.Faults.Load() != 1 || !strings.Contains(log.String(), "not counted") {
		t.Errorf("%d trapped, %d faults, log %q; want one fault", s.Stats.Trapped.Load(), s.Stats.Faults.Load(), log.String())
	}
}

// A noVotes takes deliveries and no votes.
type noVotes struct{ prototest.House }

func (h *noVotes) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	if r.Vote != bulkhead.Sighting {
		return bulkhead.Receipt{}, errors.New("no room")
	}
	return h.House.Report(ctx, r)
}

// TestPacketEnds checks that a connection may end between two packets only.
func TestPacketEnds(t *testing.T) {
	whole := []byte{0, 0, 0, 3, 'H', 'a', 'b'}
	for n := range len(whole) + 1 {
		r := bufio.NewReader(bytes.NewReader(whole[:n]))
		var want error
		switch n {
		case 0:
			want = io.EOF
		case len(whole):
		default:
			want = io.ErrUnexpectedEOF
		}
		if _, _, err := readPacket(r, nil); err != want {
			t.Errorf("%d of %d bytes: %v, want %v", n, len(whole), err, want)
		}
	}
}
