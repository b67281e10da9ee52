package dnsbl

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead/door"
)

// set is an exact List.
type set struct {
	names  map[string]bool
	reason string
}

func (s set) HasDomain(name string) bool   { return s.names[name] }
func (s set) HasAddr(a netip.Addr) bool    { return s.names[a.String()] }
func (s set) HasDigest(digest string) bool { return s.names[digest] }
func (s set) Describe() string             { return s.reason }
func (s set) Updated() time.Time           { return time.Unix(1_800_000_000, 0) }

func sha(text string) [32]byte { return sha256.Sum256([]byte(text)) }

// local is a client that a test server knows.
var local = netip.MustParseAddr("127.0.0.1")

func newServer(t testing.TB) *Server {
	t.Helper()
	ann, mallory := sha("ann@example.com"), sha("mallory@example.org")
	list := set{reason: "seen in spam (list x of 2026-03-04, expected error 1.0e-06)", names: map[string]bool{
		"evil.example": true, "www.evil.example": true, "zip": true,
		"192.0.2.7": true, "2001:db8::7": true, "127.0.0.1": true, "invalid": true,
		"0123456789abcdef0123456789abcdef": true, hex.EncodeToString(ann[:]): true, hex.EncodeToString(mallory[:]): true,
	}}
	s := &Server{Zones: []Zone{
		{Name: "bl.example.com", Form: Domains, List: list},
		{Name: "IP.bl.example.com.", Form: Addresses, List: list, Code: netip.MustParseAddr("127.0.0.9"),
			Host: "ns.example.net"},
		{Name: "hash.bl.example.com", Form: Hashes, List: list, TTL: time.Hour},
	}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	return s
}

// pack makes a query.
func pack(t testing.TB, name string, kind dnsmessage.Type, edns int) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 4711, RecursionDesired: true})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	check(b.StartQuestions())
	check(b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}))
	if edns > 0 {
		check(b.StartAdditionals())
		var h dnsmessage.ResourceHeader
		check(h.SetEDNS0(edns, dnsmessage.RCodeSuccess, false))
		check(b.OPTResource(h, dnsmessage.OPTResource{}))
	}
	msg, err := b.Finish()
	check(err)
	return msg
}

