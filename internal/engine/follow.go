package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// ErrDiverged means that an entry of another node's journal cannot be applied, so that the whole state
// has to be copied again.
var ErrDiverged = errors.New("engine: the copy of the journal does not continue this node's state")

// Follow appends entries of another node's journal to the own one, and applies them. They are durable
// when it returns nil. After an error that wraps [ErrDiverged], the entries may be in the journal without having been
// applied. After one that wraps [bulkhead.ErrReadOnly], they are not on the disk yet.
func (e *Engine) Follow(ctx context.Context, entries []store.Entry) error {
	decoded, err := decode(entries)
	if err != nil {
		return err
	}
	return e.queue.change(ctx, func() error {
		if e.journal.closed.Load() == nil {
			return fmt.Errorf("engine: entries of another node, and this one decides for itself")
		}
		if err := e.journal.failure(); err != nil {
			return err
		}
		return e.take(entries, decoded)
	})
}

func decode(entries []store.Entry) ([]codec.Entry, error) {
	decoded := make([]codec.Entry, len(entries))
	for i := range entries {
		var err error
		if decoded[i], err = codec.Decode(entries[i].Data); err != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", ErrDiverged, entries[i].Index, err)
		}
	}
	return decoded, nil
}

// take appends entries that are durable elsewhere to the own journal, and applies them. If they cannot be written, they
// count nevertheless, and the checkpoint of the recovery will have them. Only the writer calls it.
func (e *Engine) take(entries []store.Entry, decoded []codec.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	if last := e.opts.Store.LastIndex(); entries[0].Index != last+1 {
		return fmt.Errorf("%w: entry %d, and the journal ends with entry %d", ErrDiverged, entries[0].Index, last)
	}
	for i, entry := range decoded {
		if r, ok := entry.(*codec.Rotation); ok && r.OpenTally != nil {
			if err := e.checkKey(r.OpenTally.CountsGeometry.KeyID); err != nil {
				return fmt.Errorf("%w: entry %d: %w", ErrDiverged, entries[i].Index, err)
			}
		}
	}
	err := e.opts.Store.AppendAll(entries)
	if err != nil {
		e.opts.Store.SkipTo(entries[len(entries)-1].Index)
		e.journal.fail("write journal", err)
		err = e.journal.failure()
	}
	for i, entry := range decoded {
		e.journal.passed(entries[i].Index, entries[i].Data)
		e.journal.note(entries[i].Data)
		if err := e.apply(entries[i].Index, entry); err != nil {
			return fmt.Errorf("%w: entry %d: %w", ErrDiverged, entries[i].Index, err)
		}
		switch x := entry.(type) {
		case *codec.Rotation:
			e.trimSecrets()
		case *codec.Term:
			if e.role.own != nil && x.Number > *e.role.own && e.journal.closed.Load() == nil {
				e.replaced(fmt.Errorf("another node decides, in term %d", x.Number))
			}
		}
	}
	return err
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
//
// With a shared journal, it has all entries of that journal before. It fails if there is no such journal, which may
// have been lost with entries that this node lacks, and if another node goes on appending.
func (e *Engine) Promote(ctx context.Context, term uint64) error {
	if e.opts.Shared == nil {
		return e.promote(ctx, term)
	}
	for try := 1; ; try++ {
		if err := e.rejoin(ctx, false); err != nil {
			return fmt.Errorf("%w: %w", bulkhead.ErrReadOnly, err)
		}
		if e.opts.Store.Err() == nil {
			e.journal.failed.Store(nil) // by the try before
		}
		err := e.promote(ctx, term)
		if err == nil || e.journal.failure() == nil || try == promoteTries {
			return err
		}
	}
}

// promoteTries is how often a node tries to append the first entry of its term before the other node appends the next
// one.
const promoteTries = 50

func (e *Engine) promote(ctx context.Context, term uint64) error {
	return e.queue.change(ctx, func() error {
		if now := e.Term(); term <= now.Number {
			return fmt.Errorf("%w: term %d, the present one is %d", bulkhead.ErrMalformed, term, now.Number)
		}
		before := e.journal.closed.Swap(nil)
		if err := e.commit(&codec.Term{Number: term}); err != nil {
			e.journal.closed.Store(before)
			return err
		}
		e.role.own = &term
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

// join brings the state to the end of the shared journal, and makes this node a writer of it if begin is set. between
// runs a function between two batches.
func (e *Engine) join(ctx context.Context, between func(func()), begin bool) error {
	e.journal.joining.Lock()
	defer e.journal.joining.Unlock()
	var at store.Position
	between(func() { at = store.Position{Index: e.opts.Store.LastIndex(), Link: e.journal.link} })
	take := func(ctx context.Context, from store.Position, entries []store.Entry) error {
		if err := e.begun(ctx, between, from); err != nil {
			return err
		}
		decoded, err := decode(entries)
		if err == nil {
			between(func() { err = e.take(entries, decoded) })
		}
		return err
	}
	end, err := e.opts.Shared.Join(ctx, at, begin, take)
	if err != nil {
		return err
	}
	if begin {
		between(func() {
			if e.role.own == nil {
				own := e.Term().Number
				e.role.own = &own
			}
		})
	}
	return e.begun(ctx, between, end)
}

// begun keeps the link of a shared journal that the state has begun to follow. Without it, a restart
// would find a state of unknown origin.
func (e *Engine) begun(ctx context.Context, between func(func()), at store.Position) error {
	fresh := false
	between(func() {
		if fresh = e.journal.link == 0 && at.Link != 0; fresh {
			e.journal.link = at.Link
		}
	})
	if !fresh {
		return nil
	}
	if err := e.checkpoint(ctx, between); err != nil {
		between(func() { e.journal.link = 0 })
		return err
	}
	return nil
}

// CatchUp applies the entries of the shared journal that a node which follows another one lacks.
func (e *Engine) CatchUp(ctx context.Context) error {
	if e.opts.Shared == nil || e.journal.closed.Load() == nil {
		return nil
	}
	return e.join(ctx, e.queue.between, false)
}

// Linked reports whether the state is known to come from the shared journal. It is true without one.
func (e *Engine) Linked() (linked bool) {
	e.queue.between(func() { linked = e.opts.Shared == nil || e.journal.link != 0 || e.opts.Store.LastIndex() == 0 })
	return linked
}

// replaced makes the node decide nothing until it is started again: another node appends to the shared journal.
func (e *Engine) replaced(err error) {
	e.opts.Log.Error("this node was replaced", "err", err,
		"consequence", "it takes no reports until it is started again")
	e.StandDown(err)
}
