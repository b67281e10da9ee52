package recent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

func sig(scheme bulkhead.Scheme, name string) bulkhead.Signature {
	return bulkhead.MustSignature(scheme, []byte(name))
}

// message returns the signatures of mail with a text, a footer that other mail has as well, and a
// link.
func message(text, link string) []bulkhead.Signature {
	return []bulkhead.Signature{
		sig(bulkhead.Exact, text), sig(bulkhead.Near, "n1"+text), sig(bulkhead.Near, "n2"), sig(bulkhead.RazorE4, text),
		sig(bulkhead.RazorE4, "footer"),
		sig(bulkhead.PyzorDigest, "lines"), sig(bulkhead.DCCBody, text), sig(bulkhead.RspamdText, text),
		sig(bulkhead.RspamdText, "logo"), sig(bulkhead.Link, link),
	}
}

func commonOf(t *Table, s bulkhead.Signature, space Space) []bulkhead.Signature {
	return t.Common(nil, &s, space)
}

// TestCommon checks that a digest stands for what all messages with it have in common.
func TestCommon(t *testing.T) {
	table := NewTable(1<<20, time.Hour, nil)
	a, b := message("a", "a.example"), message("b", "b.example")
	table.Note(a, "", "")
	for _, s := range []bulkhead.Signature{a[3], a[5], a[6], a[7]} {
		if got := commonOf(table, s, ""); !slices.Equal(got, a) {
			t.Errorf("%v stands for %v, want all of a", s, got)
		}
	}
	for _, s := range []bulkhead.Signature{a[0], a[1], a[4], a[8], a[9], b[6]} {
		if got := commonOf(table, s, ""); got != nil {
			t.Errorf("%v stands for %v, want nothing: it tells no message from others", s, got)
		}
	}
	table.Note(b, "", "")
	want := []bulkhead.Signature{a[2], a[4], a[5], a[8]}
	if got := commonOf(table, a[5], ""); !slices.Equal(got, want) {
		t.Errorf("the digest of both stands for %v, want %v", got, want)
	}
	for text, m := range map[string][]bulkhead.Signature{"a": a, "b": b} {
		if got := commonOf(table, m[6], ""); !slices.Equal(got, m) {
			t.Errorf("the body of %s stands for %v", text, got)
		}
	}
	table.Note(a, "", "")
	if got := commonOf(table, a[5], ""); !slices.Equal(got, want) {
		t.Errorf("after a once more the digest of both stands for %v, want %v", got, want)
	}
}

