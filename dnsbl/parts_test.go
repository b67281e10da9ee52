package dnsbl

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"pgregory.net/rapid"
)

// An own is the code and text of an entry.
type own struct {
	code netip.Addr
	text string
}

// valued is an exact list with codes and texts by entry.
type valued struct {
	set
	values map[string]own
	all    own
	time   time.Time
}

func (v valued) find(name string) (netip.Addr, string, bool) {
	return v.values[name].code, v.values[name].text, v.names[name]
}
func (v valued) FindDomain(name string) (netip.Addr, string, bool)   { return v.find(name) }
func (v valued) FindAddr(a netip.Addr) (netip.Addr, string, bool)    { return v.find(a.String()) }
func (v valued) FindDigest(digest string) (netip.Addr, string, bool) { return v.find(digest) }
func (v valued) Default() (netip.Addr, string)                       { return v.all.code, v.all.text }
func (v valued) Updated() time.Time                                  { return v.time }

// asked returns the codes and texts that a server answers about a name, each sorted.
func asked(t testing.TB, s *Server, name string) (codes, texts []string) {
	t.Helper()
	for _, r := range ask(t, s, pack(t, name, dnsmessage.TypeA, 1232)).Answers {
		codes = append(codes, netip.AddrFrom4(r.Body.(*dnsmessage.AResource).A).String())
		if r.Header.Name.String() != name || r.Header.TTL != 300 {
			t.Errorf("%s has an A record of %v for %d s", name, r.Header.Name, r.Header.TTL)
		}
	}
	for _, r := range ask(t, s, pack(t, name, dnsmessage.TypeTXT, 1232)).Answers {
		texts = append(texts, strings.Join(r.Body.(*dnsmessage.TXTResource).TXT, ""))
	}
	slices.Sort(codes)
	slices.Sort(texts)
	return codes, texts
}

// TestParts compares the answers of zones that combine lists with plain maps, in every form of names.
func TestParts(t *testing.T) {
	type entry struct{ listed, asked, shown string } // in a list, below a zone, in place of "$"
	entries := map[Form][]entry{Addresses: nil, Domains: nil, Hashes: nil}
	for i := range 4 {
		name := fmt.Sprintf("n%d.example", i)
		entries[Domains] = append(entries[Domains], entry{name, name, name})
		addr := fmt.Sprintf("192.0.2.%d", i)
		entries[Addresses] = append(entries[Addresses], entry{addr, fmt.Sprintf("%d.2.0.192", i), addr})
		sum := sha(name)
		md5 := hex.EncodeToString(sum[:16])
		entries[Hashes] = append(entries[Hashes], entry{md5, md5, md5})
	}
	rapid.Check(t, func(r *rapid.T) {
		form := rapid.SampledFrom([]Form{Addresses, Domains, Hashes}).Draw(r, "form")
		code := func(label string) (a netip.Addr) {
			if n := rapid.IntRange(1, 5).Draw(r, label); n > 1 {
				a = netip.AddrFrom4([4]byte{127, 0, 0, byte(n)})
			}
			return a
		}
		text := func(label string) string {
			return rapid.SampledFrom([]string{"", "spam", "see http://example.net/?$ for $$ 5", "$"}).Draw(r, label)
		}
		z := Zone{Name: "z.example", Form: form, Code: code("zone's code"), Text: text("zone's text")}
		for p := range rapid.IntRange(1, 4).Draw(r, "parts") {
			v := valued{set{map[string]bool{}, fmt.Sprint("reason $ ", p)}, map[string]own{},
				own{code("default code"), text("default text")}, time.Unix(int64(1000+p), 0)}
			for _, e := range entries[form] {
				if v.names[e.listed] = rapid.Bool().Draw(r, "listed"); v.names[e.listed] {
					v.values[e.listed] = own{code("own code"), text("own text")}
				}
			}
			z.Parts = append(z.Parts, Part{List: v, Code: code("part's code"), Text: text("part's text")})
			if rapid.Bool().Draw(r, "plain") { // a list without values
				z.Parts[p].List = v.set
			}
		}
		s := &Server{Zones: []Zone{z}}
		if err := s.Prepare(); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries[form] {
			var codes, texts []string
			for _, p := range z.Parts {
				v, ok := p.List.(valued)
				if !ok {
					v = valued{set: p.List.(set)}
				}
				if !v.names[e.listed] {
					continue
				}
				first := listed
				for _, c := range []netip.Addr{v.all.code, z.Code, p.Code, v.values[e.listed].code} {
					if c.IsValid() {
						first = c
					}
				}
				want := ""
				for _, t := range []string{v.all.text, z.Text, p.Text, v.values[e.listed].text} {
					if t != "" {
						want = strings.ReplaceAll(t, "$$", "\x00")
						want = strings.ReplaceAll(want, "$", e.shown)
						want = strings.ReplaceAll(want, "\x00", "$")
					}
				}
				if want == "" {
					want = v.reason
				}
				codes, texts = append(codes, first.String()), append(texts, want)
			}
			slices.Sort(codes)
			slices.Sort(texts)
			codes, texts = slices.Compact(codes), slices.Compact(texts)
			gotCodes, gotTexts := asked(t, s, e.asked+".z.example.")
			if !slices.Equal(gotCodes, codes) || !slices.Equal(gotTexts, texts) {
				r.Fatalf("%s: %q %q, want %q %q", e.asked, gotCodes, gotTexts, codes, texts)
			}
		}
	})
}

