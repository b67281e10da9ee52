package dcc

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// maxVotes is how many signatures are put into one vote.
const maxVotes = 960

// A tally is what DCC counts of one checksum. A filter can only count up, so
// four counters stand for it: targets and claims of spam, of all time and at
// the time of the last DELETE. Targets are the sightings of the checksum
// itself, which all front doors add to; the others are its own signatures.
//
// What was deleted ages before its deletion does: the differences alone would
// hide what came since. So what is reported here after a DELETE is counted once
// more, under the number of that DELETE.
type tally struct {
	targets, deleted      uint32
	claims, deletedClaims uint32
	epochs                uint32 // DELETEs that have not aged out, see counterOf
	since, sinceClaims    uint32 // since the last of them
	judged                bulkhead.Judgement
}

// before returns the tally as it was before a report of n targets.
func (t tally) before(n uint32, spam bool) tally {
	lower(&t.targets, n)
	lower(&t.since, n)
	if spam {
		lower(&t.claims, claimWeight)
		lower(&t.sinceClaims, claimWeight)
		if t.claims == 0 {
			t.judged = bulkhead.Unjudged // by this very report
		}
	}
	return t
}

// lower takes n from a counter, unless it is full: then it has been for long.
func lower(counter *uint32, n uint32) {
	if *counter < bulkhead.Many {
		*counter -= min(n, *counter)
	}
}

// total is the number that clients see.
func (t *tally) total() uint32 {
	// A deletion that is shown by error is small: half a claim of difference is
	// one, and takes none away.
	if t.claims >= claimWeight && t.claims >= t.deletedClaims+claimWeight/2 || t.sinceClaims >= claimWeight {
		return Many
	}
	// Listed by another front door; a DELETE here overrules it.
	if t.judged == bulkhead.JudgedSpam && t.deleted == 0 && t.deletedClaims == 0 {
		return Many
	}
	return min(max(t.targets-min(t.deleted, t.targets), t.since), Many)
}

// claimWeight is by how much a claim of spam raises each of its two counters.
// A message that was seen once must not look claimed by an error of the filter:
// two counters would have to show as much at once, where nearly all count less.
const claimWeight = 256

// The counters of a checksum beside the targets: a byte after its sum.
const (
	claimsCounter        = 's'
	claimsAgainCounter   = 't'
	deletedCounter       = 'd'
	deletedClaimsCounter = 'D'
	// epochsCounter is raised by 1 at the first DELETE, by 2 at the next, by 4
	// and so on, so that its highest bit is the last DELETE even when earlier
	// ones have aged out. The counters since a DELETE have the number of its bit
	// as another byte; they live longer than the DELETE does.
	epochsCounter    = 'e'
	sinceCounter     = 'n'
	sinceClaims      = 'u'
	sinceClaimsAgain = 'v'
	maxEpochs        = 22 // bits of epochsCounter
)

// counterOf returns a counter of a checksum, whose type must be one that the book
// keeps; 0 stands for the targets.
func counterOf(c *Checksum, counter byte) bulkhead.Signature {
	var sum [len(c.Sum) + 1]byte
	n := copy(sum[:], c.Sum[:])
	if counter != 0 {
		sum[n] = counter
		n++
	}
	return mustSignature(c.Type.Scheme(), sum[:n])
}

// mustSignature is for schemes of kept types, and sums of 1 to 64 bytes.
func mustSignature(scheme bulkhead.Scheme, sum []byte) bulkhead.Signature {
	sig, err := bulkhead.NewSignature(scheme, sum)
	if err != nil {
		panic(err)
	}
	return sig
}

// A book counts checksums in a clearinghouse. It may be used concurrently.
type book struct {
	house bulkhead.Counter
	// deletes says that something was deleted once. Until then nobody need ask
	// for the counters of deletions.
	deletes atomic.Bool
	keep    [signature.DCCTypeRepBulk + 1]bool // types that are counted
}

func newBook(house bulkhead.Clearinghouse, keep []signature.DCCType) *book {
	b := &book{house: bulkhead.CounterOf(house)}
	if keep == nil {
		keep = []signature.DCCType{signature.DCCTypeBody, signature.DCCTypeFuz1, signature.DCCTypeFuz2}
	}
	for _, t := range keep {
		if t.Scheme().Valid() {
			b.keep[t] = true
		}
	}
	return b
}

func (b *book) keeps(t signature.DCCType) bool { return int(t) < len(b.keep) && b.keep[t] }

// asking is the buffers of look-ups, reused and never shared.
type asking struct {
	sigs    []bulkhead.Signature // the counters of targets
	looks   []bulkhead.Look
	known   []int
	more    []bulkhead.Signature // the other counters of those known
	tallies []tally
	epochs  []uint32
}