// TestLacking checks that a signature that one door does not compute makes no difference
// between copies of a text, but another sender does.
func TestLacking(t *testing.T) {
	text, body := sig(bulkhead.Exact, "text"), sig(bulkhead.DCCBody, "text")
	band, from := sig(bulkhead.RspamdShingle, "band"), sig(bulkhead.Sender, "bank.example")
	for _, tt := range []struct {
		name       string
		a, b, want []bulkhead.Signature
	}{
		{"no shingles", []bulkhead.Signature{text, body}, []bulkhead.Signature{text, body, band},
			[]bulkhead.Signature{text, body, band}},
		{"the other way round", []bulkhead.Signature{text, body, band}, []bulkhead.Signature{text, body},
			[]bulkhead.Signature{text, body, band}},
		{"a sender", []bulkhead.Signature{text, body, from}, []bulkhead.Signature{text, body},
			[]bulkhead.Signature{text, body}},
		{"another text", []bulkhead.Signature{sig(bulkhead.Exact, "other"), body}, []bulkhead.Signature{text, body, band},
			[]bulkhead.Signature{body}},
	} {
		table := NewTable(1<<20, time.Hour, nil)
		table.Note(tt.a, "", "")
		table.Note(tt.b, "", "")
		if got := commonOf(table, body, ""); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestSpaces checks that messages from a stranger are known to that network only.
func TestSpaces(t *testing.T) {
	table := NewTable(1<<20, time.Hour, nil)
	a, b := message("a", "a.example"), message("a", "victim.example")
	table.Note(a, "", "")
	table.Note(b, "192.0.2.0/24", "")
	if got := commonOf(table, a[6], ""); !slices.Equal(got, a) {
		t.Errorf("a stranger changed what a digest stands for: %v", got)
	}
	if got := commonOf(table, a[6], "192.0.2.0/24"); !slices.Equal(got, b) {
		t.Errorf("to the stranger it stands for %v, want what he showed", got)
	}
	if got := commonOf(table, a[6], "198.51.100.0/24"); got != nil {
		t.Errorf("to another stranger it stands for %v", got)
	}
}

// TestAge checks that a message that is no longer seen is forgotten.
func TestAge(t *testing.T) {
	now := time.Unix(1e9, 0)
	table := NewTable(1<<20, time.Hour, func() time.Time { return now })
	a, b := message("a", "a.example"), message("b", "b.example")
	table.Note(a, "", "")
	now = now.Add(40 * time.Minute)
	table.Note(b, "", "")
	now = now.Add(40 * time.Minute)
	if got := commonOf(table, a[6], ""); got != nil {
		t.Errorf("after 80 minutes: %v", got)
	}
	if got := commonOf(table, b[6], ""); !slices.Equal(got, b) {
		t.Errorf("after 40 minutes: %v", got)
	}
	table.Note(message("c", "c.example"), "", "")
	if n, _ := table.Size(); n != 1+3+3 { // Pyzor's, and three of b and of c
		t.Errorf("%d digests are left, want 7", n)
	}
}

// TestFlood checks that a network that floods the table displaces its own messages, that
// strangers displace strangers, and that the table stays within its limit.
func TestFlood(t *testing.T) {
	const size = 1 << 20
	table := NewTable(size, time.Hour, nil)
	own := make([][]bulkhead.Signature, 100)
	for i := range own {
		own[i] = message(fmt.Sprint("own", i), "a.example")
		table.Note(own[i], "", fmt.Sprintf("10.0.%d.0/24", i))
	}
	for i := range 20_000 {
		table.Note(message(fmt.Sprint("flood", i), "x.example"), "", "192.0.2.0/24")
		table.Note(message(fmt.Sprint("flood", i), "x.example"), Space(fmt.Sprintf("203.0.%d.0/24", i%200)), "")
	}
	if _, bytes := table.Size(); bytes > size {
		t.Errorf("%d bytes, limit %d", bytes, size)
	}
	for i, m := range own {
		if got := commonOf(table, m[6], ""); !slices.Equal(got, m) {
			t.Fatalf("message %d was pushed out by a flood of one network: %v", i, got)
		}
	}
}

// TestBytes checks that the size that the table reports is the sum of its parts, after any
// additions and removals.
func TestBytes(t *testing.T) {
	now := time.Unix(1e9, 0)
	table := NewTable(20_000, time.Hour, func() time.Time { return now })
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		m := message(fmt.Sprint(r.IntN(60)), fmt.Sprint(r.IntN(3), ".example"))
		table.Note(m[:2+r.IntN(len(m)-2)], []Space{"", "", "a", "b"}[r.IntN(4)], fmt.Sprint(r.IntN(3)))
		now = now.Add(time.Duration(r.IntN(60)) * time.Second)
		if _, bytes := table.Size(); bytes > 20_000 {
			t.Fatalf("%d bytes, limit 20000", bytes)
		}
	}
	sets, bytes, entries := make(map[*set]int), int64(0), 0
	for _, e := range table.byKey {
		sets[e.set]++
		bytes += entryBytes
	}
	for s, refs := range sets {
		if s.refs != refs {
			t.Errorf("a set has %d entries and says %d", refs, s.refs)
		}
		bytes += s.bytes()
	}
	for i := range table.halls {
		h := &table.halls[i]
		entries += h.all.Len()
		shared := 0
		for _, l := range h.shares {
			shared += l.Len()
		}
		if shared != h.all.Len() {
			t.Errorf("hall %d has %d entries, its shares %d", i, h.all.Len(), shared)
		}
	}
	if _, got := table.Size(); got != bytes || entries != len(table.byKey) {
		t.Errorf("%d bytes and %d entries, want %d and %d", got, entries, bytes, len(table.byKey))
	}
}

// BenchmarkNote measures the cost of remembering a message of ordinary size.
func BenchmarkNote(b *testing.B) {
	table := NewTable(64<<20, time.Hour, nil)
	var all [][]bulkhead.Signature
	for i := range 4096 {
		m := message(fmt.Sprint("text", i), "a.example")
		for k := range 40 {
			m = append(m, sig(bulkhead.Near, fmt.Sprint("band of sixteen", i, k)))
		}
		all = append(all, m)
	}
	i := 0
	for b.Loop() {
		table.Note(all[i%len(all)], "", "")
		i++
	}
}
