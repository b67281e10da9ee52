package ledger

import "github.com/bulkhead-mail/bulkhead"

// A Raising holds counters to be raised by one call of [bulkhead.Counter].Count: Sigs[i] by N[i].
// Related counters must be raised together, so that they are forgotten together. The zero Raising
// is empty.
type Raising struct {
	Sigs []bulkhead.Signature
	N    []uint32
}

// Reset empties r and keeps its memory.
func (r *Raising) Reset() { r.Sigs, r.N = r.Sigs[:0], r.N[:0] }

// Raise adds one counter.
func (r *Raising) Raise(sig bulkhead.Signature, n uint32) {
	r.Sigs, r.N = append(r.Sigs, sig), append(r.N, n)
}

// Add adds n, 1 to [bulkhead.Many], to an account that was read, or from which nothing can have
// been taken because no [Mark] was seen.
func (r *Raising) Add(a *Account, n uint32) {
	m := n
	switch {
	case a.Deletes > 0:
		r.AddSince(a, n)
	case a.Taken > a.Added:
		// The counts were forgotten, but the subtraction was not: compensate for it.
		m = min(n+a.Taken-a.Added, bulkhead.Many)
	}
	r.Raise(a.Name(Part{Kind: Added}), m)
}

// AddSince adds n to the additions since the last delete, if there was a delete. It is the second
// half of Add, for a door that raises Added by other means.
func (r *Raising) AddSince(a *Account, n uint32) {
	if a.Deletes > 0 {
		r.Raise(a.Name(a.Since(AddedSince)), n)
	}
}

// Take subtracts n, 1 to [bulkhead.Many], from an account that was read, even if less than n is
// left.
func (r *Raising) Take(a *Account, n uint32) {
	r.Raise(a.Name(Part{Kind: Taken}), n)
	if a.Deletes > 0 {
		r.Raise(a.Name(a.Since(TakenSince)), n)
	}
}

// Delete subtracts everything from accounts that were read and share the counter of their
// deletions. epoch is the first result of [Fresh]. If it is MaxEpochs, the delete gets no number,
// and is right until the deleted counts are forgotten.
func (r *Raising) Delete(epoch int, accounts ...*Account) {
	if epoch < MaxEpochs {
		r.Raise(accounts[0].Name(Part{Kind: Deletes}), 1<<epoch)
	}
	for _, a := range accounts {
		// The difference alone would be wrong: it includes what an earlier delete took, which is
		// forgotten before this delete is. The additions between the two would come back.
		r.rest(a.Name(Part{Kind: Taken}), a.Left())
		if epoch >= MaxEpochs && a.Deletes > 0 {
			r.rest(a.Name(a.Since(TakenSince)), left(a.AddedSince, a.TakenSince))
		}
	}
}

func (r *Raising) rest(sig bulkhead.Signature, n uint32) {
	if n > 0 {
		r.Raise(sig, n)
	}
}
