package replay

import (
	"math"

	"golang.org/x/crypto/blake2b"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
)

// A peer is a clearinghouse of one kind of digest that is counted in exact maps, and the rule
// by which its clients act on the counts. It gets the same deliveries as the node, and its
// recipients make the same choices.
type peer struct {
	*record
	book    book
	catches float64 // score from which on a message is spam
}

// A book is what a peer remembers. It gets whole messages, and looks at the digests of
// its own schemes.
type book interface {
	score(l *letter) float64
	sighted(l *letter)
	reported(l *letter)
	revoked(l *letter)
}

// many is the count that DCC gives to reported spam.
const many = 16_777_200

// newPeers returns the peers, with the default rules of their usual clients.
func newPeers() []*peer {
	return []*peer{
		{newRecord("razor", "a part was reported more often than revoked"), newDigests(0, 1, bulkhead.RazorE4,
			bulkhead.RazorE8), 1},
		{newRecord("pyzor", "5 reports more than withdrawals, as SpamAssassin asks"), newDigests(0, 1, bulkhead.PyzorDigest),
			5},
		{newRecord("dcc", "a sum was reported, which is never withdrawn"), newDigests(1, many, bulkhead.DCCBody,
			bulkhead.DCCFuz1, bulkhead.DCCFuz2), many},
		{newRecord("rspamd fuzzy", "a text was learnt, or shares more than half of its shingles with one"), newTexts(),
			math.SmallestNonzeroFloat64},
	}
}

// receive judges a message, and counts that it was received.
func (p *peer) receive(e *event) judgement {
	score := p.book.score(e.letter)
	p.book.sighted(e.letter)
	j := judgement{spam: score >= p.catches, score: score}
	p.delivery(e, j)
	return j
}

// vote takes a vote.
func (p *peer) vote(e *event) {
	if e.kind == revokes {
		p.figures.Revokes++
		p.book.revoked(e.letter)
		return
	}
	p.figures.Reports++
	p.book.reported(e.letter)
}

// A digests is a book of digests that are counted each by itself. A message scores what the
// highest of its digests does.
type digests struct {
	schemes           map[bulkhead.Scheme]bool
	counts            map[bulkhead.Signature]float64
	sighting, reports float64 // what one sighting and one report add
}

func newDigests(sighting, reports float64, schemes ...bulkhead.Scheme) *digests {
	d := &digests{make(map[bulkhead.Scheme]bool), make(map[bulkhead.Signature]float64), sighting, reports}
	for _, s := range schemes {
		d.schemes[s] = true
	}
	return d
}

func (d *digests) each(l *letter, f func(bulkhead.Signature)) {
	for _, sig := range l.sigs {
		if d.schemes[sig.Scheme()] {
			f(sig)
		}
	}
}

func (d *digests) score(l *letter) (most float64) {
	d.each(l, func(s bulkhead.Signature) { most = max(most, d.counts[s]) })
	return most
}

func (d *digests) sighted(l *letter) {
	if d.sighting > 0 {
		d.each(l, func(s bulkhead.Signature) { d.counts[s] += d.sighting })
	}
}

func (d *digests) reported(l *letter) {
	d.each(l, func(s bulkhead.Signature) { d.counts[s] += d.reports })
}

// revoked takes a report back. DCC has no such thing: a sum stays reported.
func (d *digests) revoked(l *letter) {
	if d.reports == many {
		return
	}
	d.each(l, func(s bulkhead.Signature) { d.counts[s] = max(0, d.counts[s]-d.reports) })
}

// A texts is the storage of rspamd's fuzzy_check: digests with a weight each, and shingles, of
// which each leads to the text that was learnt last with it. A message scores what the surest
// of its texts does.
type texts struct {
	ids      map[[blake2b.Size]byte]int // by digest
	shingles map[shingle]int
	weights  []float64 // by id; none has 0
}

// A shingle is one of a text's: the values at one place are compared with each other only.
type shingle struct {
	place int
	value uint64
}

func newTexts() *texts {
	return &texts{make(map[[blake2b.Size]byte]int), make(map[shingle]int), make([]float64, 1)}
}

// find returns the text that h has or is like, and how alike they are, in (0, 1]; 0 and 0 if
// there is none.
func (t *texts) find(h *rspamd.Hash) (id int, alike float64) {
	if id := t.ids[h.Digest]; t.weights[id] > 0 {
		return id, 1
	}
	if h.Shingles == nil {
		return 0, 0
	}
	shared := make(map[int]int)
	for i, v := range h.Shingles {
		if id := t.shingles[shingle{i, v}]; t.weights[id] > 0 {
			shared[id]++
		}
	}
	for id, n := range shared {
		if 2*n > rspamd.Shingles { // of one text at most
			return id, float64(n) / rspamd.Shingles
		}
	}
	return 0, 0
}

func (t *texts) score(l *letter) (most float64) {
	for i := range l.texts {
		id, alike := t.find(&l.texts[i])
		most = max(most, t.weights[id]*alike)
	}
	return most
}

func (t *texts) sighted(*letter) {}

func (t *texts) reported(l *letter) {
	for i := range l.texts {
		h := &l.texts[i]
		id := t.ids[h.Digest]
		if id == 0 {
			id = len(t.weights)
			t.ids[h.Digest] = id
			t.weights = append(t.weights, 0)
		}
		t.weights[id]++
		if h.Shingles == nil {
			continue
		}
		for place, v := range h.Shingles {
			t.shingles[shingle{place, v}] = id
		}
	}
}

// revoked unlearns the texts of a letter. Similar texts stay.
func (t *texts) revoked(l *letter) {
	for i := range l.texts {
		if id := t.ids[l.texts[i].Digest]; id != 0 {
			t.weights[id] = 0
		}
	}
}
