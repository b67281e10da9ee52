package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

const (
	maxBatch  = 2048    // reports in one journal entry
	maxVotes  = 1 << 16 // signatures in one journal entry, from which no further report joins
	queueSize = 8192    // reports that wait for the writer; more wait in their callers
)

// write is the writer's goroutine: the only one that changes arrays, accounts
// and the view.
func (e *Engine) write() {
	defer close(e.stopped)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	batch := make([]*request, 0, maxBatch)
	for {
		batch = batch[:0]
		select {
		case req := <-e.queue:
			batch = append(batch, req)
		case <-tick.C:
		case <-e.closing:
			e.drain(batch)
			return
		}
		e.turn(e.gather(batch))
	}
}

// gather adds waiting requests to batch: reports that arrived while the last entry was made durable
// share the next one.
func (e *Engine) gather(batch []*request) []*request {
	n := 0
	for _, req := range batch {
		n += req.weight()
	}
	for len(batch) < maxBatch && n < maxVotes {
		select {
		case req := <-e.queue:
			batch = append(batch, req)
			n += req.weight()
		default:
			return batch
		}
	}
	return batch
}

// drain serves the requests that were queued before the engine began to close.
func (e *Engine) drain(batch []*request) {
	for {
		batch = e.gather(batch[:0])
		if len(batch) == 0 {
			return
		}
		e.turn(batch)
	}
}

// turn serves one batch.
func (e *Engine) turn(batch []*request) {
	if e.opts.Store != nil && e.refusing() == nil {
		// With relaxed durability the store syncs on its own, and may fail.
		if err := e.opts.Store.Err(); errors.Is(err, store.ErrFailed) {
			e.fail("sync journal", err)
		}
	}
	if err := e.rotate(); err != nil {
		e.fail("open generation", err)
	}
	var adds []*request
	for _, req := range batch {
		if req.addition != nil {
			adds = append(adds, req)
		} else {
			req.answer(req.change.do(e))
		}
	}
	if len(adds) > 0 {
		e.addAll(adds)
	}
}

// addAll decides the additions of a batch, makes the decisions durable in one entry,
// applies them, and answers.
func (e *Engine) addAll(adds []*request) {
	err := e.refusing()
	if err == nil {
		err = e.open()
	}
	if err == nil {
		s := e.sources()
		e.resolver.Begin(s.view.evidence(), s.Sources)
		for _, req := range adds {
			if req.addition.under() != s.view.secrets {
				req.err = errOtherSecret
				continue
			}
			req.err = req.addition.decide(e.resolver)
		}
		if err = e.commit((*votes)(e.resolver.Decisions())); err == nil {
			e.tell(e.resolver.Gatherings())
		}
	}
	for _, req := range adds {
		if err != nil {
			req.err = err
		}
		switch {
		case req.err == nil:
			e.counters.reports.Add(1)
		case req.err != errOtherSecret: // the caller tries again
			e.counters.refused.Add(1)
		}
		req.answer(req.err)
	}
}

// commit makes the decisions of a batch durable and applies them.
func (e *Engine) commit(v *votes) error {
	if (*resolve.Decisions)(v).Empty() {
		return nil
	}
	e.buf = v.appendEntry(e.buf[:0])
	index, err := e.journal(e.buf)
	if err != nil {
		return err
	}
	return v.apply(e, index)
}

// journal makes an entry durable and returns its index. On an error the node
// is read-only until a recovery has succeeded.
func (e *Engine) journal(entry []byte) (uint64, error) {
	if e.opts.Store == nil {
		e.index++
		return e.index, nil
	}
	if err := e.refusing(); err != nil {
		return 0, err
	}
	index, err := e.opts.Store.Append(entry)
	if err != nil {
		e.fail("write journal", err)
		return 0, e.refusing()
	}
	e.counters.entries.Add(1)
	e.journalBytes += uint64(len(entry))
	if e.journalBytes >= e.opts.CheckpointBytes {
		e.wakeCheckpoint()
	}
	return index, nil
}

// journalled makes an entry durable and applies it.
func (e *Engine) journalled(kind byte, body entry) error {
	data, err := encodeJSONEntry(kind, body)
	if err != nil {
		return err
	}
	index, err := e.journal(data)
	if err != nil {
		return err
	}
	return body.apply(e, index)
}

// fail makes the node read-only and wakes the goroutine that recovers it.
func (e *Engine) fail(doing string, err error) {
	reason := fmt.Errorf("%w: %s: %v", bulkhead.ErrReadOnly, doing, err)
	if e.failed.Swap(&reason) == nil {
		e.opts.Log.Error("reports are refused until this is fixed; checks go on", "doing", doing, "err", err)
	}
	e.wakeCheckpoint()
}

// refusing returns why reports are refused, or nil.
func (e *Engine) refusing() error {
	if p := e.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// apply applies the decisions of a batch. It skips generations that are gone by now, and pages that
// already include the entry.
func (v *votes) apply(e *Engine, index uint64) error {
	view := e.view()
	if g := view.tally.Find(v.TallyGen); g != nil {
		e.addCounts(index, g, v)
		g.Unique.SetBatch(index, v.Unique, nil)
	}
	for _, l := range v.Late {
		if g := view.block.Find(l.Gen); g != nil {
			g.Weights.AddBatch(index, l.Keys, l.N, nil)
		}
	}
	if g := view.block.Find(v.BlockGen); g != nil {
		g.Weights.AddBatch(index, v.Weights.Keys, v.Weights.N, nil)
		g.Votes.SetBatch(index, v.Voted, nil)
		g.Names.AddBatch(index, v.Names.Keys, v.Names.N, nil)
		if g.Floor > 0 {
			g.Spam.SetBatch(index, v.Spam, nil)
			g.Revoked.SetBatch(index, v.Revoked, nil)
			e.setBits(index, ArraySpam, g.Start, g.ToldSpam, v.ToldSpam)
			e.setBits(index, ArrayRevoked, g.Start, g.ToldRevoked, v.ToldRevoked)
		} else {
			e.setBits(index, ArraySpam, g.Start, g.Spam, v.Spam)
			e.setBits(index, ArrayRevoked, g.Start, g.Revoked, v.Revoked)
		}
	}
	if index > e.accountsIndex {
		for _, x := range v.Ballots {
			e.ballots.Add(x)
		}
		for _, c := range v.Credits {
			e.accounts.Credit(c)
		}
		e.accountsIndex = index
	}
	return nil
}

// replay applies one journal entry on start.
func (e *Engine) replay(index uint64, data []byte) error {
	entry, err := decodeEntry(data)
	if err != nil {
		advice := "restore a backup, or run the version that wrote it"
		if errors.Is(err, errOldEntry) {
			advice = "it comes from a backup of that version: restore it with the program that made it, start that and stop it with SIGTERM, and then start this one"
		}
		return &store.DamageError{File: "journal", What: fmt.Sprintf("entry %d: %v", index, err), Advice: advice}
	}
	if e.opts.Store.Salvaged() == nil {
		return entry.apply(e, index)
	}
	if v, ok := entry.(*votes); ok && e.orphaned(v) {
		e.doubtEntry(index)
	}
	if err := entry.apply(e, index); err != nil { // it depends on an entry that is lost
		e.opts.Log.Warn("an entry of the journal says nothing without one that is lost", "entry", index, "err", err)
		e.doubtEntry(index)
	}
	return nil
}
