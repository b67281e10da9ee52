package milter

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestNegotiation: the agreement for each offer, byte by byte. The milter takes the offered actions
// and steps that it can use.
func TestNegotiation(t *testing.T) {
	const macros = "\x00\x00\x00\x00j {client_addr}\x00\x00\x00\x00\x02i {auth_authen}\x00\x00\x00\x00\x03i " +
		"{rcpt_mailer}\x00\x00\x00\x00\x05i\x00"
	for _, tt := range []struct {
		name                     string
		limiter                  Limiter
		version, actions, steps  uint32
		wantV, wantActs, wantStp uint32
		macros                   bool
	}{
		{"everything", nil, 6, 0xffff, 0xffffffff, 6, 0x131, 0x1fb782, true},
		{"later version", nil, 99, 0x1ff, everything, 6, 0x131, 0x1fb782, true},
		{"with a limiter", limits{}, 6, 0x1ff, everything, 6, 0x131, 0x1f3782, true},
		{"no macros", nil, 6, 0x31, everything, 6, 0x31, 0x1fb782, false},
		{"nothing", nil, 6, 0, 0, 6, 0, 0, false},
		{"version 5", nil, 5, 0x1ff, everything, 5, 0x131, 0x82, true},
		{"version 2", nil, 2, 0x3f, 0x7f, 2, 0x31, 0x02, false},
	} {
		s := &Server{Clearinghouse: &prototest.House{}, Limiter: tt.limiter}
		address := prototest.ServeStream(t, "127.0.0.1:0", s)
		offer := binary.BigEndian.AppendUint32(nil, tt.version)
		offer = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(offer, tt.actions), tt.steps)
		got, err := prototest.Ask(t, address, appendPacket(nil, cmdOptions, offer))
		if err != nil {
			t.Fatal(err)
		}
		body := "O"
		for _, v := range []uint32{tt.wantV, tt.wantActs, tt.wantStp} {
			body += string(binary.BigEndian.AppendUint32(nil, v))
		}
		if tt.macros {
			body += macros
		}
		if want := string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body; got != want {
			t.Errorf("%s: %x, want %x", tt.name, got, want)
		}
	}
	for name, raw := range map[string]string{
		"version 1": "\x00\x00\x00\x0dO\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00",
		"cut":       "\x00\x00\x00\x0cO\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00", "none": "\x00\x00\x00\x01Q",
	} {
		s := &Server{Clearinghouse: &prototest.House{}}
		if got, err := prototest.Ask(t, prototest.ServeStream(t, "127.0.0.1:0", s), []byte(raw)); got != "" || err != nil {
			t.Errorf("%s: %q, %v, want no answer", name, got, err)
		}
		if n := s.Stats.Malformed.Load(); n != 1 {
			t.Errorf("%s: %d malformed, want 1", name, n)
		}
	}
}

