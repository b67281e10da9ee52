package dnsbl

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead/door"
)

// stranger is a client without proof of its address.
var stranger = netip.MustParseAddr("198.51.100.7")

// withCookie adds an OPT record with a COOKIE option to a query.
func withCookie(msg, cookie []byte) []byte {
	opt := []byte("\x00\x00\x29\x04\xd0\x00\x00\x00\x00")
	opt = binary.BigEndian.AppendUint16(opt, uint16(4+len(cookie)))
	opt = append(opt, 0, cookieOption)
	opt = append(binary.BigEndian.AppendUint16(opt, uint16(len(cookie))), cookie...)
	return withRecords(msg, string(opt))
}

// cookieOf returns the cookie of an answer, and the answer.
func cookieOf(t *testing.T, out []byte) (dnsmessage.Message, []byte) {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(out); err != nil {
		t.Fatal(err)
	}
	for _, r := range m.Additionals {
		if opt, ok := r.Body.(*dnsmessage.OPTResource); ok && len(opt.Options) == 1 && opt.Options[0].Code == cookieOption {
			return m, opt.Options[0].Data
		}
	}
	return m, nil
}

// TestReflection: for any query, an answer over UDP to an unproven address is at most 1.5 times as
// large as the query, and listed names are still answered.
func TestReflection(t *testing.T) {
	s := newServer(t)
	names := []string{"evil.example.bl.example.com.", "good.example.bl.example.com.",
		"x.bl.example.com.", "bl.example.com.",
		"7.2.0.192.ip.bl.example.com.", "1.2.0.192.ip.bl.example.com.", "192.ip.bl.example.com.",
		"test.bl.example.com.", "example.net.", "."}
	largest := 0.0
	for _, name := range names {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeTXT, dnsmessage.TypeSOA, dnsmessage.TypeNS,
			dnsmessage.TypeALL, dnsmessage.TypeMX} {
			for _, msg := range [][]byte{
				pack(t, name, kind, 0), pack(t, name, kind, 4096), pack(t, name, kind, 4096)[:20],
				withCookie(pack(t, name, kind, 0), []byte("8 bytes.")),
				withCookie(pack(t, name, kind, 0), []byte("8 bytes, and what is not ours ")),
				withCookie(pack(t, name, kind, 0), []byte("short")),
			} {
				out := s.answer(nil, msg, stranger, maxUDP)
				if ratio := float64(len(out)) / float64(len(msg)); ratio > largest {
					largest = ratio
				}
				if 2*len(out) > 3*len(msg) {
					t.Errorf("%s %v: %d bytes for %d", name, kind, len(out), len(msg))
				}
			}
		}
	}
	if largest < 1.2 {
		t.Errorf("the largest answer is %.2f times its query: nothing was told", largest)
	}
	m, _ := cookieOf(t, s.answer(nil, pack(t, names[0], dnsmessage.TypeA, 0), stranger, maxUDP))
	if len(m.Answers) != 1 || m.Truncated {
		t.Errorf("a hit: %+v", m)
	}
	if m, _ = cookieOf(t, s.answer(nil, pack(t, names[1], dnsmessage.TypeA, 0), stranger,
		maxUDP)); m.RCode != dnsmessage.RCodeNameError || m.Truncated {
		t.Errorf("a miss: %+v", m)
	}
	if m, _ = cookieOf(t, s.answer(nil, pack(t, names[0], dnsmessage.TypeTXT, 0), stranger,
		maxUDP)); len(m.Answers) != 0 || !m.Truncated {
		t.Errorf("a reason: %+v", m)
	}
	if m, _ = cookieOf(t, s.answer(nil, pack(t, names[0], dnsmessage.TypeTXT, 0), stranger, maxTCP)); len(m.Answers) != 1 {
		t.Errorf("a reason over TCP: %+v", m)
	}
}

