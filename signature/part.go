package signature

import (
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
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

// hashes are the keyed hashes of the words of a skeleton, and memory for what is made of them.
type hashes struct {
	words, quoted, rest []uint64
	runs                []uint64    // the orders of its runs
	known               *scan.Words // hashes of words by key
	secret              [16]byte    // that key is derived from
	key                 *nearKey
}

// keyOf returns the key derived from a secret. The key is usually the same as for the message
// before.
func (h *hashes) keyOf(secret [16]byte) *nearKey {
	if h.key == nil || h.secret != secret {
		h.secret = secret
		return newNearKey(secret)
	}
	return h.key
}

// take sets h to the hashes of s.
func (h *hashes) take(k *nearKey, s *skeleton) {
	if h.key != k {
		h.key, h.known = k, new(scan.Words)
	}
	h.words = h.appendHashed(h.words[:0], k, &s.words)
	h.quoted = h.appendHashed(h.quoted[:0], k, &s.quoted)
	h.rest = h.appendHashed(h.rest[:0], k, &s.rest)
}

// appendHashed appends the hashes of words.
func (h *hashes) appendHashed(all []uint64, k *nearKey, words *wordList) []uint64 {
	all = slices.Grow(all, words.len())
	for i := range words.len() {
		all = append(all, h.known.Of(words.at(i), k.word))
	}
	return all
}

// lowest returns the lowest orders of runs, in ascending order and none twice: the sample of a
// part of a text is part of the sample of the text (Broder, "On the resemblance and containment
// of documents", 1997).
func lowest(orders []uint64, most int) []uint64 {
	// Orders are spread evenly: below a bound there are about as many as its share of all.
	for share := most + most/4 + 16; ; share *= 4 {
		bound := uint64(math.MaxUint64)
		if share < len(orders) {
			bound = bound / uint64(len(orders)) * uint64(share)
		}
		low := make([]uint64, 0, min(len(orders), 2*share))
		// Most of those that a text repeats are left out before they are sorted.
		seen := [256]uint64{1} // by the last byte, which is not that of what is there at first
		for _, order := range orders {
			if last := &seen[order%256]; order <= bound && *last != order {
				*last = order
				low = append(low, order)
			}
		}
		slices.Sort(low)
		if low = slices.Compact(low); len(low) >= most || share >= len(orders) {
			return low[:min(most, len(low))]
		}
	}
}

// appendRuns appends the order of each run of words: it decides which runs are sampled.
func appendRuns(orders []uint64, words *wordList, hashes []uint64) []uint64 {
	start := int32(0)
	for i := range hashes {
		x, n := uint64(partSalt), 0
		for n < partLongest && i+n < len(hashes) && (n < partWords || words.ends[i+n-1]-start < partLetters) {
			x = mix(x ^ hashes[i+n])
			n++
		}
		if n >= partWords && words.ends[i+n-1]-start >= partLetters {
			orders = append(orders, x)
		}
		start = words.ends[i]
	}
	return orders
}

// parts returns the bulkhead/part and bulkhead/sketch signatures of a skeleton. A text that
// is too short has only a sketch: it may contain other texts, but to be contained in others
// means nothing for it.
func parts(s *skeleton, h *hashes) []bulkhead.Signature {
	h.runs = appendRuns(h.runs[:0], &s.words, h.words)
	n := len(h.runs)
	h.runs = appendRuns(h.runs, &s.rest, h.rest)
	other := lowest(h.runs, partAsked)
	own := other[:min(len(other), partOwn)]
	if n < len(h.runs) {
		own = lowest(h.runs[:n], partOwn)
	}
	if len(own) < partFloor {
		own = nil
	}
	asked := other
	if n = len(h.runs); s.quoted.len() > 0 {
		if h.runs = appendRuns(h.runs, &s.quoted, h.quoted); len(h.runs) > n {
			asked = lowest(h.runs, partAsked)
		}
	}
	if len(asked) < partLeast {
		return nil
	}
	const most = partAnchors + (partOwn+partAsked)/10 + 3 // signatures: a sketch has ten samples, of one kind
	sigs := make([]bulkhead.Signature, 0, most)
	samples := make([]bulkhead.Sample, 0, len(own)+len(asked))
	for i, order := range own {
		samples = append(samples, sampleOf(order, bulkhead.SampleOwn))
		if i < partAnchors {
			sigs = append(sigs, samples[i].Signature())
		}
	}
	for _, order := range asked {
		if _, ok := slices.BinarySearch(own, order); ok {
			continue
		}
		// A run that is not only quoted is also among the lowest of the other runs.
		kind := bulkhead.SampleQuoted
		if _, ok := slices.BinarySearch(other, order); ok {
			kind = bulkhead.SampleOther
		}
		samples = append(samples, sampleOf(order, kind))
	}
	return bulkhead.AppendSketch(sigs, samples)
}

// sampleOf returns the sample of a run in its published form. Since order decides which runs are
// sampled, its bits are not evenly spread. The bits of the sample are.
func sampleOf(order uint64, kind bulkhead.SampleKind) bulkhead.Sample {
	return bulkhead.Sample{Value: mix(order^partSalt) >> 16, Kind: kind}
}