func ask(t testing.TB, s *Server, msg []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(s.answer(nil, msg, local, maxUDP)); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAnswers asks every kind of question.
func TestAnswers(t *testing.T) {
	s := newServer(t)
	ann := sha("ann@example.com")
	v6 := "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2"
	b32 := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(ann[:]))
	const (
		A, TXT, SOA, NS, AAAA, MX = dnsmessage.TypeA, dnsmessage.TypeTXT, dnsmessage.TypeSOA, dnsmessage.TypeNS,
			dnsmessage.TypeAAAA, dnsmessage.TypeMX
		ANY, AXFR = dnsmessage.TypeALL, dnsmessage.TypeAXFR
		reason    = "seen in spam (list x of 2026-03-04, expected error 1.0e-06)"
	)
	const (
		nodata  = "no data"
		none    = "no name"
		refused = "refused"
	)
	for _, tt := range []struct {
		name string
		kind dnsmessage.Type
		want string
	}{
		{"evil.example.bl.example.com.", A, "127.0.0.2"},
		{"EVIL.Example.BL.example.COM.", A, "127.0.0.2"},
		{"evil.example.bl.example.com.", TXT, reason},
		{"evil.example.bl.example.com.", ANY, "127.0.0.2"},
		{"evil.example.bl.example.com.", AAAA, nodata},
		{"evil.example.bl.example.com.", MX, nodata},
		{"good.example.bl.example.com.", A, none},
		{"good.example.bl.example.com.", TXT, none},
		{"example.bl.example.com.", A, nodata},
		{"zip.bl.example.com.", A, "127.0.0.2"},
		{"test.bl.example.com.", A, "127.0.0.2"},
		{"test.bl.example.com.", TXT, testReason},
		{"invalid.bl.example.com.", A, none},
		{"ev\x01il.example.bl.example.com.", A, none},
		{"bl.example.com.", SOA, "SOA"},
		{"bl.example.com.", NS, "bl.example.com."},
		{"bl.example.com.", A, nodata},
		{"ip.bl.example.com.", NS, "ns.example.net."},
		{"7.2.0.192.ip.bl.example.com.", A, "127.0.0.9"},
		{"8.2.0.192.ip.bl.example.com.", A, none},
		{"2.0.192.ip.bl.example.com.", A, nodata},
		{"07.2.0.192.ip.bl.example.com.", A, none},
		{"256.2.0.192.ip.bl.example.com.", A, none},
		{"5.7.2.0.192.ip.bl.example.com.", A, none},
		{"2.0.0.127.ip.bl.example.com.", A, "127.0.0.9"},
		{"1.0.0.127.ip.bl.example.com.", A, none},
		{v6 + ".ip.bl.example.com.", A, "127.0.0.9"},
		{"8" + v6[1:] + ".ip.bl.example.com.", A, none},
		{v6[2:] + ".ip.bl.example.com.", A, nodata},
		{"2.0.0.0.0.0.f.7.f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip.bl.example.com.", A, "127.0.0.9"},
		{"1.0.0.0.0.0.f.7.f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip.bl.example.com.", A, none},
		{"0123456789abcdef0123456789ABCDEF.hash.bl.example.com.", A, "127.0.0.2"},
		{"1123456789abcdef0123456789abcdef.hash.bl.example.com.", A, none},
		{hex.EncodeToString(ann[:20]) + "." + hex.EncodeToString(ann[20:]) + ".hash.bl.example.com.", A, none},
		{b32 + ".hash.bl.example.com.", A, "127.0.0.2"},
		{b32[1:] + ".hash.bl.example.com.", A, none},
		// SHA-256 of mallory@example.org as rspamd 3.4 writes it.
		{"75gwf5yamhxk3pqamzg5ni6n63qedmxzuyprc7qodxz8gzrnsmfb.hash.bl.example.com.", A, "127.0.0.2"},
		{"75gwf5yamhxk3pqamzg5ni6n63qedmxzuyprc7qodxz8gzrnsmfn.hash.bl.example.com.", A, none},
		{"test.hash.bl.example.com.", A, "127.0.0.2"},
		{"evil.example.hash.bl.example.com.", A, none},
		{"evil.example.", A, refused},
		{"example.com.", SOA, refused},
		{"xbl.example.com.", A, refused},
		{".", A, refused},
		{"bl.example.com.", AXFR, refused},
	} {
		for _, edns := range []int{0, 4096} {
			m := ask(t, s, pack(t, tt.name, tt.kind, edns))
			if got := describe(t, m); got != tt.want {
				t.Errorf("%s %v: %s, want %s", tt.name, tt.kind, got, tt.want)
			}
			if m.ID != 4711 || !m.Response || !m.RecursionDesired || m.RecursionAvailable || m.Truncated ||
				m.Authoritative != (tt.want != refused) || len(m.Questions) != 1 || m.Questions[0].Name.String() != tt.name {
				t.Errorf("%s %v: header %+v, question %v", tt.name, tt.kind, m.Header, m.Questions)
			}
			if got := len(m.Additionals) == 1; got != (edns > 0) {
				t.Errorf("%s: %d additional records to a query with EDNS %d", tt.name, len(m.Additionals), edns)
			}
		}
	}
}

// describe returns the meaning of an answer, and checks the rules for negative answers.
func describe(t *testing.T, m dnsmessage.Message) string {
	t.Helper()
	if len(m.Answers) == 0 && m.RCode != dnsmessage.RCodeRefused {
		if len(m.Authorities) != 1 {
			return fmt.Sprintf("negative answer with %d authority records", len(m.Authorities))
		}
		soa, ok := m.Authorities[0].Body.(*dnsmessage.SOAResource)
		zone := m.Authorities[0].Header.Name.String()
		if !ok || !strings.HasSuffix(strings.ToLower(m.Questions[0].Name.String()), strings.ToLower(zone)) ||
			soa.Serial != 1_800_000_000 || soa.MinTTL != m.Authorities[0].Header.TTL ||
			!strings.EqualFold(soa.MBox.String(), "hostmaster."+zone) {
			return fmt.Sprintf("negative answer with %+v", m.Authorities[0])
		}
	}
	switch {
	case m.RCode == dnsmessage.RCodeNameError:
		return "no name"
	case m.RCode == dnsmessage.RCodeRefused:
		return "refused"
	case m.RCode != dnsmessage.RCodeSuccess:
		return m.RCode.String()
	case len(m.Answers) == 0:
		return "no data"
	case len(m.Answers) > 1:
		return fmt.Sprintf("%d answers", len(m.Answers))
	case m.Answers[0].Header.Name != m.Questions[0].Name:
		return "answer for " + m.Answers[0].Header.Name.String()
	}
	switch r := m.Answers[0].Body.(type) {
	case *dnsmessage.AResource:
		return netip.AddrFrom4(r.A).String()
	case *dnsmessage.TXTResource:
		return strings.Join(r.TXT, "|")
	case *dnsmessage.NSResource:
		return r.NS.String()
	case *dnsmessage.SOAResource:
		return "SOA"
	}
	return "unknown"
}

