package dnsbl

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
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
	cut     = "\x00\x00\x10\x00\x01\x00\x00\x00\x00\x00\x09\x00"  // with a length beyond its end

	soa = "\xc0\x0c\x00\x06\x00\x01\x00\x00\x00\x00\x00\x16\x00\x00" + // of the question's name
		"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)

// TestStats: each query is counted by the kind of its answer.
func TestStats(t *testing.T) {
	type stats struct{ queries, hits, misses, refused, broken int64 }
	const in = dnsmessage.ClassINET
	listed := []string{"evil", "example", "bl", "example", "com"}
	answer := question(in, dnsmessage.TypeA, listed...)
	answer[2] |= 0x80
	update := question(in, dnsmessage.TypeA, listed...)
	update[2] |= 5 << 3
	withSOA := func(kind dnsmessage.Type) []byte {
		msg := question(in, kind, "bl", "example", "com")
		msg[9] = 1
		return append(msg, soa...)
	}
	for _, tt := range []struct {
		name string
		msg  []byte
		want stats
	}{
		{"listed", question(in, dnsmessage.TypeA, listed...), stats{queries: 1, hits: 1}},
		{"listed, any class", question(dnsmessage.ClassANY, dnsmessage.TypeA, listed...), stats{queries: 1, hits: 1}},
		{"reason", question(in, dnsmessage.TypeTXT, listed...), stats{queries: 1, hits: 1}},
		{"another type", question(in, dnsmessage.TypeMX, listed...), stats{queries: 1}},
		{"not listed", question(in, dnsmessage.TypeA, "good", "example", "bl", "example", "com"),
			stats{queries: 1, misses: 1}},
		{"apex", question(in, dnsmessage.TypeSOA, "bl", "example", "com"), stats{queries: 1}},
		{"elsewhere", question(in, dnsmessage.TypeA, "example", "net"), stats{queries: 1, refused: 1}},
		{"transfer", question(in, dnsmessage.TypeAXFR, "bl", "example", "com"), stats{queries: 1, refused: 1}},
		{"incremental transfer", question(in, typeIXFR, "bl", "example", "com"), stats{queries: 1, refused: 1}},
		{"with the client's SOA", withSOA(typeIXFR), stats{queries: 1, refused: 1}},
		{"with EDNS", withRecords(withSOA(typeIXFR), anOPT), stats{queries: 1, refused: 1}},
		{"a SOA with another question", withSOA(dnsmessage.TypeA), stats{queries: 1, broken: 1}},
		{"another class", question(dnsmessage.ClassCHAOS, dnsmessage.TypeA, listed...), stats{queries: 1, refused: 1}},
		{"no query", update, stats{queries: 1, broken: 1}},
		{"an answer", answer, stats{broken: 1}},
		{"noise", []byte("noise"), stats{broken: 1}},
	} {
		s := newServer(t)
		for range 2 {
			s.answer(nil, tt.msg, local, maxUDP)
		}
		st := &s.Stats
		got := stats{st.Queries.Load(), st.Hits.Load(), st.Misses.Load(), st.Refused.Load(), st.Broken.Load()}
		tt.want = stats{2 * tt.want.queries, 2 * tt.want.hits, 2 * tt.want.misses, 2 * tt.want.refused, 2 * tt.want.broken}
		if got != tt.want {
			t.Errorf("%s, twice: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestAdditional: one OPT record of the root counts; other records are skipped, up to a bound.
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
		if err := m.Unpack(s.answer(nil, withRecords(ask, tt.records...), local, maxUDP)); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if m.RCode != tt.want || (len(m.Answers) == 1) != (tt.want == 0) || (len(m.Additionals) == 1) != tt.wantEDNS {
			t.Errorf("%s: %v with %d answers, %d additional records; want %v, EDNS %v", tt.name, m.RCode, len(m.Answers),
				len(m.Additionals), tt.want, tt.wantEDNS)
		}
		for _, r := range m.Additionals {
			if r.Header.Type != dnsmessage.TypeOPT || r.Header.Class != maxUDP || r.Header.TTL != 0 {
				t.Errorf("%s: %+v, want an OPT record of %d bytes", tt.name, r.Header, maxUDP)
			}
		}
	}
}

// TestSections: a query holds one question, and no answers.
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
		if err := m.Unpack(s.answer(nil, change(slices.Clone(ask)), local, maxUDP)); err != nil ||
			m.RCode != dnsmessage.RCodeFormatError || len(m.Answers) > 0 {
			t.Errorf("%s: %v with %d answers, %v; want FORMERR", name, m.RCode, len(m.Answers), err)
		}
	}
}

