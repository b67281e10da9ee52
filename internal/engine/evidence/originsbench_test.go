package evidence

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// benchColumns is how many arrays of one kind BenchmarkOrigins has in an index.
const benchColumns = arrays.MaxColumns

// A crowd is origins with some generations of counts and lists, in indexes.
type crowd struct {
	*Sources
	rng *rand.Rand
}

const (
	crowdOrigins = 1000
	crowdKeys    = 10_000 // of an array of counts
	crowdListed  = 300    // likewise of lists
	crowdSigs    = 25     // of a message
	crowdMail    = 30     // messages of each kind
)

// crowdKeysOf returns the keys of a message.
func crowdKeysOf(n int) (all []filter.Key) {
	for i := range crowdSigs {
		all = append(all, filter.Secret{7}.Key(fmt.Appendf(nil, "%d/%d", n, i)))
	}
	return all
}

// newCrowd makes origins. Messages 0 to 29 all have counted once, 30 to 59 8 to 30 times, and
// 60 to 89 once and list them.
func newCrowd(b *testing.B, daily, weekly int) *crowd {
	c := &crowd{rng: rand.New(rand.NewPCG(1, 1))}
	random := func(n int) (keys []filter.Key) {
		for range n {
			keys = append(keys, filter.Key{Hi: c.rng.Uint64(), Lo: c.rng.Uint64()})
		}
		return keys
	}
	counts, err := filter.SizeFor(filter.Target{Kind: filter.Cells, Signatures: 2 * crowdKeys, Rate: 1e-3})
	if err != nil {
		b.Fatal(err)
	}
	lists, err := filter.SizeFor(filter.Target{Kind: filter.Bitmap, Signatures: 10 * crowdListed, Rate: 1e-7})
	if err != nil {
		b.Fatal(err)
	}
	const kinds = 40 // arrays of the same content are in many columns
	var cells []*arrays.Counting
	var spam, revoked []*arrays.Bits
	for range kinds {
		a, err := arrays.NewCounting(counts)
		if err != nil {
			b.Fatal(err)
		}
		for _, k := range random(crowdKeys) {
			a.Add(k, 1)
		}
		s, err := arrays.NewBits(lists)
		if err != nil {
			b.Fatal(err)
		}
		s.SetBatch(0, random(crowdListed), nil)
		o, err := arrays.NewBits(lists)
		if err != nil {
			b.Fatal(err)
		}
		o.SetBatch(0, random(crowdListed), nil)
		for n := range 3 * crowdMail {
			for _, k := range crowdKeysOf(n) {
				by := uint32(1)
				if n/crowdMail == 1 {
					by = 8 + c.rng.Uint32N(23)
				}
				a.Add(k.With(Sighting), by)
				if n/crowdMail == 2 {
					s.Set(k)
				}
			}
		}
		cells, spam, revoked = append(cells, a), append(spam, s), append(revoked, o)
	}
	v := &replica.View{}
	attach := func(g filter.Geometry, n int, to *arrays.Sliced, put func(*arrays.Sliced, int) error) *arrays.Sliced {
		if n%benchColumns == 0 {
			if to, err = arrays.NewSlicedExact(g, benchColumns); err != nil {
				b.Fatal(err)
			}
			v.Indexes = append(v.Indexes, &replica.Index{Sliced: to})
		}
		if err := put(to, n%benchColumns); err != nil {
			b.Fatal(err)
		}
		return to
	}
	for i := range crowdOrigins {
		v.Origins = append(v.Origins, &replica.Held{Origin: replica.Origin{ID: fmt.Sprint(i), Weight: 1}})
	}
	type paged interface {
		Pages() int
		AppendPage(dst []byte, p int) []byte
		LoadPage(b []byte) (int, error)
	}
	copyPages := func(to, from paged) {
		for p := range from.Pages() {
			if _, err := to.LoadPage(from.AppendPage(nil, p)); err != nil {
				b.Fatal(err)
			}
		}
	}
	copyCounts := func(from *arrays.Counting) *arrays.Counting {
		a, err := arrays.NewSparseCounting(counts)
		if err != nil {
			b.Fatal(err)
		}
		copyPages(a, from)
		return a
	}
	copyBits := func(from *arrays.Bits) *arrays.Bits {
		a, err := arrays.NewSparseBits(lists)
		if err != nil {
			b.Fatal(err)
		}
		copyPages(a, from)
		return a
	}
	var to *arrays.Sliced
	n := 0
	for g := range uint64(daily) {
		for _, h := range v.Origins {
			a := copyCounts(cells[c.rng.IntN(kinds)])
			to = attach(counts, n, to, a.Attach)
			n++
			h.Tally = append(h.Tally, &replica.Tally{Start: today - g*day, Counts: a})
		}
	}
	for _, side := range [][]*arrays.Bits{spam, revoked} {
		n = 0
		for g := range uint64(weekly) {
			for i, h := range v.Origins {
				a := copyBits(side[(i*7+int(g))%kinds])
				to = attach(lists, n, to, a.Attach)
				n++
				if &side[0] == &spam[0] {
					h.Block = append(h.Block, &replica.Block{Start: today - g*7*day, Spam: a})
				} else {
					h.Block[g].Revoked = a
				}
			}
		}
	}
	for _, x := range v.Indexes {
		for part, unread := 0, true; unread; part++ {
			unread = x.Gather(part)
		}
	}
	c.Sources = NewSources(View{Remote: v}, 1)
	return c
}

// BenchmarkOrigins is a look-up of the 25 keys of a message in the counts and lists of 1,000
// origins, in four generations and in the default number of generations: of messages that all
// origins know, and of unknown messages. first-us is the time of the first look-up of each message.
func BenchmarkOrigins(b *testing.B) {
	for _, gens := range [][2]int{{4, 4}, {7, 8}} {
		b.Run(fmt.Sprintf("%d of counts, %d of lists", gens[0], gens[1]), func(b *testing.B) {
			c := newCrowd(b, gens[0], gens[1])
			for of, name := range []string{"all, once", "all, 8 to 30 times", "all list it", "nobody"} {
				b.Run(name, func(b *testing.B) { c.look(b, of) })
			}
		})
	}
}

// look looks up messages of the kind of, from 0, or unknown messages.
func (c *crowd) look(b *testing.B, of int) {
	r := &Reader{Keys: plainKeys{}, Day: day, Threshold: 20}
	r.Begin(c.Sources)
	asks, out := make([]Ask, crowdSigs), make([]Record, crowdSigs)
	var messages [][]filter.Key
	for n := range crowdMail {
		messages = append(messages, crowdKeysOf(of*crowdMail+n))
	}
	look := func(n int) {
		for i, k := range messages[n%crowdMail] {
			if of == 3 {
				k = filter.Key{Hi: c.rng.Uint64(), Lo: c.rng.Uint64()}
			}
			asks[i] = Ask{k, Counts | Judgement | Standing}
		}
		r.Read(asks, out)
	}
	begun := time.Now()
	for n := range crowdMail {
		look(n)
	}
	first := time.Since(begun)
	for n := 0; b.Loop(); n++ {
		look(n)
	}
	b.ReportMetric(float64(first.Microseconds())/crowdMail, "first-us")
}
