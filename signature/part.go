package signature

import (
	"cmp"
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// The shape of bulkhead/part and bulkhead/sketch. It was chosen on half of the
// maintainers' corpus; docs/signatures.md has what it does on the other half.
const (
	partWords   = 2  // words of a run at least
	partLetters = 14 // bytes of its words together, at least: common phrases are shorter
	partLongest = 12 // words of a run at most

	partAnchors = 8   // samples that votes and deliveries are counted on
	partOwn     = 24  // samples of what a message says itself
	partAsked   = 128 // samples of all that it shows, these included
	partFloor   = 12  // samples of its own that a message has, or it has no part
	partLeast   = 5   // samples in all, or there is no sketch: fewer never make a match
)

// partSalt keeps samples apart from the shingles of bulkhead/near.
const partSalt = 0x70617274

// hashes are the keyed hashes of the words of a skeleton.
type hashes struct{ words, quoted, rest []uint64 }

// take makes h those of s.
func (h *hashes) take(k *nearKey, s *skeleton) {
	h.words = k.appendHashed(h.words[:0], &s.words)
	h.quoted = k.appendHashed(h.quoted[:0], &s.quoted)
	h.rest = k.appendHashed(h.rest[:0], &s.rest)
}

func (k *nearKey) appendHashed(h []uint64, words *wordList) []uint64 {
	h = slices.Grow(h, words.len())
	for i := range words.len() {
		h = append(h, k.word(words.at(i)))
	}
	return h
}

// A sampled is a run of words: order says which runs are sampled.
type sampled struct {
	order uint64
	kind  bulkhead.SampleKind
}

// A lowest is the runs with the lowest order of those it was given, in that order, none
// twice: the sample of a part of a text is part of the sample of the text (Broder, "On
// the resemblance and containment of documents", 1997).
type lowest struct {
	runs []sampled
	most int
	high uint64 // the highest order among them, once there are so many
}

func newLowest(most int) *lowest {
	return &lowest{runs: make([]sampled, 0, most), most: most, high: math.MaxUint64}
}

// add is called for each word of a text: nearly all runs end here.
func (l *lowest) add(order uint64, kind bulkhead.SampleKind) {
	if order <= l.high {
		l.insert(order, kind)
	}
}

func (l *lowest) insert(order uint64, kind bulkhead.SampleKind) {
	at, had := slices.BinarySearchFunc(l.runs, order, func(s sampled, order uint64) int { return cmp.Compare(s.order, order) })
	if had {
		return
	}
	if len(l.runs) == l.most {
		l.runs = l.runs[:l.most-1]
	}
	l.runs = slices.Insert(l.runs, at, sampled{order, kind})
	if len(l.runs) == l.most {
		l.high = l.runs[l.most-1].order
	}
}

// eachRun calls visit with the order of each run of words.
func eachRun(words *wordList, hashes []uint64, visit func(order uint64)) {
	start := int32(0)
	for i := range hashes {
		x, n := uint64(partSalt), 0
		for n < partLongest && i+n < len(hashes) && (n < partWords || words.ends[i+n-1]-start < partLetters) {
			x = mix(x ^ hashes[i+n])
			n++
		}
		if n >= partWords && words.ends[i+n-1]-start >= partLetters {
			visit(x)
		}
		start = words.ends[i]
	}
}

// parts returns the bulkhead/part and bulkhead/sketch signatures of a skeleton. A text that
// is too short has only a sketch: it may contain other texts, but to be contained in others
// means nothing for it.
func parts(s *skeleton, h *hashes) []bulkhead.Signature {
	own, asked := newLowest(partOwn), newLowest(partAsked)
	eachRun(&s.words, h.words, func(order uint64) {
		own.add(order, bulkhead.SampleOwn)
		asked.add(order, bulkhead.SampleOther)
	})
	eachRun(&s.rest, h.rest, func(order uint64) { asked.add(order, bulkhead.SampleOther) })
	eachRun(&s.quoted, h.quoted, func(order uint64) { asked.add(order, bulkhead.SampleQuoted) })
	if len(own.runs) < partFloor {
		own.runs = nil
	}
	if len(asked.runs) < partLeast {
		return nil
	}
	var sigs []bulkhead.Signature
	samples := make([]bulkhead.Sample, 0, len(own.runs)+len(asked.runs))
	for i, r := range own.runs {
		samples = append(samples, r.sample())
		if i < partAnchors {
			sigs = append(sigs, samples[i].Signature())
		}
	}
	for _, r := range asked.runs {
		if len(own.runs) == 0 || r.order > own.runs[len(own.runs)-1].order || !own.has(r.order) {
			samples = append(samples, r.sample())
		}
	}
	return bulkhead.AppendSketch(sigs, samples)
}

func (l *lowest) has(order uint64) bool {
	_, ok := slices.BinarySearchFunc(l.runs, order, func(s sampled, order uint64) int { return cmp.Compare(s.order, order) })
	return ok
}

// sample returns the run as it is made known. Since order decides which runs are sampled,
// its bits are not evenly spread; those of the sample are.
func (s sampled) sample() bulkhead.Sample {
	return bulkhead.Sample{Value: mix(s.order^partSalt) >> 16, Kind: s.kind}
}