func (b *book) look(ctx context.Context, a *asking, sigs []bulkhead.Signature, what bulkhead.Aspect) error {
	a.looks = slices.Grow(a.looks[:0], len(sigs))[:len(sigs)]
	return b.house.Look(ctx, sigs, a.looks, what)
}

// tallies returns the tallies of checksums, which must be of kept types.
func (b *book) tallies(ctx context.Context, a *asking, sums []Checksum) ([]tally, error) {
	a.sigs = a.sigs[:0]
	for i := range sums {
		a.sigs = append(a.sigs, counterOf(&sums[i], 0))
	}
	return b.talliesOf(ctx, a, sums, a.sigs, nil)
}

// talliesOf looks up first the targets of all checksums, whose counters are
// given, and then the other counters of those that anything is known of. own
// holds for each checksum the targets that a report of the caller has just
// added; what nobody else has counted needs no second look. nil stands for
// zeroes. The tallies are valid until the next call.
func (b *book) talliesOf(ctx context.Context, a *asking, sums []Checksum, targets []bulkhead.Signature, own []uint32) ([]tally, error) {
	a.known, a.more, a.tallies = a.known[:0], a.more[:0], a.tallies[:0]
	if len(sums) == 0 {
		return nil, nil
	}
	if err := b.look(ctx, a, targets, bulkhead.Counts|bulkhead.Judgements); err != nil {
		return nil, err
	}
	counters := []byte{claimsCounter, claimsAgainCounter, deletedCounter, deletedClaimsCounter, epochsCounter}
	if !b.deletes.Load() {
		counters = counters[:2]
	}
	for i := range sums {
		l := &a.looks[i]
		a.tallies = append(a.tallies, tally{targets: l.Sightings, judged: l.Judged})
		if l.Sightings > 0 && (own == nil || l.Sightings > own[i]) {
			a.known = append(a.known, i)
			for _, counter := range counters {
				a.more = append(a.more, counterOf(&sums[i], counter))
			}
		}
	}
	if len(a.known) == 0 {
		return a.tallies, nil
	}
	if err := b.look(ctx, a, a.more, bulkhead.Counts|bulkhead.Aside); err != nil {
		return nil, err
	}
	for k, i := range a.known {
		t, l := &a.tallies[i], a.looks[k*len(counters):]
		t.claims = min(l[0].Sightings, l[1].Sightings)
		if len(counters) > 2 {
			// A deletion has both; one of the two alone is shown by error.
			if t.epochs = l[4].Sightings; t.epochs > 0 {
				t.deleted, t.deletedClaims = l[2].Sightings, l[3].Sightings
			}
		}
	}
	return a.tallies, b.talliesSince(ctx, a, sums)
}

// A raising is counters that are raised together, and by how much.
type raising struct {
	sigs []bulkhead.Signature
	n    []uint32
}

func (r *raising) add(sig bulkhead.Signature, n uint32) {
	r.sigs, r.n = append(r.sigs, sig), append(r.n, n)
}

// targets adds the counters of the targets of checksums.
func (r *raising) targets(sums []Checksum, n uint32) {
	for i := range sums {
		r.add(counterOf(&sums[i], 0), n)
	}
}

// claims adds the counters of claims of spam.
func (r *raising) claims(sums []Checksum) {
	for i := range sums {
		r.add(counterOf(&sums[i], claimsCounter), claimWeight)
		r.add(counterOf(&sums[i], claimsAgainCounter), claimWeight)
	}
}

// report counts checksums for n targets, and as spam where that is claimed.
func (b *book) report(ctx context.Context, sums []Checksum, n uint32, spam bool) error {
	epochs, err := b.epochs(ctx, new(asking), sums)
	if err != nil {
		return err
	}
	var r raising
	r.targets(sums, n)
	if spam {
		r.claims(sums)
	}
	r.since(sums, epochs, n, spam)
	return b.house.Count(ctx, r.sigs, r.n)
}

// vote tells the other front doors that somebody calls a message spam, or, by
// a DELETE, that it is none.
func (b *book) vote(ctx context.Context, sums []Checksum, revoke bool, who bulkhead.Reporter) error {
	do := b.house.Report
	if revoke {
		do = b.house.Revoke
	}
	for len(sums) > 0 {
		r := bulkhead.Report{Vote: bulkhead.Spam, Reporter: who}
		for i := range sums[:min(len(sums), maxVotes)] {
			r.Signatures = append(r.Signatures, counterOf(&sums[i], 0))
		}
		sums = sums[len(r.Signatures):]
		if _, err := do(ctx, r); tolerate(err) != nil {
			return err
		}
	}
	return nil
}

// tolerate drops the refusal of a vote: whoever may count need not have a say on
// the blocklist.
func tolerate(err error) error {
	if errors.Is(err, bulkhead.ErrForbidden) || errors.Is(err, bulkhead.ErrUnauthorised) || errors.Is(err, bulkhead.ErrOverLimit) {
		return nil
	}
	return err
}