// TestSizes: an answer is cut where it would not fit, and not a byte before.
func TestSizes(t *testing.T) {
	labels := []string{strings.Repeat("a", 60), strings.Repeat("b", 60), "evil", "example"}
	name := strings.Join(labels, ".")
	s := &Server{Zones: []Zone{{Name: "bl.example", Form: Domains, List: set{reason: strings.Repeat("r", 300),
		names: map[string]bool{name: true}}}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	ask := question(dnsmessage.ClassINET, dnsmessage.TypeTXT, append(labels, "bl", "example")...)
	opt := func(size int) []byte {
		msg := withRecords(ask, anOPT)
		binary.BigEndian.PutUint16(msg[len(ask)+3:], uint16(size))
		return msg
	}
	whole := len(s.answer(nil, opt(1232), local, maxUDP))
	if whole <= 512 {
		t.Fatalf("an answer of %d bytes fits everywhere", whole)
	}
	for _, tt := range []struct {
		name string
		msg  []byte
		tcp  bool
		want bool // whether the answer is whole
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
		if err := m.Unpack(s.answer(nil, tt.msg, local, limit)); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if m.Truncated == tt.want || (len(m.Answers) == 1) != tt.want || !m.Authoritative || len(m.Questions) != 1 {
			t.Errorf("%s: truncated %v with %d answers, want whole: %v", tt.name, m.Truncated, len(m.Answers), tt.want)
		}
	}
	// A client that names less than 512 bytes still gets up to 512 (RFC 6891 section 6.2.3).
	short := &Server{Zones: []Zone{{Name: "bl.example", Form: Domains, List: set{reason: strings.Repeat("r", 255),
		names: map[string]bool{"zip": true}}}}}
	if err := short.Prepare(); err != nil {
		t.Fatal(err)
	}
	ask = question(dnsmessage.ClassINET, dnsmessage.TypeTXT, "zip", "bl", "example")
	if got := short.answer(nil, opt(16), local, maxUDP); len(got) < 255 || len(got) > 512 {
		t.Errorf("answer of %d bytes to a client that takes 16, want the whole of it", len(got))
	}
}

// TestLetters: letters are compared without case, the characters next to them are not, and no list
// has bytes outside printable ASCII.
func TestLetters(t *testing.T) {
	names := map[string]bool{"az!~.example": true, "@[`{.example": true, "a b.example": true,
		"a\x7f.example": true, "a\x00.example": true}
	s := &Server{Zones: []Zone{{Name: "bl.example", Form: Domains, List: set{names: names}}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]dnsmessage.RCode{
		"az!~": 0, "AZ!~": 0, "@[`{": 0,
		"`{`{": dnsmessage.RCodeNameError, "a b": dnsmessage.RCodeNameError, "a\x7f": dnsmessage.RCodeNameError,
		"a\x00": dnsmessage.RCodeNameError,
	} {
		var m dnsmessage.Message
		if err := m.Unpack(s.answer(nil, question(dnsmessage.ClassINET, dnsmessage.TypeA, label, "example", "bl", "example"),
			local, maxUDP)); err != nil || m.RCode != want {
			t.Errorf("%q: %v, %v, want %v", label, m.RCode, err, want)
		}
	}
}

// everything is a list that has every entry.
type everything struct{ set }

func (everything) HasDomain(string) bool   { return true }
func (everything) HasAddr(netip.Addr) bool { return true }
func (everything) HasDigest(string) bool   { return true }

// TestNoSuchName: a name that is neither an address nor a hash does not exist,
// whatever the list says.
func TestNoSuchName(t *testing.T) {
	s := &Server{Zones: []Zone{{Name: "ip.example", Form: Addresses, List: everything{}},
		{Name: "hash.example", Form: Hashes, List: everything{}}}}
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
		{"ip", nibbles, "hit"}, {"ip", with("f", nibbles[1:]...), "hit"}, {"ip", nibbles[:31], "no data"},
		{"ip", nibbles[:5], "no data"},
		{"ip", with("1", nibbles...), "no name"}, {"ip", with("g", nibbles[1:]...), "no name"},
		{"ip", with("01", nibbles[1:]...), "no name"}, {"ip", with("1x", nibbles[1:]...), "no name"},
		{"ip", []string{"0", "0", "0", "0"}, "hit"}, {"ip", []string{"255", "10", "100", "1"}, "hit"},
		{"ip", []string{"a"}, "no data"},
		{"ip", []string{"256", "1", "1", "1"}, "no name"}, {"ip", []string{"00", "1", "1", "1"}, "no name"},
		{"ip", []string{"10", "1"}, "no data"},
		{"ip", []string{"2", "0", "0", "127"}, "hit"}, {"ip", []string{"1", "0", "0", "127"}, "no name"},
		{"hash", []string{sum}, "hit"}, {"hash", []string{sum[:32]}, "hit"}, {"hash", []string{sum[:39]}, "no name"},
		{"hash", []string{sum, "0"}, "no name"},
		{"hash", []string{"09af" + sum[4:]}, "hit"}, {"hash", []string{"/" + sum[1:]}, "no name"},
		{"hash", []string{":" + sum[1:]}, "no name"},
		{"hash", []string{"`" + sum[1:]}, "no name"}, {"hash", []string{"g" + sum[1:]}, "no name"},
		{"hash", []string{b32}, "hit"}, {"hash", []string{b32[1:]}, "no name"},
		// In both alphabets, four bits of the last digit are beyond the 256 bits of a SHA-256. The
		// digits 0 and 8 are in one alphabet each, 0 at the end in neither.
		{"hash", []string{b32[1:] + "8"}, "no name"}, {"hash", []string{b32[1:] + "0"}, "no name"},
		{"hash", []string{"8" + b32[1:]}, "hit"},
		{"hash", []string{"0" + b32[1:]}, "no name"}, {"hash", []string{"l" + strings.Repeat("a", 51)}, "hit"},
		{"hash", []string{"test"}, "hit"}, {"hash", []string{"tesu"}, "no name"},
	} {
		var m dnsmessage.Message
		if err := m.Unpack(s.answer(nil, question(dnsmessage.ClassINET, dnsmessage.TypeA,
			append(tt.labels, tt.zone, "example")...), local, maxUDP)); err != nil {
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
	s := &Server{Zones: []Zone{{Name: "hash.example", Form: Hashes,
		List: set{names: map[string]bool{hex.EncodeToString(want[:]): true}}}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	const label = "75gwf5yamhxk3pqamzg5ni6n63qedmxzuyprc7qodxz8gzrnsmfb"
	for at := range label {
		for _, digit := range "yb9" {
			asked := label[:at] + string(digit) + label[at+1:]
			var m dnsmessage.Message
			if err := m.Unpack(s.answer(nil, question(dnsmessage.ClassINET, dnsmessage.TypeA, asked, "hash", "example"), local,
				maxUDP)); err != nil {
				t.Fatal(err)
			}
			if got := m.RCode == dnsmessage.RCodeSuccess; got != (asked == label) {
				t.Errorf("%s: listed %v", asked, got)
			}
		}
	}
}

// TestRecords: the records of a zone hold the fields of the Zone.
func TestRecords(t *testing.T) {
	s := &Server{Zones: []Zone{{Name: ".BL.example.", Form: Domains, List: everything{set{reason: "x"}},
		TTL: 90 * time.Second, Code: netip.MustParseAddr("127.3.2.1"), Host: "NS.example."}}}
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
		err := m.Unpack(s.answer(nil, question(dnsmessage.ClassINET, tt.kind, append(tt.labels, "bl", "example")...), local,
			maxUDP))
		if err != nil || len(m.Answers) != 1 || len(m.Authorities)+len(m.Additionals) != 0 {
			t.Fatalf("%v: %+v, %v", tt.kind, m, err)
		}
		got := m.Answers[0]
		if got.Header.TTL != 90 || got.Header.Class != dnsmessage.ClassINET || got.Header.Type != tt.kind ||
			got.Body.GoString() != tt.want.GoString() {
			t.Errorf("%v: %+v %s, want %s for 90 s", tt.kind, got.Header, got.Body.GoString(), tt.want.GoString())
		}
	}
}

// TestZonesAtTheirBounds: the largest and the smallest zone allowed are
// served.
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

// TestZonesWithin: names in a zone within another belong to the inner one, in
// whatever order the zones are given.
func TestZonesWithin(t *testing.T) {
	outer := Zone{Name: "example", Form: Domains, List: everything{}}
	inner := Zone{Name: "in.example", Form: Domains, List: set{}}
	beside := Zone{Name: "an.example", Form: Domains, List: everything{}, Code: netip.MustParseAddr("127.0.0.5")}
	for _, zones := range [][]Zone{{outer, inner, beside}, {inner, outer, beside},
		{beside, outer, inner}, {outer, beside, inner}} {
		s := &Server{Zones: zones}
		if err := s.Prepare(); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"a.b.in.example.": "no name", "a.b.an.example.": "127.0.0.5", "a.bin.example.": "127.0.0.2",
			"in.example.": "no data", "a.b.example.": "127.0.0.2",
		} {
			if got := describe(t, ask(t, s, pack(t, name, dnsmessage.TypeA, 0))); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		for _, z := range zones {
			if err := s.SetZones(append(zones, Zone{Name: strings.ToUpper(z.Name) + ".",
				Form: Hashes, List: set{}})); err == nil {
				t.Errorf("%s was taken twice", z.Name)
			}
		}
	}
}

// TestDNSName checks the limits of names that are configured: 253 bytes, and 63 bytes of a label.
func TestDNSName(t *testing.T) {
	label := strings.Repeat("a", 63)
	long := strings.Join([]string{label, label, label, strings.Repeat("b", 61)}, ".") // 253 bytes
	for name, ok := range map[string]bool{
		"bl.example": true, "BL.Example.": true, "": false, "a..b": false, label + ".example": true,
		label + "a.example": false, long: true, long + "b": false, "a b.example": false, "bücher.example": false,
	} {
		got, err := dnsName(name)
		if (err == nil) != ok || ok && got.String() != strings.ToLower(strings.Trim(name, "."))+"." {
			t.Errorf("%.20q of %d bytes: %v, %v; want accepted %v", name, len(name), got, err, ok)
		}
	}
}
