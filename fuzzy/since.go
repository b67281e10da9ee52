package fuzzy

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// appendSince appends the counters of account i since its last delete.
func appendSince(dst []bulkhead.Signature, r *Request, flag uint8, b *ledger.Balance, i int) []bulkhead.Signature {
	return append(dst, counterSignature(r, flag, b.Since(ledger.AddedSince), i),
		counterSignature(r, flag, b.Since(ledger.TakenSince), i))
}

// askSince looks up what was written to digests since they were deleted.
func askSince(_ *Server, q *questions, c *pendingCheck, _ []uint8) {
	for i := range c.hits {
		if h := &c.hits[i]; h.account.Deletes > 0 {
			q.sigs = appendSince(q.sigs, &c.job.req, h.flag, &h.account, 0)
			q.sigs = append(q.sigs, counterSignature(&c.job.req, h.flag, h.account.Since(ledger.AddedSince), 1))
		}
	}
}

func takeSince(_ *Server, c *pendingCheck, looks, _ []bulkhead.Look, _ []uint8) {
	for i := range c.hits {
		if a := &c.hits[i].account; a.Deletes > 0 {
			a.AddedSince, a.TakenSince = min(looks[0].Sightings, looks[2].Sightings), looks[1].Sightings
			looks = looks[3:]
		}
	}
	c.settle()
}

// heldBands are the bands of a message on one list: what was added, and the rest of
// their accounts.
type heldBands struct {
	flag     uint8
	looks    [rspamd.Bands]bulkhead.Look
	accounts [rspamd.Bands]ledger.Balance
}

// take adds what was taken away to the accounts.
func (h *heldBands) take(taken, deletes []bulkhead.Look) {
	for b := range h.accounts {
		h.accounts[b].Taken, h.accounts[b].Deletes = taken[b].Sightings, deletes[b].Sightings
	}
}

// hit returns the hit of the remaining bands.
func (h *heldBands) hit() (hit, bool) {
	for b := range h.looks {
		h.accounts[b].Added = h.looks[b].Sightings
		h.looks[b].Sightings = h.accounts[b].Left()
	}
	return nearHit(h.flag, h.looks[:])
}

// askNearSince looks up what was written to bands since they were deleted.
func askNearSince(_ *Server, q *questions, c *pendingCheck, _ []uint8) {
	for i := range c.held {
		h := &c.held[i]
		for b := range h.accounts {
			if a := &h.accounts[b]; a.Deletes > 0 {
				q.sigs = appendSince(q.sigs, &c.job.req, h.flag, a, 2+b)
			}
		}
	}
}

func takeNearSince(_ *Server, c *pendingCheck, looks, _ []bulkhead.Look, _ []uint8) {
	for i := range c.held {
		h := &c.held[i]
		for b := range h.accounts {
			if a := &h.accounts[b]; a.Deletes > 0 {
				a.AddedSince, a.TakenSince = looks[0].Sightings, looks[1].Sightings
				looks = looks[2:]
			}
		}
		if near, ok := h.hit(); ok {
			// Weights on a list take precedence over votes.
			c.hits = slices.DeleteFunc(c.hits, func(o hit) bool { return o.flag == h.flag })
			c.hits = append(c.hits, near)
		}
	}
}
