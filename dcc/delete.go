package dcc

import (
	"context"
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// talliesSince completes the tallies of checksums that were deleted.
func (b *book) talliesSince(ctx context.Context, a *asking, sums []Checksum) error {
	a.others = a.others[:0]
	for _, i := range a.known {
		if t, c := &a.tallies[i], &sums[i]; t.targets.Deletes > 0 {
			since := t.targets.Since(ledger.AddedSince)
			a.others = append(a.others, targets.of(c, since), claims.of(c, since), claimsAgain.of(c, since))
		}
	}
	if len(a.others) == 0 {
		return nil
	}
	if err := b.look(ctx, a, a.others, bulkhead.Counts|bulkhead.Aside); err != nil {
		return err
	}
	l := a.looks
	for _, i := range a.known {
		if t := &a.tallies[i]; t.targets.Deletes > 0 {
			t.targets.AddedSince, t.claims.AddedSince = l[0].Sightings, min(l[1].Sightings, l[2].Sightings)
			l = l[3:]
		}
	}
	return nil
}

// deletesOf returns which DELETEs of checksums are still remembered; nil if there was
// never one. It is valid until the next call.
func (b *book) deletesOf(ctx context.Context, a *asking, sums []Checksum) ([]uint32, error) {
	if !b.deletes.Seen() {
		return nil, nil
	}
	a.others, a.deletes = a.others[:0], a.deletes[:0]
	for i := range sums {
		a.others = append(a.others, targets.of(&sums[i], ledger.Part{Kind: ledger.Deletes}))
	}
	if err := b.look(ctx, a, a.others, bulkhead.Counts|bulkhead.Aside); err != nil {
		return nil, err
	}
	for i := range sums {
		a.deletes = append(a.deletes, a.looks[i].Sightings)
	}
	return a.deletes, nil
}

// since adds the counters since their last DELETE of checksums that have been
// deleted; deletes may be nil.
func (r *raising) since(sums []Checksum, deletes []uint32, n uint32, spam bool) {
	for i, d := range deletes {
		if d == 0 {
			continue
		}
		b := ledger.Balance{Deletes: d}
		r.AddSince(targets.with(&sums[i], b), n)
		if spam {
			r.AddSince(claims.with(&sums[i], b), claimWeight)
			r.AddSince(claimsAgain.with(&sums[i], b), claimWeight)
		}
	}
}

// deletesSignature is the counter of deletions of any checksum.
func deletesSignature() bulkhead.Signature {
	return bulkhead.MustSignature(bulkhead.DCCBody, []byte("bulkhead dcc deletes"))
}

// follow learns of deletions on other nodes until ctx ends.
func (b *book) follow(ctx context.Context) { b.deletes.Follow(ctx, b.house, 2*time.Second) }

const errDeletedOften = refusal("deleted too often: wait until the first DELETE has aged out")

// delete makes the total of a checksum 0.
func (b *book) delete(ctx context.Context, sum Checksum, who bulkhead.Reporter) error {
	if !b.keeps(sum.Type) {
		return nil
	}
	sums := []Checksum{sum}
	b.deletes.Set()
	ts, err := b.tallies(ctx, new(asking), sums)
	if err != nil {
		return err
	}
	of, spam := targets.with(&sum, ts[0].targets), claims.with(&sum, ts[0].claims)
	fresh, err := ledger.Fresh(ctx, b.house, []*ledger.Account{of})
	switch {
	case err != nil:
		return err
	case fresh[0] >= ledger.MaxEpochs:
		return errDeletedOften
	}
	// All in one generation, so that it ages together.
	var r ledger.Raising
	b.deletes.Raise(&r)
	r.Delete(fresh[0], of, spam)
	if err := b.vote(ctx, r, sums, bulkhead.Revocation, who); err != nil {
		return fmt.Errorf("dcc: delete: %w", err)
	}
	return nil
}
