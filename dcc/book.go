package dcc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A BatchChecker is a Clearinghouse that answers many queries at once, into
// verdicts whose Findings it reuses. A [Server] uses it where it is offered.
type BatchChecker interface {
	CheckBatch(ctx context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error
}

// maxSignatures is how many signatures are put into one query or report.
const maxSignatures = 960

// A tally is what DCC counts of one checksum. A filter can only count up, so
// four counters stand for it: targets and claims of spam, of all time and at
// the time of the last DELETE. Targets are the sightings of the checksum
// itself, which all front doors add to; the others are its own signatures.
type tally struct {
	targets, deleted      uint32
	claims, deletedClaims uint32
	judged                bulkhead.Judgement
}

// before returns the tally as it was before a report of n targets.
func (t tally) before(n uint32, spam bool) tally {
	// A counter that is full has been for long.
	if t.targets < bulkhead.Many {
		t.targets -= min(n, t.targets)
	}
	if spam {
		if t.claims < bulkhead.Many {
			t.claims -= min(claimWeight, t.claims)
		}
		if t.claims == 0 {
			t.judged = bulkhead.Unjudged // by this very report
		}
	}
	return t
}

// total is the number that clients see.
func (t *tally) total() uint32 {
	if t.claims >= t.deletedClaims+claimWeight {
		return Many
	}
	// Listed by another front door; a DELETE here overrules it.
	if t.judged == bulkhead.JudgedSpam && t.deleted == 0 && t.deletedClaims == 0 {
		return Many
	}
	if t.targets <= t.deleted {
		return 0
	}
	return min(t.targets-t.deleted, Many)
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
)

// counterOf returns a counter of a checksum; 0 stands for the targets. Types
// that have no scheme are never counted.
func counterOf(c *Checksum, counter byte) bulkhead.Signature {
	var sum [len(c.Sum) + 1]byte
	n := copy(sum[:], c.Sum[:])
	if counter != 0 {
		sum[n] = counter
		n++
	}
	sig, err := bulkhead.NewSignature(c.Type.Scheme(), sum[:n])
	if err != nil {
		// Only counted types come here, and a sum of 16 or 17 bytes is valid.
		panic(err)
	}
	return sig
}

// A book counts checksums in a clearinghouse. It may be used concurrently.
type book struct {
	house bulkhead.Clearinghouse
	// deletes says that something was deleted once. Until then nobody need ask
	// for the counters of deletions.
	deletes atomic.Bool
	keep    [signature.DCCTypeRepBulk + 1]bool // types that are counted
}

func newBook(house bulkhead.Clearinghouse, keep []signature.DCCType) *book {
	b := &book{house: house}
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
	sigs     []bulkhead.Signature
	queries  [1]bulkhead.Query
	verdicts [1]bulkhead.Verdict
	findings []bulkhead.Finding
	known    []int
	tallies  []tally
}

// look returns the findings of any number of signatures. They are valid until
// the next call.
func (b *book) look(ctx context.Context, a *asking, sigs []bulkhead.Signature) ([]bulkhead.Finding, error) {
	batch, ok := b.house.(BatchChecker)
	a.findings = a.findings[:0]
	for start := 0; start < len(sigs); start += maxSignatures {
		part := sigs[start:min(start+maxSignatures, len(sigs))]
		a.queries[0] = bulkhead.Query{Signatures: part, Terse: true}
		if ok {
			if err := batch.CheckBatch(ctx, a.queries[:], a.verdicts[:]); err != nil {
				return nil, err
			}
		} else {
			v, err := b.house.Check(ctx, a.queries[0])
			if err != nil {
				return nil, err
			}
			a.verdicts[0] = v
		}
		if len(sigs) <= maxSignatures {
			return a.verdicts[0].Findings, nil
		}
		a.findings = append(a.findings, a.verdicts[0].Findings...)
	}
	return a.findings, nil
}

// tallies returns the tallies of checksums, which must be of kept types: first
// of all their targets, and then, of those that anything is known of, the rest.
// own holds for each checksum the targets that a report of the caller has just
// added; what nobody else has counted needs no second look. nil stands for
// zeroes. The tallies are valid until the next call.
func (b *book) tallies(ctx context.Context, a *asking, sums []Checksum, own []uint32) ([]tally, error) {
	a.sigs, a.known, a.tallies = a.sigs[:0], a.known[:0], a.tallies[:0]
	if len(sums) == 0 {
		return nil, nil
	}
	for i := range sums {
		a.sigs = append(a.sigs, counterOf(&sums[i], 0))
	}
	findings, err := b.look(ctx, a, a.sigs)
	if err != nil {
		return nil, err
	}
	counters := []byte{claimsCounter, claimsAgainCounter, deletedCounter, deletedClaimsCounter}
	if !b.deletes.Load() {
		counters = counters[:2]
	}
	a.sigs = a.sigs[:0]
	for i := range sums {
		f := &findings[i]
		a.tallies = append(a.tallies, tally{targets: f.Sightings, judged: f.Judged})
		if f.Sightings > 0 && (own == nil || f.Sightings > own[i]) {
			a.known = append(a.known, i)
			for _, counter := range counters {
				a.sigs = append(a.sigs, counterOf(&sums[i], counter))
			}
		}
	}
	if len(a.known) == 0 {
		return a.tallies, nil
	}
	if findings, err = b.look(ctx, a, a.sigs); err != nil {
		return nil, err
	}
	for k, i := range a.known {
		t, f := &a.tallies[i], findings[k*len(counters):]
		t.claims = min(f[0].Sightings, f[1].Sightings)
		if len(counters) > 2 {
			t.deleted, t.deletedClaims = f[2].Sightings, f[3].Sightings
		}
	}
	return a.tallies, nil
}

// deletesSignature is the counter of deletions of any checksum.
func deletesSignature() bulkhead.Signature {
	sig, err := bulkhead.NewSignature(bulkhead.DCCBody, []byte("bulkhead dcc deletes"))
	if err != nil {
		panic(err)
	}
	return sig
}

// follow learns of deletions on other nodes until ctx ends.
func (b *book) follow(ctx context.Context) {
	const every = 2 * time.Second
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !b.deletes.Load() {
		v, err := b.house.Check(ctx, bulkhead.Query{Signatures: []bulkhead.Signature{deletesSignature()}, Terse: true})
		if err == nil && v.Findings[0].Sightings > 0 {
			b.deletes.Store(true)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// raise adds n to signatures. What needs several reports waits for the disk
// once. Counting takes no account's word: only the address of who is used.
func (b *book) raise(ctx context.Context, sigs []bulkhead.Signature, n uint32, who bulkhead.Reporter) error {
	who.Account = ""
	parts := (len(sigs) + maxSignatures - 1) / maxSignatures
	errs := make([]error, parts)
	var wg sync.WaitGroup
	for i := range parts {
		r := bulkhead.Report{Vote: bulkhead.Sighting, Count: n, Reporter: who}
		r.Signatures = sigs[i*maxSignatures : min((i+1)*maxSignatures, len(sigs))]
		if parts == 1 {
			_, err := b.house.Report(ctx, r)
			return err
		}
		wg.Go(func() { _, errs[i] = b.house.Report(ctx, r) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// report counts checksums for n targets, and as spam where that is claimed.
func (b *book) report(ctx context.Context, sums []Checksum, n uint32, spam bool, who bulkhead.Reporter) error {
	targets := make([]bulkhead.Signature, len(sums))
	for i := range sums {
		targets[i] = counterOf(&sums[i], 0)
	}
	if !spam {
		return b.raise(ctx, targets, n, who)
	}
	claims := make([]bulkhead.Signature, 0, 2*len(sums))
	for i := range sums {
		claims = append(claims, counterOf(&sums[i], claimsCounter), counterOf(&sums[i], claimsAgainCounter))
	}
	// Both wait for the disk: together they wait once.
	var err1, err2 error
	var wg sync.WaitGroup
	wg.Go(func() { err1 = b.raise(ctx, targets, n, who) })
	err2 = b.raise(ctx, claims, claimWeight, who)
	wg.Wait()
	return errors.Join(err1, err2)
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
		for i := range sums[:min(len(sums), maxSignatures)] {
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

// delete makes the total of a checksum 0.
func (b *book) delete(ctx context.Context, sum Checksum, who bulkhead.Reporter) error {
	if !b.keeps(sum.Type) {
		return nil
	}
	sums := []Checksum{sum}
	b.deletes.Store(true)
	ts, err := b.tallies(ctx, new(asking), sums, nil)
	if err != nil {
		return err
	}
	if err := b.raise(ctx, []bulkhead.Signature{deletesSignature()}, 1, who); err != nil {
		return err
	}
	t := ts[0]
	for _, up := range []struct {
		counter byte
		now, at uint32
	}{{deletedCounter, t.targets, t.deleted}, {deletedClaimsCounter, t.claims, t.deletedClaims}} {
		if up.now > up.at {
			if err := b.raise(ctx, []bulkhead.Signature{counterOf(&sum, up.counter)}, up.now-up.at, who); err != nil {
				return err
			}
		}
	}
	if err := b.vote(ctx, sums, true, who); err != nil {
		return fmt.Errorf("dcc: revoke: %w", err)
	}
	return nil
}
