package dnsbl

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead/door"
)

// question is the wire form of a query with one question, of any bytes.
func question(class dnsmessage.Class, kind dnsmessage.Type, labels ...string) []byte {
	msg := []byte{0x12, 0x67, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, l := range labels {
		msg = append(append(msg, byte(len(l))), l...)
	}
	msg = binary.BigEndian.AppendUint16(append(msg, 0), uint16(kind))
	return binary.BigEndian.AppendUint16(msg, uint16(class))
}

// withRecords adds records to the additional section of a query.
func withRecords(msg []byte, records ...string) []byte {
	msg = append([]byte(nil), msg...)
	msg[11] = byte(len(records))
	for _, r := range records {
		msg = append(msg, r...)
	}
	return msg
}

const (
	anOPT   = "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"      // of 1232 bytes
	namedOP = "\x01x\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00" // the same, not of the root
	other   = "\x00\x00\x10\x00\x01\x00\x00\x00\x00\x00\x01\x00"  // a TXT record
	cut     = "\x00\x00\x10\x00\x01\x00\x00\x00\x00\x00\x09\x00"  // which says that it is longer
)

// TestStats: each query counts as what it was answered with.
func TestStats(t *testing.T) {
	type stats struct{ queries, hits, misses, refused, broken int64 }
	const in = dnsmessage.ClassINET
	listed := []string{"evil", "example", "bl", "example", "com"}
	answer := question(in, dnsmessage.TypeA, listed...)
	answer[2] |= 0x80
	update := question(in, dnsmessage.TypeA, listed...)
	update[2] |= 5 << 3
	for _, tt := range []struct {
		name string
		msg  []byte
		want stats
	}{
		{"listed", question(in, dnsmessage.TypeA, listed...), stats{queries: 1, hits: 1}},
		{"listed, any class", question(dnsmessage.ClassANY, dnsmessage.TypeA, listed...), stats{queries: 1, hits: 1}},
		{"reason", question(in, dnsmessage.TypeTXT, listed...), stats{queries: 1, hits: 1}},
		{"another type", question(in, dnsmessage.TypeMX, listed...), stats{queries: 1}},
		{"not listed", question(in, dnsmessage.TypeA, "good", "example", "bl", "example", "com"), stats{queries: 1, misses: 1}},
		{"apex", question(in, dnsmessage.TypeSOA, "bl", "example", "com"), stats{queries: 1}},
		{"elsewhere", question(in, dnsmessage.TypeA, "example", "net"), stats{queries: 1, refused: 1}},
		{"transfer", question(in, dnsmessage.TypeAXFR, "bl", "example", "com"), stats{queries: 1, refused: 1}},
		{"incremental transfer", question(in, typeIXFR, "bl", "example", "com"), stats{queries: 1, refused: 1}},
		{"another class", question(dnsmessage.ClassCHAOS, dnsmessage.TypeA, listed...), stats{queries: 1, refused: 1}},
		{"no query", update, stats{queries: 1, broken: 1}},
		{"an answer", answer, stats{broken: 1}},
		{"noise", []byte("noise"), stats{broken: 1}},
	} {
		s := newServer(t)
		for range 2 {
			s.answer(nil, tt.msg, maxUDP)
		}
		st := &s.Stats
		got := stats{st.Queries.Load(), st.Hits.Load(), st.Misses.Load(), st.Refused.Load(), st.Broken.Load()}
		tt.want = stats{2 * tt.want.queries, 2 * tt.want.hits, 2 * tt.want.misses, 2 * tt.want.refused, 2 * tt.want.broken}
		if got != tt.want {
			t.Errorf("%s, twice: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestAdditional: one OPT record counts, of the root; others are passed over, up to
// a bound.
func TestAdditional(t *testing.T) {
	s := newServer(t)
	ask := question(dnsmessage.ClassINET, dnsmessage.TypeA, "evil", "example", "bl", "example", "com")
	many := func(n int) (all []string) {
		for range n {
			all = append(all, other)
		}
		return all
	}
	for _, tt := range []struct {
		name     string
		records  []string
		want     dnsmessage.RCode
		wantEDNS bool
	}{
		{"none", nil, 0, false},
		{"OPT", []string{anOPT}, 0, true},
		{"others", []string{other, other}, 0, false},
		{"OPT between others", []string{other, anOPT, other}, 0, true},
		{"two OPT", []string{anOPT, anOPT}, dnsmessage.RCodeFormatError, true},
		{"OPT of a name", []string{namedOP}, dnsmessage.RCodeFormatError, false},
		{"cut", []string{cut}, dnsmessage.RCodeFormatError, false},
		{"as many as are read", many(maxRecords - 1), 0, false},
		{"more", many(maxRecords + 1), dnsmessage.RCodeFormatError, false},
	} {
		var m dnsmessage.Message
		if err := m.Unpack(s.answer(nil, withRecords(ask, tt.records...), maxUDP)); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if m.RCode != tt.want || (len(m.Answers) == 1) != (tt.want == 0) || (len(m.Additionals) == 1) != tt.wantEDNS {
			t.Errorf("%s: %v with %d answers, %d additional records; want %v, EDNS %v", tt.name, m.RCode, len(m.Answers), len(m.Additionals), tt.want, tt.wantEDNS)
		}
		for _, r := range m.Additionals {
			if r.Header.Type != dnsmessage.TypeOPT || r.Header.Class != maxUDP || r.Header.TTL != 0 {
				t.Errorf("%s: %+v, want an OPT record of %d bytes", tt.name, r.Header, maxUDP)
			}
		}
	}
}

// TestSections: a query asks one thing, and tells nothing.
func TestSections(t *testing.T) {
	s := newServer(t)
	ask := question(dnsmessage.ClassINET, dnsmessage.TypeA, "evil", "example", "bl", "example", "com")
	for name, change := range map[string]func([]byte) []byte{
		"two questions":      func(msg []byte) []byte { msg[5] = 2; return append(msg, ask[12:]...) },
		"an answer":          func(msg []byte) []byte { msg[7] = 1; return append(msg, other...) },
		"an authority":       func(msg []byte) []byte { msg[9] = 1; return append(msg, other...) },
		"257 questions":      func(msg []byte) []byte { msg[4] = 1; return msg },
		"256 answers":        func(msg []byte) []byte { msg[6] = 1; return msg },
		"no OPT that counts": func(msg []byte) []byte { msg[11] = 1; return msg },
	} {
		var m dnsmessage.Message
		if err := m.Unpack(s.answer(nil, change(slices.Clone(ask)), maxUDP)); err != nil || m.RCode != dnsmessage.RCodeFormatError || len(m.Answers) > 0 {
			t.Errorf("%s: %v with %d answers, %v; want FORMERR", name, m.RCode, len(m.Answers), err)
		}
	}
}

// TestSizes: an answer is cut where it would not fit, and not a byte before.
func TestSizes(t *testing.T) {
	labels := []string{strings.Repeat("a", 60), strings.Repeat("b", 60), "evil", "example"}
	name := strings.Join(labels, ".")
	s := &Server{Zones: []Zone{{Name: "bl.example", Form: Domains, List: set{reason: strings.Repeat("r", 300), names: map[string]bool{name: true}}}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	ask := question(dnsmessage.ClassINET, dnsmessage.TypeTXT, append(labels, "bl", "example")...)
	opt := func(size int) []byte {
		msg := withRecords(ask, anOPT)
		binary.BigEndian.PutUint16(msg[len(ask)+3:], uint16(size))
		return msg
	}
	whole := len(s.answer(nil, opt(1232), maxUDP))
	if whole <= 512 {
		t.Fatalf("an answer of %d bytes fits everywhere", whole)
	}
	for _, tt := range []struct {
		name string
		msg  []byte
		tcp  bool
		want bool // that it is whole
	}{
		{"no EDNS", ask, false, false},
		{"no EDNS, TCP", ask, true, true},
		{"EDNS of nothing", opt(0), false, false},
		{"EDNS too small by a byte", opt(whole - 1), false, false},
		{"EDNS that fits", opt(whole), false, true},
		{"EDNS of too much", opt(65535), false, true},
		{"EDNS too small, TCP", opt(512), true, true},
	} {
		limit := maxUDP
		if tt.tcp {
			limit = maxTCP
		}
		var m dnsmessage.Message
		if err := m.Unpack(s.answer(nil, tt.msg, limit)); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if m.Truncated == tt.want || (len(m.Answers) == 1) != tt.want || !m.Authoritative || len(m.Questions) != 1 {
			t.Errorf("%s: truncated %v with %d answers, want whole: %v", tt.name, m.Truncated, len(m.Answers), tt.want)
		}
	}
	// A client that names less than 512 bytes gets as much all the same (RFC 6891
	// section 6.2.3).
	short := &Server{Zones: []Zone{{Name: "bl.example", Form: Domains, List: set{reason: strings.Repeat("r", 255), names: map[string]bool{"zip": true}}}}}
	if err := short.Prepare(); err != nil {
		t.Fatal(err)
	}
	ask = question(dnsmessage.ClassINET, dnsmessage.TypeTXT, "zip", "bl", "example")
	if got := short.answer(nil, opt(16), maxUDP); len(got) < 255 || len(got) > 512 {
		t.Errorf("answer of %d bytes to a client that takes 16, want the whole of it", len(got))
	}
}

// TestLetters: letters are compared without their case, what borders on them is not,
// and bytes outside printable ASCII are in no list.
func TestLetters(t *testing.T) {
	names := map[string]bool{"az!~.example": true, "@[`{.example": true, "a b.example": true, "a\x7f.example": true, "a\x00.example": true}
	s := &Server{Zones: []Zone{{Name: "bl.example", Form: Domains, List: set{names: names}}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]dnsmessage.RCode{
		"az!~": 0, "AZ!~": 0, "@[`{": 0,
		"`{`{": dnsmessage.RCodeNameError, "a b": dnsmessage.RCodeNameError, "a\x7f": dnsmessage.RCodeNameError, "a\x00": dnsmessage.RCodeNameError,
	} {
		var m dnsmessage.Message
		if err := m.Unpack(s.answer(nil, question(dnsmessage.ClassINET, dnsmessage.TypeA, label, "example", "bl", "example"), maxUDP)); err != nil || m.RCode != want {
			t.Errorf("%q: %v, %v, want %v", label, m.RCode, err, want)
		}
	}
}

// everything is a list that has whatever can be asked for.
type everything struct{ set }

func (everything) HasDomain(string) bool   { return true }
func (everything) HasAddr(netip.Addr) bool { return true }
func (everything) HasDigest(string) bool   { return true }

// TestNoSuchName: what is no address and no hash is no name, whatever the list says.
func TestNoSuchName(t *testing.T) {
	s := &Server{Zones: []Zone{{Name: "ip.example", Form: Addresses, List: everything{}}, {Name: "hash.example", Form: Hashes, List: everything{}}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	nibbles := strings.Split(strings.TrimSuffix(strings.Repeat("1.", 32), "."), ".")
	with := func(first string, rest ...string) []string { return append([]string{first}, rest...) }
	b32 := strings.Repeat("y", 52)
	sum := strings.Repeat("0", 40)
	for _, tt := range []struct {
		zone   string
		labels []string
		want   string
	}{
		{"ip", nibbles, "hit"}, {"ip", with("f", nibbles[1:]...), "hit"}, {"ip", nibbles[:31], "no data"}, {"ip", nibbles[:5], "no data"},
		{"ip", with("1", nibbles...), "no name"}, {"ip", with("g", nibbles[1:]...), "no name"},
		{"ip", with("01", nibbles[1:]...), "no name"}, {"ip", with("1x", nibbles[1:]...), "no name"},
		{"ip", []string{"0", "0", "0", "0"}, "hit"}, {"ip", []string{"255", "10", "100", "1"}, "hit"}, {"ip", []string{"a"}, "no data"},
		{"ip", []string{"256", "1", "1", "1"}, "no name"}, {"ip", []string{"00", "1", "1", "1"}, "no name"}, {"ip", []string{"10", "1"}, "no data"},
		{"ip", []string{"2", "0", "0", "127"}, "hit"}, {"ip", []string{"1", "0", "0", "127"}, "no name"},
		{"hash", []string{sum}, "hit"}, {"hash", []string{sum[:32]}, "hit"}, {"hash", []string{sum[:39]}, "no name"}, {"hash", []string{sum, "0"}, "no name"},
		{"hash", []string{"09af" + sum[4:]}, "hit"}, {"hash", []string{"/" + sum[1:]}, "no name"}, {"hash", []string{":" + sum[1:]}, "no name"},
		{"hash", []string{"`" + sum[1:]}, "no name"}, {"hash", []string{"g" + sum[1:]}, "no name"},
		{"hash", []string{b32}, "hit"}, {"hash", []string{b32[1:]}, "no name"},
		// Of the last digit four bits are beyond the 256 that a SHA-256 has, in both
		// alphabets; the digits 0 and 8 are in one each, 0 at the end in neither.
		{"hash", []string{b32[1:] + "8"}, "no name"}, {"hash", []string{b32[1:] + "0"}, "no name"}, {"hash", []string{"8" + b32[1:]}, "hit"},
		{"hash", []string{"0" + b32[1:]}, "no name"}, {"hash", []string{"l" + strings.Repeat("a", 51)}, "hit"},
		{"hash", []string{"test"}, "hit"}, {"hash", []string{"tesu"}, "no name"},
	} {
		var m dnsmessage.Message
		if err := m.Unpack(s.answer(nil, question(dnsmessage.ClassINET, dnsmessage.TypeA, append(tt.labels, tt.zone, "example")...), maxUDP)); err != nil {
			t.Fatal(err)
		}
		got := "hit"
		switch {
		case m.RCode == dnsmessage.RCodeNameError:
			got = "no name"
		case len(m.Answers) == 0:
			got = "no data"
		}
		if got != tt.want {
			t.Errorf("%s below %s: %s, want %s", strings.Join(tt.labels, "."), tt.zone, got, tt.want)
		}
	}
}

// TestHashOfRspamd: the digits of rspamd's Base32 are read to the same bytes.
func TestHashOfRspamd(t *testing.T) {
	want := sha("mallory@example.org")
	s := &Server{Zones: []Zone{{Name: "hash.example", Form: Hashes, List: set{names: map[string]bool{hex.EncodeToString(want[:]): true}}}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	const label = "75gwf5yamhxk3pqamzg5ni6n63qedmxzuyprc7qodxz8gzrnsmfb"
	for at := range label {
		for _, digit := range "yb9" {
			asked := label[:at] + string(digit) + label[at+1:]
			var m dnsmessage.Message
			if err := m.Unpack(s.answer(nil, question(dnsmessage.ClassINET, dnsmessage.TypeA, asked, "hash", "example"), maxUDP)); err != nil {
				t.Fatal(err)
			}
			if got := m.RCode == dnsmessage.RCodeSuccess; got != (asked == label) {
				t.Errorf("%s: listed %v", asked, got)
			}
		}
	}
}

// TestRecords: the records of a zone hold what it was given.
func TestRecords(t *testing.T) {
	s := &Server{Zones: []Zone{{Name: ".BL.example.", Form: Domains, List: everything{set{reason: "x"}}, TTL: 90 * time.Second, Code: netip.MustParseAddr("127.3.2.1"), Host: "NS.example."}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kind   dnsmessage.Type
		labels []string
		want   dnsmessage.ResourceBody
	}{
		{dnsmessage.TypeA, []string{"x", "y"}, &dnsmessage.AResource{A: [4]byte{127, 3, 2, 1}}},
		{dnsmessage.TypeTXT, []string{"x", "y"}, &dnsmessage.TXTResource{TXT: []string{"x"}}},
		{dnsmessage.TypeNS, nil, &dnsmessage.NSResource{NS: dnsmessage.MustNewName("ns.example.")}},
		{dnsmessage.TypeSOA, nil, &dnsmessage.SOAResource{
			NS: dnsmessage.MustNewName("ns.example."), MBox: dnsmessage.MustNewName("hostmaster.bl.example."),
			Serial: 1_800_000_000, Refresh: 3600, Retry: 600, Expire: 604800, MinTTL: 90,
		}},
	} {
		var m dnsmessage.Message
		err := m.Unpack(s.answer(nil, question(dnsmessage.ClassINET, tt.kind, append(tt.labels, "bl", "example")...), maxUDP))
		if err != nil || len(m.Answers) != 1 || len(m.Authorities)+len(m.Additionals) != 0 {
			t.Fatalf("%v: %+v, %v", tt.kind, m, err)
		}
		got := m.Answers[0]
		if got.Header.TTL != 90 || got.Header.Class != dnsmessage.ClassINET || got.Header.Type != tt.kind || got.Body.GoString() != tt.want.GoString() {
			t.Errorf("%v: %+v %s, want %s for 90 s", tt.kind, got.Header, got.Body.GoString(), tt.want.GoString())
		}
	}
}

// TestZonesAtTheirBounds: the most and the least that a zone may be is served.
func TestZonesAtTheirBounds(t *testing.T) {
	good := Zone{Name: "x.example", Form: Domains, List: everything{}}
	label := strings.Repeat("x", 63)
	long := strings.Join([]string{label, label, label, strings.Repeat("y", 61)}, ".")
	for _, tt := range []struct {
		name   string
		change func(*Zone)
		ok     bool
	}{
		{"TTL of a second", func(z *Zone) { z.TTL = time.Second }, true},
		{"TTL of a week", func(z *Zone) { z.TTL = 168 * time.Hour }, true},
		{"TTL of more", func(z *Zone) { z.TTL = 168*time.Hour + 1 }, false},
		{"longest label", func(z *Zone) { z.Name = label + ".example" }, true},
		{"longest zone", func(z *Zone) { z.Name = strings.Join([]string{label, label, strings.Repeat("y", 52)}, ".") }, true},
		{"longer zone", func(z *Zone) { z.Name = strings.Join([]string{label, label, strings.Repeat("y", 53)}, ".") }, false},
		{"longest host", func(z *Zone) { z.Host = long }, true},
		{"longer host", func(z *Zone) { z.Host = long + "y" }, false},
		{"signs", func(z *Zone) { z.Name = "!~.example" }, true},
		{"letters beyond ASCII", func(z *Zone) { z.Name = "\x7f.example" }, false},
		{"first code", func(z *Zone) { z.Code = netip.MustParseAddr("127.0.0.0") }, true},
		{"last code", func(z *Zone) { z.Code = netip.MustParseAddr("127.255.254.255") }, true},
	} {
		z := good
		tt.change(&z)
		s := &Server{Zones: []Zone{z}}
		if err := s.Prepare(); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want it taken: %v", tt.name, err, tt.ok)
		} else if err != nil {
			continue
		}
		msg := question(dnsmessage.ClassINET, dnsmessage.TypeA, append([]string{"a"}, strings.Split(z.Name, ".")...)...)
		if got := describe(t, ask(t, s, msg)); !strings.HasPrefix(got, "127.") {
			t.Errorf("%s: served as %s", tt.name, got)
		}
	}
	s := newServer(t)
	var zones []Zone
	for i := range maxZones {
		zones = append(zones, Zone{Name: fmt.Sprintf("z%d.example", i), Form: Domains, List: everything{}})
	}
	if err := s.SetZones(zones); err != nil {
		t.Errorf("%d zones: %v", len(zones), err)
	}
	if err := s.SetZones(append(zones, good)); err == nil || !strings.Contains(err.Error(), "257 zones, limit 256") {
		t.Errorf("%d zones: %v", len(zones)+1, err)
	}
}

// TestZonesWithin: of a zone within another the names are its own, in whatever order
// they are given.
func TestZonesWithin(t *testing.T) {
	outer := Zone{Name: "example", Form: Domains, List: everything{}}
	inner := Zone{Name: "in.example", Form: Domains, List: set{}}
	beside := Zone{Name: "an.example", Form: Domains, List: everything{}, Code: netip.MustParseAddr("127.0.0.5")}
	for _, zones := range [][]Zone{{outer, inner, beside}, {inner, outer, beside}, {beside, outer, inner}, {outer, beside, inner}} {
		s := &Server{Zones: zones}
		if err := s.Prepare(); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"a.b.in.example.": "no name", "a.b.an.example.": "127.0.0.5", "a.bin.example.": "127.0.0.2", "in.example.": "no data", "a.b.example.": "127.0.0.2",
		} {
			if got := describe(t, ask(t, s, pack(t, name, dnsmessage.TypeA, 0))); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		for _, z := range zones {
			if err := s.SetZones(append(zones, Zone{Name: strings.ToUpper(z.Name) + ".", Form: Hashes, List: set{}})); err == nil {
				t.Errorf("%s was taken twice", z.Name)
			}
		}
	}
}

// TestTCP: answers have their length before them; what must not be answered, or is
// above the rate, ends the connection, as does a client that stops.
func TestTCP(t *testing.T) {
	hit := question(dnsmessage.ClassINET, dnsmessage.TypeA, "evil", "example", "bl", "example", "com")
	framed := func(msg []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...) }
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, tt := range []struct {
		name  string
		set   func(*Server)
		after []byte // two questions
		want  int    // answers
		count int64  // queries
	}{
		{"end", nil, nil, 2, 2},
		{"no query", nil, append(framed(make([]byte, 11)), framed(hit)...), 2, 2},
		{"nothing", nil, append([]byte{0, 0}, framed(hit)...), 2, 2},
		{"cut", nil, framed(hit)[:20], 2, 2},
		{"half a length", nil, []byte{0}, 2, 2},
		{"over the rate", func(s *Server) { s.Rate = door.Rate{PerSecond: 1e-6, Burst: 1} }, nil, 1, 1},
		{"exempt", func(s *Server) { s.Rate, s.Exempt = door.Rate{PerSecond: 1e-6, Burst: 1}, loopback }, nil, 2, 2},
	} {
		s := newFreshServer(t)
		if tt.set != nil {
			tt.set(s)
		}
		c, err := net.Dial("tcp", serve(t, s))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(append(append(framed(hit), framed(hit)...), tt.after...)); err != nil {
			t.Fatal(err)
		}
		c.(*net.TCPConn).CloseWrite()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		got, err := io.ReadAll(c)
		if err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", tt.name, err)
		}
		n := 0
		for ; len(got) >= 2; n++ {
			size := min(int(binary.BigEndian.Uint16(got)), len(got)-2)
			var m dnsmessage.Message
			if err := m.Unpack(got[2 : 2+size]); err != nil || len(m.Answers) != 1 {
				t.Fatalf("%s: answer % x: %v", tt.name, got, err)
			}
			got = got[2+size:]
		}
		if n != tt.want || s.Stats.Queries.Load() != tt.count {
			t.Errorf("%s: %d answers, %d queries counted, want %d, %d", tt.name, n, s.Stats.Queries.Load(), tt.want, tt.count)
		}
	}
}

// newFreshServer is newServer before it was prepared.
func newFreshServer(t *testing.T) *Server {
	var zones []Zone
	for _, z := range *newServer(t).zones.Load() {
		zones = append(zones, z.Zone)
	}
	return &Server{Zones: zones}
}

// TestUDPRate: what is above the rate is dropped, unless the client is exempt, and so
// are datagrams that must not be answered.
func TestUDPRate(t *testing.T) {
	hit := question(dnsmessage.ClassINET, dnsmessage.TypeA, "evil", "example", "bl", "example", "com")
	for _, exempt := range []bool{false, true} {
		s := newFreshServer(t)
		s.Rate = door.Rate{PerSecond: 1e-6, Burst: 3}
		want := int64(3)
		if exempt {
			s.Exempt = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
			want = 5
		}
		c, err := net.Dial("udp", serve(t, s))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 5 {
			if _, err := c.Write(hit); err != nil {
				t.Fatal(err)
			}
		}
		buf := make([]byte, 2048)
		for range want {
			c.SetReadDeadline(time.Now().Add(20 * time.Second))
			if n, err := c.Read(buf); err != nil || n < len(hit) {
				t.Fatalf("exempt %v: answer of %d bytes, %v", exempt, n, err)
			}
		}
		for s.PacketStats().Received.Load()+s.PacketStats().Limited.Load() < 5 {
			runtime.Gosched()
		}
		if got := s.Stats.Queries.Load(); got != want {
			t.Errorf("exempt %v: %d queries answered, want %d", exempt, got, want)
		}
	}
}

// TestWrongZone: with a zone that is wrong nothing is served, and what was to be
// served on is closed.
func TestWrongZone(t *testing.T) {
	s := &Server{Zones: []Zone{{Name: "x.example", Form: "?", List: set{}}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []error{s.Serve(l), s.ServePacket(pc), s.Prepare()} {
		if got == nil || !strings.Contains(got.Error(), `form "?"`) {
			t.Errorf("%v, want the form named", got)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
	if _, _, err := pc.ReadFrom(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the socket is open: %v", err)
	}
}
