package dcc

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// sinceOf returns a counter of what came after the last of the DELETEs that
// epochs, not 0, stands for.
func sinceOf(c *Checksum, counter byte, epochs uint32) bulkhead.Signature {
	return sinceEpoch(c, counter, bits.Len32(epochs)-1)
}

func sinceEpoch(c *Checksum, counter byte, epoch int) bulkhead.Signature {
	var sum [len(c.Sum) + 2]byte
	n := copy(sum[:], c.Sum[:])
	sum[n], sum[n+1] = counter, byte(epoch)
	return mustSignature(c.Type.Scheme(), sum[:])
}

// talliesSince completes the tallies of checksums that were deleted.
func (b *book) talliesSince(ctx context.Context, a *asking, sums []Checksum) error {
	a.more = a.more[:0]
	for _, i := range a.known {
		if e := a.tallies[i].epochs; e > 0 {
			c := &sums[i]
			a.more = append(a.more, sinceOf(c, sinceCounter, e), sinceOf(c, sinceClaims, e), sinceOf(c, sinceClaimsAgain, e))
		}
	}
	if len(a.more) == 0 {
		return nil
	}
	if err := b.look(ctx, a, a.more, bulkhead.Counts|bulkhead.Aside); err != nil {
		return err
	}
	l := a.looks
	for _, i := range a.known {
		if t := &a.tallies[i]; t.epochs > 0 {
			t.since, t.sinceClaims = l[0].Sightings, min(l[1].Sightings, l[2].Sightings)
			l = l[3:]
		}
	}
	return nil
}

// epochs returns which DELETEs of checksums have not aged out; nil if none has
// ever been. It is valid until the next call.
func (b *book) epochs(ctx context.Context, a *asking, sums []Checksum) ([]uint32, error) {
	if !b.deletes.Load() {
		return nil, nil
	}
	a.more, a.epochs = a.more[:0], a.epochs[:0]
	for i := range sums {
		a.more = append(a.more, counterOf(&sums[i], epochsCounter))
	}
	if err := b.look(ctx, a, a.more, bulkhead.Counts|bulkhead.Aside); err != nil {
		return nil, err
	}
	for i := range sums {
		a.epochs = append(a.epochs, a.looks[i].Sightings)
	}
	return a.epochs, nil
}

// since adds the counters since their last DELETE of checksums that have been
// deleted; epochs may be nil.
func (r *raising) since(sums []Checksum, epochs []uint32, n uint32, spam bool) {
	for i, e := range epochs {
		if e == 0 {
			continue
		}
		r.add(sinceOf(&sums[i], sinceCounter, e), n)
		if spam {
			r.add(sinceOf(&sums[i], sinceClaims, e), claimWeight)
			r.add(sinceOf(&sums[i], sinceClaimsAgain, e), claimWeight)
		}
	}
}

// deletesSignature is the counter of deletions of any checksum.
func deletesSignature() bulkhead.Signature {
	return mustSignature(bulkhead.DCCBody, []byte("bulkhead dcc deletes"))
}

// follow learns of deletions on other nodes until ctx ends.
func (b *book) follow(ctx context.Context) {
	const every = 2 * time.Second
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !b.deletes.Load() {
		var l [1]bulkhead.Look
		if err := b.house.Look(ctx, []bulkhead.Signature{deletesSignature()}, l[:], bulkhead.Counts|bulkhead.Aside); err == nil && l[0].Sightings > 0 {
			b.deletes.Store(true)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

const errDeletedOften = refusal("deleted too often: wait until the first DELETE has aged out")

// freshEpoch returns the number of a DELETE: beyond those that have not aged out,
// and one since which nothing is counted.
func (b *book) freshEpoch(ctx context.Context, c *Checksum, epochs uint32) (int, error) {
	first := bits.Len32(epochs)
	if first >= maxEpochs {
		return 0, errDeletedOften
	}
	var sigs []bulkhead.Signature
	for epoch := first; epoch < maxEpochs; epoch++ {
		sigs = append(sigs, sinceEpoch(c, sinceCounter, epoch))
	}
	looks := make([]bulkhead.Look, len(sigs))
	if err := b.house.Look(ctx, sigs, looks, bulkhead.Counts|bulkhead.Aside); err != nil {
		return 0, err
	}
	for i := range looks {
		if looks[i].Sightings == 0 {
			return first + i, nil
		}
	}
	return 0, errDeletedOften
}

// delete makes the total of a checksum 0.
func (b *book) delete(ctx context.Context, sum Checksum, who bulkhead.Reporter) error {
	if !b.keeps(sum.Type) {
		return nil
	}
	sums := []Checksum{sum}
	b.deletes.Store(true)
	ts, err := b.tallies(ctx, new(asking), sums)
	if err != nil {
		return err
	}
	t := &ts[0]
	epoch, err := b.freshEpoch(ctx, &sum, t.epochs)
	if err != nil {
		return err
	}
	// All of it in one generation, so that it ages together.
	var r raising
	r.add(deletesSignature(), 1)
	r.add(counterOf(&sum, epochsCounter), 1<<epoch)
	if t.targets > t.deleted {
		r.add(counterOf(&sum, deletedCounter), t.targets-t.deleted)
	}
	if t.claims > t.deletedClaims {
		r.add(counterOf(&sum, deletedClaimsCounter), t.claims-t.deletedClaims)
	}
	if err := b.house.Count(ctx, r.sigs, r.n); err != nil {
		return err
	}
	if err := b.vote(ctx, sums, true, who); err != nil {
		return fmt.Errorf("dcc: revoke: %w", err)
	}
	return nil
}
