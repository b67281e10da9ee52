package engine

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// commit makes an entry durable and applies it.
func (e *Engine) commit(entry codec.Entry) (err error) {
	w := &e.writer
	if w.buf, err = entry.Append(w.buf[:0]); err != nil {
		return err
	}
	index, err := e.journal.append(w.buf)
	if err != nil {
		return err
	}
	return e.apply(index, entry)
}

// apply applies the entry with the given index, on start or once it is durable.
func (e *Engine) apply(index uint64, entry codec.Entry) error {
	switch x := entry.(type) {
	case *codec.Votes:
		return e.applyVotes(index, x)
	case *codec.Rotation:
		return e.applyRotation(x)
	case *codec.Account:
		return e.applyAccount(index, x)
	case *codec.Origins:
		e.replicas.SetOrigins(x.Origins)
	case *codec.Remote:
		return e.applyRemote(index, x)
	case *codec.Forget:
		e.replicas.Forget(x.Origin, x.Since)
	case *codec.Renew:
		e.applyRenewal(x)
	case *codec.Heal:
		return e.applyHealing(index, x)
	case *codec.Term:
		e.role.term.Store(&codec.Term{Number: x.Number, From: index})
	}
	return nil
}

// applyVotes applies the decisions of a batch. It skips generations that are gone by now, and pages
// that already include the entry.
func (e *Engine) applyVotes(index uint64, v *codec.Votes) error {
	books := e.current.Books()
	if g := books.Tally.Find(v.TallyGen); g != nil {
		e.addCounts(index, g, v)
		g.Unique.SetBatch(index, v.Unique, nil)
	}
	for _, l := range v.Late {
		if g := books.Block.Find(l.Gen); g != nil {
			g.Weights.AddBatch(index, l.Keys, l.N, nil)
		}
	}
	if g := books.Block.Find(v.BlockGen); g != nil {
		g.Weights.AddBatch(index, v.Weights.Keys, v.Weights.N, nil)
		g.Votes.SetBatch(index, v.Voted, nil)
		g.Names.AddBatch(index, v.Names.Keys, v.Names.N, nil)
		if g.Floor > 0 {
			g.Spam.SetBatch(index, v.Spam, nil)
			g.Revoked.SetBatch(index, v.Revoked, nil)
			e.setBits(index, ArraySpam, g.Start, g.PublishedSpam, v.PublishedSpam)
			e.setBits(index, ArrayRevoked, g.Start, g.PublishedRevoked, v.PublishedRevoked)
		} else {
			e.setBits(index, ArraySpam, g.Start, g.Spam, v.Spam)
			e.setBits(index, ArrayRevoked, g.Start, g.Revoked, v.Revoked)
		}
	}
	if !v.Learned.Empty() {
		if err := e.learned.Apply(index, &v.Learned, index <= e.writer.accountsIndex); err != nil {
			return err
		}
	}
	if index > e.writer.accountsIndex {
		for _, x := range v.Ballots {
			e.ballots.Add(x)
		}
		for _, c := range v.Credits {
			e.accounts.Credit(c)
		}
		e.writer.accountsIndex = index
	}
	return nil
}

// addCounts applies adds to an own array, and records them.
func (e *Engine) addCounts(index uint64, g *book.Tally, v *codec.Votes) {
	own, ok := g.Counts.(*arrays.Counting)
	if !ok || len(v.Counts.Keys) == 0 {
		g.Counts.AddBatch(index, v.Counts.Keys, v.Counts.N, nil)
		return
	}
	key := replica.Key{Array: ArrayCounts, Start: g.Start}
	e.healer.Note(index, key, own, v.Counts.Keys, v.Counts.N)
	rec := e.writer.recorder.begin(key, own.Above().NewRound)
	if rec == nil {
		own.AddBatch(index, v.Counts.Keys, v.Counts.N, nil)
		return
	}
	before := make([]uint32, len(v.Counts.Keys))
	own.AddBatch(index, v.Counts.Keys, v.Counts.N, before)
	rec.note(func(r *arrays.Round) { r.Record(v.Counts.Keys, v.Counts.N, before) })
}

// setBits applies the keys of an own filter, and records them.
func (e *Engine) setBits(index uint64, a Array, start uint64, set book.Bitset, keys []filter.Key) {
	own, ok := set.(*arrays.Bits)
	if !ok || len(keys) == 0 {
		set.SetBatch(index, keys, nil)
		return
	}
	key := replica.Key{Array: a, Start: start}
	e.healer.Note(index, key, own, keys, nil)
	rec := e.writer.recorder.begin(key, own.NewRound)
	if rec == nil {
		own.SetBatch(index, keys, nil)
		return
	}
	before := make([]bool, len(keys))
	own.SetBatch(index, keys, before)
	rec.note(func(r *arrays.Round) { r.RecordBits(keys, before) })
}

func (e *Engine) applyRotation(r *codec.Rotation) (err error) {
	// Before the first checkpoint, nothing else records the key.
	if r.OpenTally != nil {
		if err := e.checkKey(r.OpenTally.CountsGeometry.KeyID); err != nil {
			return err
		}
	}
	next := *e.current.Books()
	if next.Tally, err = e.writer.tally.Apply(next.Tally, r.Tally()); err != nil {
		return err
	}
	if next.Block, err = e.writer.block.Apply(next.Block, r.Block()); err != nil {
		return err
	}
	e.current.Set(&next)
	return nil
}

func (e *Engine) applyAccount(index uint64, a *codec.Account) error {
	if index <= e.writer.accountsIndex {
		return nil
	}
	e.writer.accountsIndex = index
	e.writer.resolver.AccountsChanged()
	if a.Put != nil {
		return e.accounts.Put(*a.Put)
	}
	e.accounts.Remove(a.Remove)
	return nil
}

// applyRemote applies the parts of an origin on start.
func (e *Engine) applyRemote(index uint64, r *codec.Remote) error {
	parsed := make([]Parsed, len(r.Parts))
	for i, p := range r.Parts {
		var err error
		if parsed[i], err = e.replicas.Parse(p); err != nil {
			return err
		}
	}
	return e.replicas.Apply(index, r.Origin, parsed, true)
}

func (e *Engine) applyRenewal(r *codec.Renew) {
	switch {
	case r.Superseded != nil:
		e.replicas.Supersede(r.Origin, r.Superseded)
	case r.To != "":
		e.replicas.Rename(r.Origin, r.To)
	default:
		e.replicas.Renew(r.Origin, r.Incarnation)
	}
}

func (e *Engine) applyHealing(index uint64, h *codec.Heal) error {
	if err := e.healer.Apply(index, h); err != nil || h.End {
		return err
	}
	e.writer.recorder.forget(replica.Key{Array: h.Array, Start: h.Start})
	return nil
}