// TestCookies: a client that returns the cookie sent to its address gets the whole answer. Other
// clients do not, nor does the same client much later or from another server.
func TestCookies(t *testing.T) {
	s := newServer(t)
	reason := pack(t, "evil.example.bl.example.com.", dnsmessage.TypeTXT, 0)
	m, sent := cookieOf(t, s.answer(nil, withCookie(reason, []byte("client 1")), stranger, maxUDP))
	if len(m.Answers) != 0 || !m.Truncated || len(sent) != clientCookieSize+serverCookieSize ||
		string(sent[:8]) != "client 1" {
		t.Fatalf("first answer %+v, cookie %q", m, sent)
	}
	changed := func(at int) []byte {
		c := append([]byte(nil), sent...)
		c[at] ^= 1
		return c
	}
	for _, tt := range []struct {
		name   string
		server *Server
		client netip.Addr
		cookie []byte
		whole  bool
	}{
		{"returned", s, stranger, sent, true},
		{"from a mapped address", s, netip.AddrFrom16(stranger.As16()), sent, true},
		{"from elsewhere", s, stranger.Next(), sent, false},
		{"to another server", newServer(t), stranger, sent, false},
		{"another client's", s, stranger, changed(0), false},
		{"another version", s, stranger, changed(8), false},
		{"another time", s, stranger, changed(15), false},
		{"another hash", s, stranger, changed(23), false},
		{"longer", s, stranger, append(changed(23), 0), false},
		{"half", s, stranger, sent[:8], false},
	} {
		m, again := cookieOf(t, tt.server.answer(nil, withCookie(reason, tt.cookie), tt.client, maxUDP))
		if whole := len(m.Answers) == 1; whole != tt.whole || m.Truncated == tt.whole {
			t.Errorf("%s: %+v, want whole %v", tt.name, m, tt.whole)
		}
		if len(again) != clientCookieSize+serverCookieSize {
			t.Errorf("%s: cookie % x", tt.name, again)
		}
		if tt.whole && string(again) != string(sent) {
			t.Errorf("%s: a fresh cookie is replaced: % x, % x", tt.name, sent, again)
		}
	}
	for _, wrong := range []int{0, 7, 9, 15, 41} {
		if m, _ := cookieOf(t, s.answer(nil, withCookie(reason, make([]byte, wrong)), stranger,
			maxTCP)); m.RCode != dnsmessage.RCodeFormatError {
			t.Errorf("cookie of %d bytes: %v", wrong, m.RCode)
		}
	}
}

// TestCookieAge: a cookie is replaced after half an hour and valid for an hour.
func TestCookieAge(t *testing.T) {
	synctest.Test(t, testCookieAge)
}

func testCookieAge(t *testing.T) {
	b := newBaker()
	for _, tt := range []struct {
		age   time.Duration
		good  bool
		fresh bool
	}{{0, true, false}, {30 * time.Minute, true, false}, {30*time.Minute + time.Second, true, true},
		{time.Hour, true, true}, {time.Hour + time.Second, false, true},
		{-5 * time.Minute, true, false}, {-5*time.Minute - time.Second, false, true}} {
		var c cookie
		c.read([]byte("client 1"))
		b.check(&c, stranger)
		binary.BigEndian.PutUint32(c.server[4:], uint32(time.Now().Add(-tt.age).Unix()))
		sum := b.sum(&c, stranger)
		copy(c.server[8:], sum[:])
		c.whole = true
		old := c.server
		if good := b.check(&c, stranger); good != tt.good || (c.server != old) != tt.fresh {
			t.Errorf("age %v: good %v, replaced %v", tt.age, good, c.server != old)
		}
	}
}

// TestUnproven: beyond the rate of a network every second query is sent to TCP, and
// the others get nothing; a client with a cookie, or an exempt one, is not limited.
func TestUnproven(t *testing.T) {
	s := newFreshServer(t)
	s.Unproven, s.Exempt = door.Rate{PerSecond: 1e-6, Burst: 4}, []netip.Prefix{netip.PrefixFrom(stranger.Next().Next(),
		32)}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	hit := pack(t, "evil.example.bl.example.com.", dnsmessage.TypeA, 0)
	_, sent := cookieOf(t, s.answer(nil, withCookie(hit, []byte("client 1")), stranger, maxUDP))
	whole, cut, silent := 1, 0, 0
	for i := range 40 {
		client := stranger.As4()
		client[3] = byte(100 + i) // of one network
		out := s.answer(nil, hit, netip.AddrFrom4(client), maxUDP)
		var m dnsmessage.Message
		switch {
		case len(out) == 0:
			silent++
		case m.Unpack(out) != nil:
			t.Fatalf("% x", out)
		case m.Truncated:
			cut++
		default:
			whole++
		}
	}
	if whole != 4 || cut != 19 && cut != 18 || whole+cut+silent != 41 {
		t.Errorf("%d whole, %d sent to TCP, %d not answered", whole, cut, silent)
	}
	if got := s.Stats.Slipped.Load(); got != int64(cut+silent) {
		t.Errorf("%d counted, want %d", got, cut+silent)
	}
	for name, out := range map[string][]byte{
		"another network": s.answer(nil, hit, netip.MustParseAddr("198.51.101.7"), maxUDP),
		"a cookie":        s.answer(nil, withCookie(hit, sent), stranger, maxUDP),
		"exempt":          s.answer(nil, hit, stranger.Next().Next(), maxUDP),
		"this machine":    s.answer(nil, hit, local, maxUDP),
		"TCP":             s.answer(nil, hit, stranger, maxTCP),
	} {
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil || len(m.Answers) != 1 {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// TestCookieSecrets checks that a cookie is worth nothing at another server: the secret of each is its own.
func TestCookieSecrets(t *testing.T) {
	a, b := newBaker(), newBaker()
	var c cookie
	c.read([]byte("client 1"))
	a.check(&c, stranger)
	c.whole = true
	again := c
	if !a.check(&again, stranger) || b.check(&c, stranger) {
		t.Error("a cookie is refused by its maker, or accepted by another server")
	}
}
