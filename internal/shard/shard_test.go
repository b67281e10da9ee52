package shard

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func note(what string) Note { return Note{At: noon, By: "ann@admin", What: what} }

func shardOf(n int) Shard {
	return Shard{Name: fmt.Sprintf("s%d", n), URLs: []string{fmt.Sprintf("https://s%d.example.com", n),
		fmt.Sprintf("https://s%db.example.com", n)}}
}

func site(t testing.TB, shards int) *Map {
	t.Helper()
	m, err := New(shardOf(0), note("add"))
	for n := 1; err == nil && n < shards; n++ {
		if m, err = m.Add(shardOf(n), note("add")); err == nil {
			m, err = m.Level(fmt.Sprintf("s%d", n), note("level"))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// broken returns texts that are no map, by what is wrong, from the text of a map.
func broken(t testing.TB, good string) map[string]string {
	replace := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("%q is not in %s", from, good)
		}
		return strings.Replace(good, from, to, 1)
	}
	slots := func(text string) string { // of the first shard
		return regexp.MustCompile(`"slots":"[^"]*"`).ReplaceAllStringFunc(good, func(found string) string {
			defer func() { text = "" }()
			if text == "" {
				return found
			}
			return `"slots":"` + text + `"`
		})
	}
	return map[string]string{
		"empty":                 "",
		"no object":             "7",
		"bytes behind":          good + "{}",
		"unknown field":         replace(`"version"`, `"colour":1,"version"`),
		"version 0":             replace(`"version":5`, `"version":0`),
		"short salt":            regexp.MustCompile(`"salt":"..`).ReplaceAllString(good, `"salt":"`),
		"no shards":             regexp.MustCompile(`\[\{.*\}\]`).ReplaceAllString(good, "[]"),
		"no slots in order":     slots("7,3"),
		"no number":             slots("0-x"),
		"a range of one":        slots("0-0"),
		"a zero in front":       slots("01"),
		"negative":              slots("-1"),
		"a long address":        replace(`https://s1.`, `https://`+strings.Repeat("a", maxURL)+`.`),
		"an address with query": replace(`s1.example.com`, `s1.example.com?x`),
		"default of no shard":   replace(`"default":"s0"`, `"default":"s9"`),
		"name":                  replace(`"name":"s1"`, `"name":"S 1"`),
		"order of names":        replace(`"name":"s1"`, `"name":"s3"`),
		"two of one name":       replace(`"name":"s1"`, `"name":"s0"`),
		"no address":            replace(`"https://s1.example.com","https://s1b.example.com"`, ""),
		"another scheme":        replace(`https://s1.`, `ftp://s1.`),
		"password":              replace(`https://s1.`, `https://a:b@s1.`),
		"address twice":         replace(`https://s1.`, `https://s0.`),
		"slot without shard":    slots("0"),
		"slot of two":           slots("0-1023"),
		"no date":               replace(`"at":"2026`, `"at":"0001`),
		"a note of 300 bytes":   replace(`"what":"level"`, `"what":"`+strings.Repeat("x", 300)+`"`),
		"more than the limit":   good + strings.Repeat(" ", MaxBytes),
		"slot twice":            slots("0,0-340"),
		"a slot beyond the end": slots("0-1024"),
	}
}

// TestParse refuses what is no whole map, and returns what Text wrote.
func TestParse(t *testing.T) {
	good := string(site(t, 3).Text())
	m, err := Parse([]byte(good))
	if err != nil || string(m.Text()) != good {
		t.Fatalf("%v\n%s\n%s", err, good, m.Text())
	}
	for name, text := range broken(t, good) {
		if m, err := Parse([]byte(text)); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: accepted %v: %v", name, m != nil, err)
		}
	}
	newer := strings.Replace(good, `"format":1`, `"format":2,"more":[]`, 1)
	if _, err := Parse([]byte(newer)); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer format: %v", err)
	}
}

