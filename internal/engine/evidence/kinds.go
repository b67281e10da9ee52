package evidence

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// The kinds of count of one signature in the array "counts". They share a cache line
// (filter.Key.With), so that a check costs one memory access for each generation, regardless of the
// number of kinds. The values are part of the data on disk.
const (
	Sighting uint8 = 0
	Spam     uint8 = 1 // voters
	Ham      uint8 = 2 // voters
	Caught   uint8 = 3 // sightings of copies that were called spam on arrival: no deliveries
	// Good counts deliveries of a text or link from senders of good standing. Of a network, it counts
	// deliveries that were not flagged.
	Good uint8 = 4
	// Addresses counts distinct addresses of a sender's domain. Of an address it counts distinct claimed names, and of
	// a link or file distinct senders, both in "names" alone; of everything, the verified senders of each week.
	Addresses uint8 = 5
	Claims    uint8 = 6 // sightings of strangers

	CountKinds = 3 // number of kinds that every look-up reads: the first ones
)

// The kinds of weight of one signature in the array "weights", in hundredths of a vote: the sum of
// votes of one side and one class of voter. The retracted part of a kind is the same kind of
// another key, see [Keys]. The values are part of the data on disk.
const (
	RootSpam     uint8 = 0
	RootHam      uint8 = 1 // of ham votes and revocations
	StrangerSpam uint8 = 2
	StrangerHam  uint8 = 3
	Unblamed     uint8 = 4 // roots' votes for spam, each whole regardless of how its blame was shared
	TakenBack    uint8 = 5 // not 0 if anything was retracted in this generation

	// Contexts is not a weight. It is the number of different links and senders that a text was
	// reported with. Of a part of a text, it is the number of further reported texts that have the part.
	Contexts uint8 = 6

	WeightKinds = 7
)

// wholeKinds are the kinds of weight whose whole votes, a hundred each, are counted in cells of
// their own. Most votes are whole, and small numbers need no overflow entry. In a voice's record,
// TakenBack is the retracted part of Unblamed.
var wholeKinds = [...]uint8{RootSpam, RootHam, Unblamed, TakenBack}

// WeightCells is the number of cells that hold the weights of a key.
const WeightCells = WeightKinds + len(wholeKinds)

// whole returns the key of whole votes. They have their own line: many kinds on one line
// would cause more false hits.
func whole(k filter.Key) filter.Key { return filter.Key{Hi: k.Lo, Lo: k.Hi} }

// AppendWeights appends the keys of the cells that hold the weights of k.
func AppendWeights(keys []filter.Key, k filter.Key) []filter.Key {
	for kind := range uint8(WeightKinds) {
		keys = append(keys, k.With(kind))
	}
	for _, kind := range wholeKinds {
		keys = append(keys, whole(k).With(kind))
	}
	return keys
}

// WeightsOf returns the weights of a key from its cells, in the order of AppendWeights.
func WeightsOf(cells []uint32) (w [WeightKinds]uint32) {
	copy(w[:], cells)
	for i, kind := range wholeKinds {
		if n := cells[WeightKinds+i]; n > 0 {
			w[kind] = book.Add(w[kind], verdict.Unit*min(n, filter.Many/verdict.Unit))
		}
	}
	return w
}

// AddWeight calls add for each cell that rises when a weight of a key rises by n.
func AddWeight(k filter.Key, kind uint8, n uint32, add func(cell filter.Key, n uint32)) {
	if votes := n / verdict.Unit; votes > 0 && slices.Contains(wholeKinds[:], kind) {
		add(whole(k).With(kind), votes)
		n %= verdict.Unit
	}
	if n > 0 {
		add(k.With(kind), n)
	}
}

// MaxTurns is how often a signature can be listed in one generation of the blocklist. After that, a
// revocation stands until the next generation opens. A generation that is sized for fewer than
// several million signatures is full, and the next one opens, long before.
const MaxTurns = 1 << 20

// SenderPlaces is the number of places of the sketch of a link's senders. Each sender takes the place
// that its keyed hash chooses, and the number of taken places is a lower bound of the number of
// distinct senders, also over several nodes. Five senders take five places in 72 % of cases, seven
// take five or more in 99 %.
//
// Source: Whang, Vander-Zanden and Taylor, "A linear-time probabilistic counting algorithm for
// database applications" (1990).
const SenderPlaces = 32

// PlaceOf returns the place of a sender, from the key under which it is remembered with the link.
func PlaceOf(sender filter.Key) int { return int(sender.Lo % SenderPlaces) }

// Keys makes keys other than those of signatures.
type Keys interface {
	// Back returns the key of the retracted weights of base.
	Back(base filter.Key) filter.Key
	// Turn returns the key for the turn'th time, from 1, that a generation's filter
	// lists base, or revokes it.
	Turn(base filter.Key, turn int) filter.Key
	// At returns the form of a key in the arrays of an epoch, see [View]. In epoch 0 it is the key
	// itself.
	At(epoch int, key filter.Key) filter.Key
}

// Turns returns how often a filter has a signature. has reports whether the filter has the given
// turn, from 1 to [MaxTurns]. A filter that has a turn has all turns before it, so has is called
// for few of them.
func Turns(has func(turn int) bool) int { return between(0, has) }

// Relisted reports whether a signature that both filters of a generation hold was
// listed again after its last revocation: listings and revocations take turns.
func Relisted(keys Keys, base filter.Key, spam, revoked func(filter.Key) bool) bool {
	again := false
	between(1, func(turn int) bool {
		k := keys.Turn(base, turn)
		if again || !spam(k) {
			return false
		}
		again = !revoked(k)
		return !again
	})
	return again
}

// singly is the turn up to which every turn is looked up. A false positive of the filter then
// counts as a turn only if all turns before it are present.
const singly = 16

// between returns the last turn, up to MaxTurns, for which has returns true. It starts from a turn
// for which has returns true, or from 0.
func between(turn int, has func(turn int) bool) int {
	step := 1
	for turn+step <= MaxTurns && has(turn+step) {
		if turn += step; turn >= singly {
			step *= 2
		}
	}
	for step /= 2; step > 0; step /= 2 {
		if turn+step <= MaxTurns && has(turn+step) {
			turn += step
		}
	}
	return turn
}