// TestUnknownList: while the content of a list is unknown, no answer reveals whether a name is
// listed, or anything about the zone. Other zones answer.
func TestUnknownList(t *testing.T) {
	s := newServer(t)
	known := false
	zones := slices.Clone(s.Zones)
	zones[0].Known = func() bool { return known }
	if err := s.SetZones(zones); err != nil {
		t.Fatal(err)
	}
	names := []string{"evil.example.", "good.example.", "test.", ""}
	for range 2 {
		for _, name := range names {
			for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeTXT, dnsmessage.TypeSOA} {
				m := ask(t, s, pack(t, name+zones[0].Name+".", kind, 0))
				if failed := m.RCode == dnsmessage.RCodeServerFailure; failed == known || failed &&
					len(m.Answers)+len(m.Authorities) > 0 {
					t.Errorf("known %v: %s of %q is answered %s", known, kind, name, describe(t, m))
				}
			}
			if m := ask(t, s, pack(t, name+"IP.bl.example.com.", dnsmessage.TypeA,
				0)); m.RCode == dnsmessage.RCodeServerFailure {
				t.Errorf("another zone: %s", describe(t, m))
			}
		}
		if got := s.Stats.Failed.Load(); got != int64(3*len(names)) {
			t.Errorf("%d failed, want %d", got, 3*len(names))
		}
		known = true
	}
}

func TestBrokenQueries(t *testing.T) {
	s := newServer(t)
	good := pack(t, "evil.example.bl.example.com.", dnsmessage.TypeA, 512)
	change := func(at int, b ...byte) []byte {
		msg := append([]byte(nil), good...)
		copy(msg[at:], b)
		return msg
	}
	for _, tt := range []struct {
		name string
		msg  []byte
		want dnsmessage.RCode
	}{
		{"notify", change(2, 0x20), dnsmessage.RCodeNotImplemented},
		{"no question", change(4, 0, 0), dnsmessage.RCodeFormatError},
		{"two questions", change(4, 0, 2), dnsmessage.RCodeFormatError},
		{"an answer", change(6, 0, 1), dnsmessage.RCodeFormatError},
		{"label too long", change(12, 64), dnsmessage.RCodeFormatError},
		{"pointer", change(12, 0xc0, 12), dnsmessage.RCodeFormatError},
		{"cut in the name", good[:20], dnsmessage.RCodeFormatError},
		{"cut before the class", good[:12+29+2], dnsmessage.RCodeFormatError},
		{"cut in OPT", good[:len(good)-3], dnsmessage.RCodeFormatError},
		{"many additional records", change(10, 1, 0), dnsmessage.RCodeFormatError},
		{"EDNS version 1", change(len(good)-5, 1), 0},
		{"dot inside a label", change(16, '.'), dnsmessage.RCodeFormatError},
		{"class chaos", change(len(good)-11-1, 3), dnsmessage.RCodeRefused},
	} {
		var p dnsmessage.Parser
		out := s.answer(nil, tt.msg, local, maxUDP)
		h, err := p.Start(out)
		if err != nil || h.RCode != tt.want || !h.Response || len(out) > 512 {
			t.Errorf("%s: %v, %+v, want %v", tt.name, err, h, tt.want)
		}
		if tt.name == "EDNS version 1" && out[len(out)-6] != 1 {
			t.Errorf("EDNS version 1: % x, want the upper bits of BADVERS", out)
		}
	}
	for _, msg := range [][]byte{nil, good[:11], change(2, 0x81)} {
		if out := s.answer(nil, msg, local, maxUDP); out != nil {
			t.Errorf("% x got an answer", msg)
		}
	}
	long := strings.Repeat(strings.Repeat("a", 60)+".", 3) + strings.Repeat("b", 45) + ".bl.example.com."
	z := *s.zones.Load()
	z[len(z)-1].parts[0].List = set{reason: strings.Repeat("r", 400),
		names: map[string]bool{strings.TrimSuffix(long, ".bl.example.com."): true}}
	if m := ask(t, s, pack(t, long, dnsmessage.TypeTXT, 0)); !m.Truncated || len(m.Answers) != 0 {
		t.Errorf("answer too long for UDP: truncated %v, %d answers", m.Truncated, len(m.Answers))
	}
	m := ask(t, s, pack(t, long, dnsmessage.TypeTXT, 1232))
	if m.Truncated || len(m.Answers) != 1 || len(m.Answers[0].Body.(*dnsmessage.TXTResource).TXT[0]) != 255 {
		t.Errorf("the same with EDNS: truncated %v, answers %v", m.Truncated, m.Answers)
	}
}

