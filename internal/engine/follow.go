package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

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
}

// An unsure is a request that waits for the standby.
type unsure struct {
	index    uint64
	requests []*request
}

// maxUnsure is the number of batches that may wait for the standby.
const maxUnsure = 64

func (r *role) begin(o *Options) {
	r.standby = o.Standby
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

// answer answers requests, at once or when the standby has all that their answers rest on. A request
// that changed nothing waits as well: the entry that it repeats may still be unconfirmed. Only the
// writer calls it.
func (e *Engine) answer(requests ...*request) {
	if e.role.standby != nil {
		e.role.unsure <- unsure{e.journal.store.LastIndex(), requests}
		return
	}
	for _, req := range requests {
		req.answer(req.err)
	}
}

// Term returns the present term. Its number is 0 if the node never had a standby.
func (e *Engine) Term() Term { return *e.role.term.Load() }

// ErrDiverged means that an entry of another node's journal cannot be applied, so that the whole state
// has to be copied again.
var ErrDiverged = errors.New("engine: the copy of the journal does not continue this node's state")

// Follow appends entries of another node's journal to the own one, and applies them. They are durable
// when it returns nil. After an error that wraps [ErrDiverged] or [bulkhead.ErrReadOnly], the entries
// may be in the journal without having been applied.
func (e *Engine) Follow(ctx context.Context, entries []store.Entry) error {
	decoded := make([]codec.Entry, len(entries))
	for i := range entries {
		var err error
		if decoded[i], err = codec.Decode(entries[i].Data); err != nil {
			return fmt.Errorf("%w: entry %d: %w", ErrDiverged, entries[i].Index, err)
		}
	}
	return e.queue.change(ctx, func() error {
		if e.journal.closed.Load() == nil {
			return fmt.Errorf("engine: entries of another node, and this one decides for itself")
		}
		if err := e.journal.failure(); err != nil {
			return err
		}
		if len(entries) > 0 && entries[0].Index != e.opts.Store.LastIndex()+1 {
			return fmt.Errorf("%w: entry %d, and the journal ends with entry %d", ErrDiverged, entries[0].Index,
				e.opts.Store.LastIndex())
		}
		for i, entry := range decoded {
			if r, ok := entry.(*codec.Rotation); ok && r.OpenTally != nil {
				if err := e.checkKey(r.OpenTally.CountsGeometry.KeyID); err != nil {
					return fmt.Errorf("%w: entry %d: %w", ErrDiverged, entries[i].Index, err)
				}
			}
		}
		if err := e.opts.Store.AppendAll(entries); err != nil {
			e.journal.fail("write journal", err)
			return e.journal.failure()
		}
		for i, entry := range decoded {
			e.journal.note(entries[i].Data)
			if err := e.apply(entries[i].Index, entry); err != nil {
				return fmt.Errorf("%w: entry %d: %w", ErrDiverged, entries[i].Index, err)
			}
			if _, ok := entry.(*codec.Rotation); ok {
				e.trimSecrets()
			}
		}
		return nil
	})
}

// FollowSecrets makes the secrets of another node this node's, for the entries that follow. past and
// former are as in [Options].
func (e *Engine) FollowSecrets(ctx context.Context, present filter.Secret, past, former []filter.Secret) error {
	return e.queue.change(ctx, func() error {
		s := keys.NewSecrets(present, append(past, e.current.Books().Secrets.All...)...).Sharing(former)
		if err := s.Check(); err != nil {
			s = keys.NewSecrets(present, past...).Sharing(former)
		}
		if err := s.Check(); err != nil {
			return err
		}
		e.setSecrets(s)
		return nil
	})
}

// Promote makes a node that follows decide for itself, in the given term, which is later than the
// present one. The first entry of the term is durable when it returns nil. A node that decides already
// begins the term as well.
func (e *Engine) Promote(ctx context.Context, term uint64) error {
	return e.queue.change(ctx, func() error {
		if now := e.Term(); term <= now.Number {
			return fmt.Errorf("%w: term %d, the present one is %d", bulkhead.ErrMalformed, term, now.Number)
		}
		before := e.journal.closed.Swap(nil)
		if err := e.commit(&codec.Term{Number: term}); err != nil {
			e.journal.closed.Store(before)
			return err
		}
		return e.rotate()
	})
}

// Settled waits until the requests that the writer has begun are decided.
func (e *Engine) Settled(ctx context.Context) error { return e.queue.inTurn(ctx, func() {}) }

// StandDown makes the node decide nothing from now on, because of err: another node does.
func (e *Engine) StandDown(err error) {
	reason := fmt.Errorf("%w: %w", bulkhead.ErrReadOnly, err)
	e.journal.closed.Store(&reason)
}
