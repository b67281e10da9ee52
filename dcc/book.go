package dcc

import (
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// maxVotes is the largest number of signatures in one vote.
const maxVotes = 960

// A tally holds the DCC counts of one checksum: targets and claims of spam. A DELETE removes both.
// Targets are the sightings of the checksum itself, which all front doors add to; the other
// counters are its own signatures.
type tally struct {
	targets, claims ledger.Balance
	judged          bulkhead.Judgement
}

// before returns the tally as it was before a report of n targets.
func (t tally) before(n uint32, spam bool) tally {
	t.targets = t.targets.Before(n)
	if spam {
		t.claims = t.claims.Before(claimWeight)
		if t.claims.Added == 0 {
			t.judged = bulkhead.Unjudged // by this very report
		}
	}
	return t
}

// total is the number that clients see.
func (t *tally) total() uint32 {
	if t.many() {
		return Many
	}
	return min(t.targets.Left(), Many)
}

// many reports whether the checksum is a checksum of spam.
func (t *tally) many() bool {
	switch c := &t.claims; {
	case t.judged == bulkhead.Revoked:
		// Through whichever front door: a claim that outweighs that lists it again.
		return false
	case c.Added >= claimWeight && c.Added >= c.Taken+claimWeight/2, c.AddedSince >= claimWeight:
		// A deletion shown by error is small, half a claim at most, and removes none.
		return true
	}
	// Listed by another front door; a DELETE here overrules it.
	return t.judged == bulkhead.JudgedSpam && t.targets.Taken == 0 && t.claims.Taken == 0
}

// claimWeight is how much a claim of spam raises each of its two counters. A filter
// error must not make a message seen once look claimed: two counters would have to be
// that high at once, where nearly all are lower.
const claimWeight = 256

// An account gives the bytes after a checksum's sum that stand for the counters of one
// of its accounts. 0 is no byte: the sum itself.
type account struct{ added, taken, since byte }

// The accounts of a checksum. Claims have two, so that one filter error shows none; what
// DELETEs removed is kept with the first.
var (
	targets     = account{0, 'd', 'n'}
	claims      = account{'s', 'D', 'u'}
	claimsAgain = account{'t', 'T', 'v'}
)

// deletesCounter is the byte for the DELETEs, which all accounts of a checksum
// share.
const deletesCounter = 'e'

// of returns a counter of a checksum, whose type must be one that the book keeps.
func (k account) of(c *Checksum, p ledger.Part) bulkhead.Signature {
	var sum [len(c.Sum) + 2]byte
	n := copy(sum[:], c.Sum[:])
	last := byte(0)
	switch p.Kind {
	case ledger.Added:
		last = k.added
	case ledger.Taken:
		last = k.taken
	case ledger.Deletes:
		last = deletesCounter
	case ledger.AddedSince:
		last = k.since
	case ledger.TakenSince:
		last = k.since - 'a' + 'A' // never raised: nothing but a DELETE takes, and takes all
	}
	if last != 0 {
		sum[n] = last
		n++
	}
	if p.Kind == ledger.AddedSince || p.Kind == ledger.TakenSince {
		sum[n] = p.Epoch
		n++
	}
	return bulkhead.MustSignature(c.Type.Scheme(), sum[:n])
}

// signatureOf returns the signature by which all front doors know a checksum: the
// counter of its targets.
func signatureOf(c *Checksum) bulkhead.Signature {
	return targets.of(c, ledger.Part{Kind: ledger.Added})
}

// with returns the account of a checksum with its balance.
func (k account) with(c *Checksum, b ledger.Balance) *ledger.Account {
	return &ledger.Account{Balance: b, Name: func(p ledger.Part) bulkhead.Signature { return k.of(c, p) }}
}

// A book counts checksums in a clearinghouse. It may be used concurrently.
type book struct {
	house bulkhead.Counter
	// deletes is set once a checksum was deleted. Until then the counters of deletions are not
	// looked up.
	deletes *ledger.Mark
	keep    [digests.TypeRepBulk + 1]bool // types that are counted
}

func newBook(house bulkhead.Clearinghouse, keep []digests.Type) *book {
	b := &book{house: bulkhead.CounterOf(house), deletes: ledger.NewMark(deletesSignature())}
	if keep == nil {
		keep = []digests.Type{digests.TypeBody, digests.TypeFuz1, digests.TypeFuz2}
	}
	for _, t := range keep {
		if t.Scheme().Valid() {
			b.keep[t] = true
		}
	}
	return b
}

func (b *book) keeps(t digests.Type) bool { return int(t) < len(b.keep) && b.keep[t] }

// asking holds the buffers of look-ups, reused and never shared.
type asking struct {
	sigs    []bulkhead.Signature // the counters of targets
	looks   []bulkhead.Look
	known   []int
	others  []bulkhead.Signature // the other counters of those known
	tallies []tally
	deletes []uint32
}

func (b *book) look(ctx context.Context, a *asking, sigs []bulkhead.Signature, what bulkhead.Aspect) error {
	a.looks = slices.Grow(a.looks[:0], len(sigs))[:len(sigs)]
	return b.house.Look(ctx, sigs, a.looks, what)
}

// tallies returns the tallies of checksums, which must be of kept types.
func (b *book) tallies(ctx context.Context, a *asking, sums []Checksum) ([]tally, error) {
	a.sigs = a.sigs[:0]
	for i := range sums {
		a.sigs = append(a.sigs, signatureOf(&sums[i]))
	}
	return b.talliesOf(ctx, a, sums, a.sigs, nil)
}

// talliesOf first looks up the targets of all checksums, whose counters are given, and then the
// other counters of those with any. own holds for each checksum the targets that the caller's
// report has just added: if no other report has counted it, there is no second look-up. nil stands
// for zeroes. The tallies are valid until the next call.
func (b *book) talliesOf(ctx context.Context, a *asking, sums []Checksum, counters []bulkhead.Signature,
	own []uint32) ([]tally, error) {
	a.known, a.others, a.tallies = a.known[:0], a.others[:0], a.tallies[:0]
	if len(sums) == 0 {
		return nil, nil
	}
	if err := b.look(ctx, a, counters, bulkhead.Counts|bulkhead.Judgements); err != nil {
		return nil, err
	}
	taken := b.deletes.Seen()
	for i := range sums {
		l, c := &a.looks[i], &sums[i]
		a.tallies = append(a.tallies, tally{targets: ledger.Balance{Added: l.Sightings}, judged: l.Judged})
		if l.Sightings == 0 || own != nil && l.Sightings <= own[i] {
			continue
		}
		a.known = append(a.known, i)
		a.others = append(a.others, claims.of(c, ledger.Part{Kind: ledger.Added}),
			claimsAgain.of(c, ledger.Part{Kind: ledger.Added}))
		if taken {
			a.others = append(a.others, targets.of(c, ledger.Part{Kind: ledger.Taken}),
				claims.of(c, ledger.Part{Kind: ledger.Taken}), targets.of(c, ledger.Part{Kind: ledger.Deletes}))
		}
	}
	if len(a.known) == 0 {
		return a.tallies, nil
	}
	if err := b.look(ctx, a, a.others, bulkhead.Counts|bulkhead.Aside); err != nil {
		return nil, err
	}
	l := a.looks
	for _, i := range a.known {
		t := &a.tallies[i]
		t.claims.Added = min(l[0].Sightings, l[1].Sightings)
		l = l[2:]
		if taken {
			// A deletion has both; one alone is a filter error.
			if t.targets.Deletes, t.claims.Deletes = l[2].Sightings, l[2].Sightings; l[2].Sightings > 0 {
				t.targets.Taken, t.claims.Taken = l[0].Sightings, l[1].Sightings
			}
			l = l[3:]
		}
	}
	return a.tallies, b.talliesSince(ctx, a, sums)
}

// A raising collects counters of checksums that are raised together.
type raising struct{ ledger.Raising }

// targets adds the counters of the targets of checksums.
func (r *raising) targets(sums []Checksum, n uint32) {
	for i := range sums {
		r.Raise(signatureOf(&sums[i]), n)
	}
}

// claims adds the counters of claims of spam.
func (r *raising) claims(sums []Checksum) {
	for i := range sums {
		r.Raise(claims.of(&sums[i], ledger.Part{Kind: ledger.Added}), claimWeight)
		r.Raise(claimsAgain.of(&sums[i], ledger.Part{Kind: ledger.Added}), claimWeight)
	}
}

// raising returns the counters of checksums that were seen by n targets, and claimed to be spam.
func (b *book) raising(ctx context.Context, sums []Checksum, n uint32, spam bool) (r raising, err error) {
	deletes, err := b.deletesOf(ctx, new(asking), sums)
	if err != nil {
		return r, err
	}
	r.targets(sums, n)
	if spam {
		r.claims(sums)
	}
	r.since(sums, deletes, n, spam)
	return r, nil
}

// vote raises counters, and passes a vote to the other front doors: spam or, for a DELETE, a revocation.
func (b *book) vote(ctx context.Context, up ledger.Raising, sums []Checksum, vote bulkhead.Vote,
	who bulkhead.Reporter) error {
	for len(sums) > 0 {
		r := bulkhead.Report{Vote: vote, Reporter: who}
		for i := range sums[:min(len(sums), maxVotes)] {
			r.Signatures = append(r.Signatures, signatureOf(&sums[i]))
		}
		sums = sums[len(r.Signatures):]
		if _, err := bulkhead.CountAndReport(ctx, b.house, up.Sigs, up.N, r); bulkhead.Tolerate(err) != nil {
			return err
		}
		up = ledger.Raising{}
	}
	return nil
}