func TestBadZones(t *testing.T) {
	s := newServer(t)
	good := Zone{Name: "x.example", Form: Domains, List: set{}}
	for name, change := range map[string]func(*Zone){
		"no list": func(z *Zone) { z.List = nil },
		"form":    func(z *Zone) { z.Form = "email" },
		"name":    func(z *Zone) { z.Name = "" },
		"label":   func(z *Zone) { z.Name = strings.Repeat("x", 64) + ".example" },
		"space":   func(z *Zone) { z.Name = "x y.example" },
		"host":    func(z *Zone) { z.Host = "a..b" },
		"code 1":  func(z *Zone) { z.Code = netip.MustParseAddr("127.0.0.1") },
		"error":   func(z *Zone) { z.Code = netip.MustParseAddr("127.255.255.254") },
		"outside": func(z *Zone) { z.Code = netip.MustParseAddr("192.0.2.1") },
		"IPv6":    func(z *Zone) { z.Code = netip.IPv6Loopback() },
		"TTL":     func(z *Zone) { z.TTL = time.Millisecond },
	} {
		z := good
		change(&z)
		if err := s.SetZones([]Zone{z}); err == nil || !strings.HasPrefix(err.Error(), "dnsbl: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.SetZones([]Zone{good, good}); err == nil {
		t.Error("a zone was taken twice")
	}
	if err := s.SetZones(make([]Zone, maxZones+1)); err == nil {
		t.Error("too many zones were taken")
	}
	if n := len(*s.zones.Load()); n != 3 {
		t.Errorf("%d zones after the bad ones, want 3", n)
	}
}

// none is a list without entries that leaves no garbage of its own.
type none struct{ set }

func (none) HasAddr(netip.Addr) bool { return false }

// TestNoGarbage: the commonest queries take no memory.
func TestNoGarbage(t *testing.T) {
	s := newServer(t)
	zones := []Zone{{Name: "ip.none.example", Form: Addresses, List: none{}}}
	for _, z := range *s.zones.Load() {
		zones = append(zones, z.Zone)
	}
	if err := s.SetZones(zones); err != nil {
		t.Fatal(err)
	}
	d, out := new(desk), make([]byte, 0, maxUDP)
	for _, name := range []string{
		"evil.example.bl.example.com.", "good.example.bl.example.com.",
		"a-name-that-does-not-fit-on-the-stack.example.bl.example.com.",
		"7.2.0.192.ip.none.example.", "b.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip.none.example.",
		"0123456789abcdef0123456789abcdef.hash.bl.example.com.", "example.org.",
	} {
		for _, edns := range []int{0, 1232} {
			msg := pack(t, name, dnsmessage.TypeA, edns)
			if n := testing.AllocsPerRun(100, func() { out = d.answer(s, out[:0], msg, local, maxUDP) }); n > 0 {
				t.Errorf("%s with EDNS %d: %v allocations, want none", name, edns, n)
			}
		}
	}
}

// FuzzAnswer: an answer can be parsed, or there is none, and its question is parsed in the same
// way.
func FuzzAnswer(f *testing.F) {
	s := newServer(f)
	for _, name := range []string{"evil.example.bl.example.com.", "7.2.0.192.ip.bl.example.com.", ".", "x."} {
		f.Add(pack(f, name, dnsmessage.TypeA, 512))
		f.Add(pack(f, name, dnsmessage.TypeTXT, 0))
	}
	f.Add([]byte{})
	f.Add([]byte("\x12g\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\xc0\x00\x91\x00\x00\x01\x00\x01\x18\x00"))
	f.Add(withCookie(pack(f, "evil.example.bl.example.com.", dnsmessage.TypeTXT, 0), make([]byte, 24)))
	f.Fuzz(func(t *testing.T, msg []byte) {
		before := bytes.Clone(msg)
		if out := s.answer(nil, msg, stranger, maxUDP); 2*len(out) > 3*len(msg) {
			t.Fatalf("%d bytes to a stranger's %d", len(out), len(msg))
		}
		for _, limit := range []int{maxUDP, maxTCP} {
			out := s.answer([]byte("before"), msg, local, limit)
			if !bytes.Equal(msg, before) || !bytes.HasPrefix(out, []byte("before")) {
				t.Fatal("answer changed what is not its own")
			}
			out = out[6:]
			if len(out) == 0 {
				continue
			}
			if limit == maxUDP && len(out) > maxUDP || !bytes.Equal(out[:2], msg[:2]) {
				t.Fatalf("answer of %d bytes, ID % x to % x", len(out), out[:2], msg[:2])
			}
			var m dnsmessage.Message
			if err := m.Unpack(out); err != nil {
				t.Fatalf("% x: answer % x: %v", msg, out, err)
			}
			var p dnsmessage.Parser
			if _, err := p.Start(msg); err != nil || m.RCode == dnsmessage.RCodeFormatError ||
				m.RCode == dnsmessage.RCodeNotImplemented {
				continue
			}
			q, err := p.Question()
			if err != nil || len(m.Questions) != 1 || q != m.Questions[0] {
				t.Fatalf("question %v, %v, answered as %v", q, err, m.Questions)
			}
		}
	})
}

// serve runs a server on both transports of one port.
func serve(t testing.TB, s *Server) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := door.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns, err := door.ListenPackets(ctx, l.Addr().String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	serve := []func() error{func() error { return s.Serve(l) }}
	for _, c := range conns {
		serve = append(serve, func() error { return s.ServePacket(c) })
	}
	done := make(chan error, 1)
	go func() { done <- door.Run(ctx, s, serve...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestTransports asks with the resolver of the standard library.
func TestTransports(t *testing.T) {
	address := serve(t, newServer(t))
	for _, network := range []string{"udp", "tcp"} {
		r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}}
		ips, err := r.LookupNetIP(t.Context(), "ip4", "evil.example.bl.example.com.")
		if err != nil || len(ips) != 1 || ips[0] != listed {
			t.Errorf("%s: %v, %v, want 127.0.0.2", network, ips, err)
		}
		txt, err := r.LookupTXT(t.Context(), "evil.example.bl.example.com.")
		if err != nil || len(txt) != 1 || !strings.Contains(txt[0], "expected error") {
			t.Errorf("%s: %q, %v", network, txt, err)
		}
		_, err = r.LookupNetIP(t.Context(), "ip4", "good.example.bl.example.com.")
		var notFound *net.DNSError
		if !errors.As(err, &notFound) || !notFound.IsNotFound {
			t.Errorf("%s: %v, want not found", network, err)
		}
	}
	// Several queries on one connection, the last one cut off.
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		msg := pack(t, "evil.example.bl.example.com.", dnsmessage.TypeA, 0)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)); err != nil {
			t.Fatal(err)
		}
		var size [2]byte
		if _, err := c.Read(size[:]); err != nil {
			t.Fatal(err)
		}
		in := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := c.Read(in); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Write([]byte{0, 200, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkAnswer(b *testing.B) {
	s := newServer(b)
	for _, name := range []string{"evil.example.bl.example.com.", "good.example.bl.example.com.",
		"8.2.0.192.ip.bl.example.com."} {
		b.Run(name, func(b *testing.B) {
			msg := pack(b, name, dnsmessage.TypeA, 1232)
			var out []byte
			b.ReportAllocs()
			for range b.N {
				out = s.answer(out[:0], msg, local, maxUDP)
			}
		})
	}
}