// TestClients: the client that a connection describes.
func TestClients(t *testing.T) {
	for _, tt := range []struct {
		data string
		want client
	}{
		{"a\x004\x00\x19192.0.2.1\x00", client{"a", netip.MustParseAddr("192.0.2.1"), false}},
		{"\x006\x00\x19IPv6:2001:db8::1\x00", client{"", netip.MustParseAddr("2001:db8::1"), false}},
		{"a\x006\x00\x19[2001:db8::1]\x00", client{"a", netip.MustParseAddr("2001:db8::1"), false}},
		{"a\x006\x00\x19::ffff:192.0.2.1\x00more", client{"a", netip.MustParseAddr("192.0.2.1"), false}},
		{"unknown\x004\x00\x00unknown\x00", client{"unknown", netip.Addr{}, false}},
		{"a\x006\x00\x19fe80::1%eth0\x00", client{"a", netip.MustParseAddr("fe80::1"), false}},
		{"a\x00U", client{"a", netip.Addr{}, true}}, {"a\x00L\x00\x00/run/x\x00", client{"a", netip.Addr{}, true}},
	} {
		if got, err := parseConnect([]byte(tt.data)); err != nil || got != tt.want {
			t.Errorf("%q: %+v, %v, want %+v", tt.data, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", "a", "a\x00", "a\x00X", "a\x004", "a\x004\x00\x19", "a\x004\x00\x19192.0.2.1",
		"a\x004\x00\x19here\x00", "a\x004\x00\x19unknown"} {
		if got, err := parseConnect([]byte(bad)); err == nil || got != (client{}) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
	for data, want := range map[string]string{"<a@b>\x00": "a@b", "a@b\x00SIZE=1\x00": "a@b", "<>\x00": "", "\x00": "",
		"<a\x00": "a"} {
		if got, err := parseAddress([]byte(data)); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", data, got, err, want)
		}
	}
}

// TestLongestPacket: a packet of the largest size is read, and the server does not wait for the end
// of a larger one.
func TestLongestPacket(t *testing.T) {
	for n, want := range map[int]string{maxPacket: "\x00\x00\x00\x01c", maxPacket + 1: ""} {
		m := serve(t, &Server{Clearinghouse: &prototest.House{}})(6, 0)
		packet := append(binary.BigEndian.AppendUint32(nil, uint32(n)), cmdUnknown)
		m.c.Write(append(packet, make([]byte, n-1)...)) // the server may hang up before its end
		m.c.(*net.TCPConn).CloseWrite()
		out, err := io.ReadAll(m.r)
		if string(out) != want || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("packet of %d bytes: %q, %v, want %q", n, out, err, want)
		}
	}
}

// TestPolicyBounds: the largest values of a policy are accepted.
func TestPolicyBounds(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    Policy
		ok   bool
	}{
		{"nothing", Policy{}, true}, {"confidence 100", Policy{Confidence: 100}, true},
		{"confidence 101", Policy{Confidence: 101}, false},
		{"longest text", Policy{Text: strings.Repeat("x", 400)}, true},
		{"longer text", Policy{Text: strings.Repeat("x", 401)}, false},
		{"blank and tilde", Policy{Text: " ~"}, true}, {"DEL", Policy{Text: "\x7f"}, false},
		{"control", Policy{Text: "\x1f"}, false},
		{"dots around", Policy{Domain: ".Example.COM."}, true}, {"no domain", Policy{Domain: "xn--\u0301.example"}, false},
		{"every action", Policy{Spam: Reject, Listed: Tempfail, Bulk: Quarantine, Grey: None}, true},
		{"unknown action", Policy{Grey: "drop"}, false},
	} {
		if err := (&Server{Clearinghouse: &prototest.House{}, Policies: []Policy{tt.p}}).Prepare(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for n, ok := range map[int]bool{0: true, 1023: false, 1024: true, mail.MaxMessage: true, mail.MaxMessage + 1: false} {
		if err := (&Server{Clearinghouse: &prototest.House{}, MaxMessage: n}).Prepare(); (err == nil) != ok {
			t.Errorf("largest message of %d bytes: %v", n, err)
		}
	}
	for trap, ok := range map[string]bool{"a@b.example": true, "@b.example": true, "b.example": false, "a@": false,
		"@": false, "a b@c.example": false, "<a@c.example>": false, "a@xn--\u0301": false} {
		if err := (&Server{Clearinghouse: &prototest.House{}, Traps: []string{trap}}).Prepare(); (err == nil) != ok {
			t.Errorf("trap %q: %v", trap, err)
		}
	}
	// A mistake leaves the policies as they were.
	s := &Server{Clearinghouse: &prototest.House{}, Policies: []Policy{{Spam: Reject}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := s.SetPolicies([]Policy{{Spam: "explode"}}); err == nil ||
		s.setup.policies.Load().of("a@b.example").Spam != Reject {
		t.Errorf("after a mistake: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := new(Server).Serve(l); err == nil || !strings.Contains(err.Error(), "no clearinghouse") {
		t.Errorf("a server without a clearinghouse: %v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("its listener is open")
	}
}

// verdicts answers every check with one verdict.
type verdicts struct {
	prototest.House
	v bulkhead.Verdict
}

func (v *verdicts) Check(context.Context, bulkhead.Query) (bulkhead.Verdict, error) { return v.v, nil }

// TestThresholds: classes at the confidence and the count where they begin, and the counters after
// each message.
func TestThresholds(t *testing.T) {
	spam := func(confidence int) bulkhead.Verdict {
		return bulkhead.Verdict{Judged: bulkhead.JudgedSpam, Class: bulkhead.ClassSpam, Confidence: confidence, Threshold: 20}
	}
	seen := func(n uint32) bulkhead.Verdict { return bulkhead.Verdict{Sightings: n, Threshold: 20} }
	white := spam(100)
	white.Whitelisted = "signature"
	for _, tt := range []struct {
		name  string
		v     bulkhead.Verdict
		p     Policy
		class Class
		count func(*Stats) int64
	}{
		{"sure enough", spam(70), Policy{Confidence: 70}, ClassSpam, func(s *Stats) int64 { return s.Classes.Spam.Load() }},
		{"not sure enough", spam(69), Policy{Confidence: 70}, ClassSuspected, func(s *Stats) int64 {
			return s.Classes.Suspected.Load()
		}},
		{"white", white, Policy{}, ClassWhite, func(s *Stats) int64 { return s.Classes.White.Load() }},
		{"at the threshold, with itself", seen(18), Policy{}, ClassBulk, func(s *Stats) int64 {
			return s.Classes.Bulk.Load()
		}},
		{"below it", seen(17), Policy{}, ClassNone, func(s *Stats) int64 { return s.Classes.Clean.Load() }},
		{"at the policy's own", seen(3), Policy{Threshold: 5}, ClassBulk, func(s *Stats) int64 {
			return s.Classes.Bulk.Load()
		}},
		{"below the policy's own", seen(97), Policy{Threshold: 100}, ClassNone, func(s *Stats) int64 {
			return s.Classes.Clean.Load()
		}},
		{"at the lowest of all", seen(0), Policy{Threshold: 1}, ClassBulk, func(s *Stats) int64 {
			return s.Classes.Bulk.Load()
		}},
		{"no threshold", bulkhead.Verdict{Sightings: 1000}, Policy{}, ClassNone, func(s *Stats) int64 {
			return s.Classes.Clean.Load()
		}},
	} {
		s := &Server{Clearinghouse: &verdicts{v: tt.v}, Policies: []Policy{tt.p}}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		r := m.message("x@shop.example", []string{"bob@example.com", "carol@example.com"}, text("", offer))
		if r.inserted[HeaderClass] != string(tt.class) || tt.count(&s.Stats) != 1 {
			t.Errorf("%s: %+v, counted %d, want %s", tt.name, r, tt.count(&s.Stats), tt.class)
		}
		if st := &s.Stats; st.Messages.Load() != 1 || st.Connections.Load() != 1 ||
			st.Actions.Rejected.Load()+st.Actions.Tempfailed.Load()+
				st.Actions.Quarantined.Load()+st.Faults.Load() != 0 {
			t.Errorf("%s: %d messages of %d clients", tt.name, st.Messages.Load(), st.Connections.Load())
		}
	}
	for action, count := range map[Action]func(*Stats) int64{
		Reject: func(s *Stats) int64 { return s.Actions.Rejected.Load() }, Tempfail: func(s *Stats) int64 {
			return s.Actions.Tempfailed.Load()
		}, Quarantine: func(s *Stats) int64 { return s.Actions.Quarantined.Load() },
	} {
		s := &Server{Clearinghouse: &verdicts{v: spam(100)}, Policies: []Policy{{Spam: action}}}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		r := m.message("x@shop.example", []string{"bob@example.com"}, text("", offer))
		want := map[Action]string{Reject: "550 5.7.1 message", Tempfail: "451 4.7.1 message", Quarantine: ""}[action]
		if count(&s.Stats) != 1 || !strings.HasPrefix(r.text, want) || (r.quarantine != "") != (action == Quarantine) {
			t.Errorf("%s: %+v, counted %d", action, r, count(&s.Stats))
		}
	}
}

// TestPlain: text in headers and replies is one line of printable ASCII, and bounded.
func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"a b~!": "a b~!", `"\`: "''", "100%d": "100 d", "\x1f\x7f\n": "???", "caf\u00e9": "caf?",
		strings.Repeat("x", 300): strings.Repeat("x", 300), strings.Repeat("x", 301): strings.Repeat("x", 300),
	} {
		if got := plain(in); got != want {
			t.Errorf("%.20q of %d bytes: %.20q of %d", in, len(in), got, len(got))
		}
	}
	for name, want := range map[string]bool{"X-Bulkhead": true, "x-BULKHEAD": true, "X-Bulkhead-": false,
		"X-Bulkhead-a": true, "X-Bulkhea": false, "X-Bulkheads": false, "x-bulkhead-rate": false, "X-Bulkhead-Rates": true,
		"X-Bulkhead-" + strings.Repeat("a", 89): true, "X-Bulkhead-" + strings.Repeat("a", 90): false} {
		if ours(name) != want {
			t.Errorf("%.20s of %d bytes is ours: %v", name, len(name), !want)
		}
	}
}

// TestURLsAtTheirBounds: the number of URLs that are looked up, each once. Package link decides
// what a URL is.
func TestURLsAtTheirBounds(t *testing.T) {
	var many, first strings.Builder
	for i := range maxURLs + 5 {
		fmt.Fprintf(&many, "http://h%d.example http://h0.example ", i)
		if i < maxURLs {
			fmt.Fprintf(&first, "http://h%d.example/ ", i)
		}
	}
	for text, want := range map[string]string{
		many.String(): strings.TrimSpace(first.String()), "see ftp://a.example and http://": "",
		"http://a.example/?u=http%3A%2F%2Fb.example": "http://a.example/?u=http%3A%2F%2Fb.example http://b.example/",
	} {
		m, err := mail.Read(t.Context(), []byte("Content-Type: text/plain; charset=utf-8\r\n\r\n"+text+"\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(urls(t.Context(), m), " "); got != want {
			t.Errorf("%.80q: %.80q, want %.80q", text, got, want)
		}
	}
	m, err := mail.Read(t.Context(), []byte("Content-Type: text/html\r\n\r\nhttp://a.example/?x=1&amp;y&#61;"+
		"2&#38;z&#x26;w\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(urls(t.Context(), m)); got != "[http://a.example/?x=1&y=2&z&w]" {
		t.Errorf("of HTML: %s", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := urls(ended, m); len(got) != 0 {
		t.Errorf("after the end of the context: %q", got)
	}
}

// TestWhatIsLookedUp: the client, the senders, the Reply-To and the URLs, each once, and
// nothing that is empty.
func TestWhatIsLookedUp(t *testing.T) {
	w := &asked{}
	m := serve(t, &Server{Clearinghouse: &prototest.House{}, Lists: w})(6, everything)
	m.connect("198.51.100.7")
	m.message("env@shop.example", []string{"bob@example.com"},
		text("Sender: snd@shop.example\nReply-To: A <rpl@shop.example>\nReply-To: broken <\n", offer+" http://url.example/x"))
	want := []string{"198.51.100.7", "env@shop.example", "ann@shop.example", "snd@shop.example",
		"rpl@shop.example", "http://url.example/x"}
	if got := slices.Compact(w.texts); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("looked up %q, want %q", got, want)
	}
	w.texts = nil
	m.message("", []string{"bob@example.com"}, "Subject: x\n\n"+offer+"\n")
	if fmt.Sprint(w.texts) != "[198.51.100.7]" {
		t.Errorf("looked up %q of a bounce", w.texts)
	}
}

// TestFailTempfail: a message that cannot be judged passes or is deferred, as configured. Forged
// headers are removed in either case.
func TestFailTempfail(t *testing.T) {
	for _, tempfail := range []bool{false, true} {
		var log bytes.Buffer
		s := &Server{Clearinghouse: &prototest.House{Err: prototest.ErrFault}, FailTempfail: tempfail,
			Log: slog.New(slog.NewTextHandler(&log, nil))}
		m := serve(t, s)(6, everything)
		m.connect("198.51.100.7")
		r := m.message("x@shop.example", []string{"bob@example.com"}, text("X-Bulkhead: none\n", offer))
		want := map[bool]byte{false: replyAccept, true: replyTempfail}[tempfail]
		if r.code != want || (len(r.deleted) == 1) == tempfail || len(r.inserted) != 0 || s.Stats.Faults.Load() != 1 {
			t.Errorf("tempfail %v: %+v, %d faults", tempfail, r, s.Stats.Faults.Load())
		}
		if err := s.Shutdown(t.Context()); err != nil || !strings.Contains(log.String(), "message not judged") ||
			!strings.Contains(log.String(), "queue_id=4711") {
			t.Errorf("%v, log %q", err, log.String())
		}
	}
}