// TestPartsOfZones: wrong parts are errors, a zone with an unknown list answers SERVFAIL, the serial number is the
// newest list's, and a code that means an error is not sent whatever a list returns.
func TestPartsOfZones(t *testing.T) {
	list := valued{set: set{names: map[string]bool{"evil.example": true, "worse.example": true}},
		values: map[string]own{"worse.example": {notListed, strings.Repeat("$ ", 127)}}, time: time.Unix(7000, 0)}
	older := list
	older.time = time.Unix(5000, 0)
	for _, bad := range []Zone{
		{Name: "z.example", Form: Domains, List: list, Parts: []Part{{List: list}}},
		{Name: "z.example", Form: Domains, Parts: []Part{{List: list}, {}}},
		{Name: "z.example", Form: Domains, Parts: []Part{{List: list, Code: notListed}}},
		{Name: "z.example", Form: Domains, Parts: []Part{{List: list, Code: netip.MustParseAddr("127.255.255.1")}}},
		{Name: "z.example", Form: Domains, Parts: slices.Repeat([]Part{{List: list}}, maxParts+1)},
	} {
		if err := (&Server{Zones: []Zone{bad}}).Prepare(); err == nil || !strings.Contains(err.Error(), "z.example") {
			t.Errorf("%d parts: %v", len(bad.Parts), err)
		}
	}
	known := false
	s := &Server{Zones: []Zone{{Name: "z.example", Form: Domains, Parts: []Part{
		{List: older}, {List: list, Known: func() bool { return known }}}}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	msg := pack(t, "evil.example.z.example.", dnsmessage.TypeA, 0)
	if m := ask(t, s, msg); m.RCode != dnsmessage.RCodeServerFailure || len(m.Answers) != 0 {
		t.Errorf("with an unknown list: %v", m)
	}
	known = true
	if m := ask(t, s, msg); m.RCode != dnsmessage.RCodeSuccess || len(m.Answers) != 1 {
		t.Errorf("with all lists: %v", m)
	}
	soa := ask(t, s, pack(t, "z.example.", dnsmessage.TypeSOA, 0)).Answers[0].Body.(*dnsmessage.SOAResource)
	if soa.Serial != 7000 {
		t.Errorf("serial number %d, want the newest list's, 7000", soa.Serial)
	}
	codes, texts := asked(t, s, "worse.example.z.example.")
	if !slices.Equal(codes, []string{"127.0.0.2"}) || len(texts) != 1 || len(texts[0]) != maxText {
		t.Errorf("%q and texts %q, want 127.0.0.2 and a text of 255 bytes", codes, texts)
	}
}

// TestPartsNeedRoom: an answer of several records that exceeds a client's limit sends it to TCP, where it is whole.
func TestPartsNeedRoom(t *testing.T) {
	list := set{reason: strings.Repeat("r", 250), names: map[string]bool{"evil.example": true}}
	var parts []Part
	for i := range maxParts {
		parts = append(parts, Part{List: list, Code: netip.AddrFrom4([4]byte{127, 0, 1, byte(i)}),
			Text: fmt.Sprintf("%0200d", i)})
	}
	s := &Server{Zones: []Zone{{Name: "z.example", Form: Domains, Parts: parts}}}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeTXT} {
		msg := pack(t, "evil.example.z.example.", kind, 0)
		if m := ask(t, s, msg); !m.Truncated || len(m.Answers) != 0 {
			t.Errorf("%v over UDP: truncated %v, %d answers", kind, m.Truncated, len(m.Answers))
		}
		var m dnsmessage.Message
		if err := m.Unpack(s.answer(nil, msg, local, maxTCP)); err != nil || len(m.Answers) != maxParts {
			t.Errorf("%v over TCP: %d answers, %v", kind, len(m.Answers), err)
		}
	}
}
