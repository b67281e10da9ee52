package engine

import (
	"sync/atomic"
)

// maxUnsure is the number of batches that may wait for the standby.
const maxUnsure = 64

// A Standby is another node that keeps a copy of the journal. Its methods may be called concurrently.
type Standby interface {
	// MayDecide returns why nothing may be decided at present, because the copy could not be kept. The
	// error wraps [bulkhead.ErrReadOnly].
	MayDecide() error
	// Confirm waits until the copy has all entries up to index on disk. Without that it returns an
	// error that wraps [bulkhead.ErrReadOnly]. It returns nil if the node may go on without a copy.
	Confirm(index uint64) error
}

// A role is whether the node decides, or applies what another node has decided.
type role struct {
	standby Standby // nil: none
	term    atomic.Pointer[Term]
	unsure  chan unsure
	// own is the latest term of this node, nil before it has joined the shared journal. Only the writer uses it once it
	// runs.
	own *uint64
}

// An unsure is a request that waits for the standby.
type unsure struct {
	index    uint64
	requests []*request
}

// begin begins with the term that the node itself decides in, 0 if there is none.
func (r *role) begin(standby Standby, own uint64) {
	r.standby = standby
	if own > 0 {
		r.own = &own
	}
	r.term.Store(new(Term))
	r.unsure = make(chan unsure, maxUnsure)
}

// mayDecide returns why nothing may be decided for want of a standby, or nil.
func (r *role) mayDecide() error {
	if r.standby == nil {
		return nil
	}
	return r.standby.MayDecide()
}

// confirm answers requests once the standby has their entries.
func (r *role) confirm() {
	for u := range r.unsure {
		err := r.standby.Confirm(u.index)
		for _, req := range u.requests {
			if req.err == nil {
				req.err = err
			}
			req.answer(req.err)
		}
	}
}

// end is called when no request is left. It ends confirm.
func (r *role) end() { close(r.unsure) }