// TestSlotsInText compares the text of random sets of slots with the sets.
func TestSlotsInText(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var want []int
		for s := 0; s < Slots; s += 1 + rng.IntN(1+rng.IntN(40)) {
			want = append(want, s)
		}
		got, err := parseSlots(formatSlots(want))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: %v, %v; want %v", formatSlots(want), got, err, want)
		}
	}
	for _, text := range []string{",", "-", "1-", "-1", "1-1", "2-1", "01", "1,1", "2,1", "1-3,3", "1024", "0-1024", "+1",
		"1,", " 1"} {
		if got, err := parseSlots(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// plain is a map of slots to names, for comparison.
type plain [Slots]string

func plainOf(m *Map) (p plain) {
	for s := range p {
		p[s] = m.Owner(s)
	}
	return p
}

// TestChanges makes random changes. Each slot has one shard always; a change of the shards' list moves no slot; a move
// moves only what it names, to where it says; and the text of each map is that map.
func TestChanges(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		m := site(t, 1+rng.IntN(5))
		for step := range 60 {
			before, names := plainOf(m), m.Shards
			pick := func() string { return names[rng.IntN(len(names))].Name }
			var next *Map
			var err error
			from, to, slots, kind := pick(), pick(), rng.IntN(200), rng.IntN(8)
			switch kind {
			case 0:
				next, err = m.Add(shardOf(100+step), note("add"))
			case 1:
				next, err = m.Remove(from, note("remove"))
			case 2:
				next, err = m.Set(from, []string{fmt.Sprintf("http://127.0.0.1:%d", 1000+step)}, note("set"))
			case 3:
				next, err = m.SetDefault(from, note("default"))
			case 4:
				next, err = m.Move(to, from, slots, note("move"))
			case 5:
				next, err = m.Move(to, "", slots, note("move"))
			case 6:
				next, err = m.Level(to, note("level"))
			case 7:
				next, err = m.Drain(from, note("drain"))
			}
			if plainOf(m) != before {
				t.Fatalf("seed %d step %d: a change has changed the map before it", seed, step)
			}
			if err != nil {
				if !errors.Is(err, ErrRefused) {
					t.Fatalf("seed %d step %d kind %d: %v", seed, step, kind, err)
				}
				continue
			}
			after, moved := plainOf(next), 0
			for s := range after {
				if !next.Has(after[s]) {
					t.Fatalf("slot %d has %q, which is no shard", s, after[s])
				}
				if after[s] == before[s] {
					continue
				}
				moved++
				switch {
				case kind < 4,
					kind == 4 && (before[s] != from || after[s] != to),
					(kind == 5 || kind == 6) && after[s] != to,
					kind == 7 && (before[s] != from || after[s] == from):
					t.Fatalf("seed %d: change %d of %q to %q moved slot %d from %q to %q", seed, kind, from, to, s, before[s],
						after[s])
				}
			}
			if (kind == 4 || kind == 5) && moved != slots {
				t.Fatalf("%d slots moved, want %d", moved, slots)
			}
			if next.Version != m.Version+1 || !next.Note.At.After(m.Note.At) {
				t.Fatalf("version %d of %v after %d of %v", next.Version, next.Note.At, m.Version, m.Note.At)
			}
			read, err := Parse(next.Text())
			if err != nil || !bytes.Equal(read.Text(), next.Text()) || plainOf(read) != after {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			m = next
		}
	}
}

// TestShares checks that the shard that joins N others takes 1/(N+1) of the slots, that all parts stay even, and that a
// drained shard's slots are divided evenly.
func TestShares(t *testing.T) {
	m := site(t, 1)
	for n := 1; n < 40; n++ {
		before := m
		var err error
		if m, err = m.Add(shardOf(n), note("add")); err == nil {
			m, err = m.Level(fmt.Sprintf("s%d", n), note("level"))
		}
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for pair, k := range Moved(before, m) {
			if pair[1] != fmt.Sprintf("s%d", n) {
				t.Fatalf("%d slots moved from %s to %s", k, pair[0], pair[1])
			}
			got += k
		}
		if got != Slots/(n+1) {
			t.Errorf("the shard after %d others took %d slots, want %d", n, got, Slots/(n+1))
		}
		least, largest := Slots, 0
		for _, c := range m.counts() {
			least, largest = min(least, c), max(largest, c)
		}
		if largest-least > 2 {
			t.Errorf("%d shards have %d to %d slots", n+1, least, largest)
		}
		if drained, err := m.Drain("s0", note("drain")); err != nil || len(drained.SlotsOf("s0")) != 0 {
			t.Errorf("drain: %v", err)
		}
	}
}

// TestDrain checks that a shard without slots gets none of those of another one, unless all others have none.
func TestDrain(t *testing.T) {
	m := site(t, 3)
	for _, tt := range []struct{ drain, want string }{{"s1", "[512 0 512]"}, {"s0", "[0 0 1024]"}, {"s2", "[512 512 0]"}} {
		var err error
		if m, err = m.Drain(tt.drain, note("drain")); err != nil || fmt.Sprint(m.counts()) != tt.want {
			t.Fatalf("without %s: %v, %v; want %s", tt.drain, m.counts(), err, tt.want)
		}
	}
}

// TestMailboxes checks that mailboxes are spread evenly, that a map keeps the slots of mailboxes, and that another site
// has others.
func TestMailboxes(t *testing.T) {
	a, b := site(t, 16), site(t, 16)
	var per [Slots]int
	same := 0
	const boxes = 200_000
	for i := range boxes {
		box := fmt.Sprintf("user%d@example.com", i)
		per[a.Slot(box)]++
		if a.Slot(box) == b.Slot(box) {
			same++
		}
	}
	for s, n := range per { // 195 on average, standard deviation 14
		if n < 110 || n > 290 {
			t.Errorf("slot %d has %d of %d mailboxes", s, n, boxes)
		}
	}
	if same > 2*boxes/Slots {
		t.Errorf("%d of %d mailboxes have the same slot at two sites", same, boxes)
	}
	read, err := Parse(a.Text())
	if err != nil || read.Slot("ann@example.com") != a.Slot("ann@example.com") {
		t.Errorf("%v: the slot of a mailbox has changed", err)
	}
}

// TestRestore checks that an earlier map comes back as a later version.
func TestRestore(t *testing.T) {
	earlier := site(t, 3)
	later, err := earlier.Drain("s1", note("drain"))
	if err == nil {
		later, err = later.Remove("s1", note("remove"))
	}
	if err != nil {
		t.Fatal(err)
	}
	back := later.Restore(earlier, note("restore"))
	if plainOf(back) != plainOf(earlier) || back.Version != later.Version+1 || !back.Note.At.After(later.Note.At) {
		t.Errorf("version %d of %v", back.Version, back.Note.At)
	}
}

// FuzzParse reads any bytes as a map. A map that is accepted is whole, and stays the same when written.
func FuzzParse(f *testing.F) {
	for _, n := range []int{1, 2, 5} {
		f.Add(site(f, n).Text())
	}
	f.Add([]byte(`{"format":1,"version":1,"salt":"00000000000000000000000000000000","default":"a","shards":[{"name":"a",` +
		`"urls":["http://127.0.0.1:8420"],"slots":"0-1023"}],"at":"2026-01-02T03:04:05Z","by":"","what":""}`))
	f.Add([]byte(`{"format":2}`))
	for _, text := range broken(f, string(site(f, 3).Text())) {
		if len(text) < 8<<10 {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte(`{"format":1,"shards":[{"slots":"0-5,5"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse(text)
		if err != nil {
			if !errors.Is(err, bulkhead.ErrMalformed) && !errors.Is(err, ErrNewer) {
				t.Fatal(err)
			}
			return
		}
		for s := range Slots {
			if !m.Has(m.Owner(s)) {
				t.Fatalf("slot %d has no shard", s)
			}
		}
		written := m.Text()
		again, err := Parse(written)
		if err != nil || !bytes.Equal(again.Text(), written) {
			t.Fatalf("%v\n%s\n%s", err, written, again.Text())
		}
	})
}
