package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

const (
	maxBatch  = 2048    // reports in one journal entry
	maxVotes  = 1 << 16 // signatures in one journal entry, from which no further report joins
	queueSize = 8192    // reports that wait for the writer; more wait in their callers
)

// A request is something that the writer does: take a report, count, change an
// account, or run a function between two batches.
type request struct {
	report  *bulkhead.Report
	receipt bulkhead.Receipt
	count   *countChange
	account *accountChange
	origins *originsChange
	remote  *remoteChange
	forget  *forgetChange
	renew   *renewChange
	run     func()
	err     error
	done    chan struct{}
}

func (r *request) signatures() int {
	switch {
	case r.report != nil:
		return len(r.report.Signatures)
	case r.count != nil:
		return len(r.count.cells)
	}
	return 0
}

// submit hands a request to the writer and waits until it is done. A report
// whose caller gives up is counted or not, like one whose answer got lost.
func (e *Engine) submit(ctx context.Context, req *request) error {
	req.done = make(chan struct{})
	select {
	case e.queue <- req:
	case <-e.closing:
		return errClosing
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-req.done:
		return req.err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stopped:
		// The writer may have answered just before it stopped.
		select {
		case <-req.done:
			return req.err
		default:
			return errClosing
		}
	}
}

// inTurn has the writer run f between two batches, and waits for it. If it
// returns an error f has not run and never will: a caller that gives up while f
// runs still has its result.
func (e *Engine) inTurn(ctx context.Context, f func()) error {
	var claimed atomic.Bool // by the writer, which runs f, or by the caller, who does not want it any more
	req := &request{run: func() {
		if claimed.CompareAndSwap(false, true) {
			f()
		}
	}}
	err := e.submit(ctx, req)
	if err == nil || claimed.CompareAndSwap(false, true) {
		return err
	}
	<-req.done
	return nil
}

var errClosing = fmt.Errorf("%w: the node is shutting down", bulkhead.ErrReadOnly)

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

// gather adds to batch what else waits: the reports that came in while the
// last entry was being made durable share the next one.
func (e *Engine) gather(batch []*request) []*request {
	n := 0
	for _, req := range batch {
		n += req.signatures()
	}
	for len(batch) < maxBatch && n < maxVotes {
		select {
		case req := <-e.queue:
			batch = append(batch, req)
			n += req.signatures()
		default:
			return batch
		}
	}
	return batch
}

// drain serves what was queued before the engine began to close.
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
		// With relaxed durability the store syncs, and fails, by itself.
		if err := e.opts.Store.Err(); errors.Is(err, store.ErrFailed) {
			e.fail("sync journal", err)
		}
	}
	if err := e.rotate(); err != nil {
		e.fail("open generation", err)
	}
	var reports []*request
	for _, req := range batch {
		if req.report != nil || req.count != nil {
			reports = append(reports, req)
			continue
		}
		req.err = e.change(req)
		close(req.done)
	}
	if len(reports) > 0 {
		e.takeReports(reports)
	}
}

// change serves a request that is not a report.
func (e *Engine) change(req *request) error {
	switch {
	case req.account != nil:
		return e.changeAccount(req.account)
	case req.origins != nil:
		return e.changeOrigins(req.origins)
	case req.remote != nil:
		return e.changeRemote(req.remote)
	case req.forget != nil:
		return e.changeForget(req.forget)
	case req.renew != nil:
		return e.changeRenew(req.renew)
	}
	req.run()
	return nil
}

func (e *Engine) takeReports(reports []*request) {
	v := e.view.Load()
	if err := e.refusing(); err != nil {
		for _, req := range reports {
			e.answer(req, err)
		}
		return
	}
	e.resolver.begin(v)
	for _, req := range reports {
		if c := req.count; c != nil {
			// No decision hangs on a sighting: it needs no look at the arrays.
			e.resolver.out.cells = append(e.resolver.out.cells, c.cells...)
			e.resolver.out.n = append(e.resolver.out.n, c.n...)
			continue
		}
		req.receipt, req.err = e.resolver.report(req.report)
	}
	out := &e.resolver.out
	if !out.empty() {
		e.buf = out.appendEntry(e.buf[:0])
		index, err := e.journal(e.buf)
		if err != nil {
			for _, req := range reports {
				e.answer(req, err)
			}
			return
		}
		e.applyVotes(index, out)
	}
	for _, req := range reports {
		e.answer(req, req.err)
	}
}

func (e *Engine) answer(req *request, err error) {
	req.err = err
	if err != nil {
		req.receipt = bulkhead.Receipt{}
		e.counters.refused.Add(1)
	} else {
		e.counters.reports.Add(1)
	}
	close(req.done)
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
	e.index = index
	e.counters.entries.Add(1)
	e.journalBytes += uint64(len(entry))
	if e.journalBytes >= e.opts.CheckpointBytes {
		e.wakeCheckpoint()
	}
	return index, nil
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

// rotate opens and drops generations when they are due.
func (e *Engine) rotate() error {
	if e.refusing() != nil || e.opts.Still && len(e.view.Load().tally.Live) > 0 {
		return nil
	}
	v, now := e.view.Load(), e.opts.Now()
	tally, err := e.tally.Plan(v.tally, now)
	if err != nil {
		return err
	}
	block, err := e.block.Plan(v.block, now)
	if err != nil || tally.Empty() && block.Empty() {
		return err
	}
	r := &rotation{
		OpenTally: tally.Open, DropTally: tally.Drop, TallyFrom: tally.From,
		OpenBlock: block.Open, DropBlock: block.Drop, BlockFrom: block.From,
	}
	entry, err := encodeJSONEntry(entryRotation, r)
	if err != nil {
		return err
	}
	if _, err := e.journal(entry); err != nil {
		return nil // journal has said why
	}
	if err := e.applyRotation(r); err != nil {
		return err
	}
	e.dropExpiredReplicas()
	e.counters.forgotten.Add(e.tally.GivenUp(tally, now) + e.block.GivenUp(block, now))
	e.opts.Log.Info("generations rotated", "opened_tally", r.OpenTally != nil, "opened_blocklist", r.OpenBlock != nil,
		"dropped_tally", len(r.DropTally), "dropped_blocklist", len(r.DropBlock))
	return nil
}

func (e *Engine) applyRotation(r *rotation) (err error) {
	next := e.view.Load().clone()
	if next.tally, err = e.tally.Apply(next.tally, r.tally()); err != nil {
		return err
	}
	if next.block, err = e.block.Apply(next.block, r.block()); err != nil {
		return err
	}
	e.view.Store(next)
	return nil
}

// applyVotes applies a durable votes entry. Generations that are gone by now
// take nothing; pages that have seen the entry skip it.
func (e *Engine) applyVotes(index uint64, v *votes) {
	view := e.view.Load()
	if g := view.tally.Find(v.tallyGen); g != nil {
		e.addCounts(index, g, v)
		g.Weights.AddBatch(index, v.weighed, v.w, nil)
		g.Unique.SetBatch(index, v.unique, nil)
	}
	for _, l := range v.late {
		if g := view.tally.Find(l.gen); g != nil {
			g.Weights.AddBatch(index, l.keys, l.n, nil)
		}
	}
	if g := view.block.Find(v.blockGen); g != nil {
		e.setBits(index, ArraySpam, g.Start, g.Spam, v.spam)
		e.setBits(index, ArrayRevoked, g.Start, g.Revoked, v.revoked)
	}
	if index > e.accountsIndex {
		for _, c := range v.credits {
			e.book.Credit(c.account, c.confirmed, c.reverted)
		}
		e.accountsIndex = index
	}
}

func (e *Engine) changeAccount(c *accountChange) error {
	if err := e.refusing(); err != nil {
		return err
	}
	if c.Put != nil {
		// Refuse before the journal has it what Put would refuse after.
		if err := e.book.Admits(*c.Put); err != nil {
			return err
		}
	} else if _, ok := e.book.Get(c.Remove); !ok {
		return fmt.Errorf("%w: no account %.*q", bulkhead.ErrMalformed, 128, c.Remove)
	}
	entry, err := encodeJSONEntry(entryAccount, c)
	if err != nil {
		return err
	}
	index, err := e.journal(entry)
	if err != nil {
		return err
	}
	return e.applyAccount(index, c)
}

func (e *Engine) applyAccount(index uint64, c *accountChange) error {
	if index <= e.accountsIndex {
		return nil
	}
	e.accountsIndex = index
	e.resolver.members = nil
	if c.Put != nil {
		return e.book.Put(*c.Put)
	}
	e.book.Remove(c.Remove)
	return nil
}

// replay applies one journal entry on start.
func (e *Engine) replay(index uint64, entry []byte) error {
	e.index = index
	body, err := decodeEntry(entry)
	if err != nil {
		return &store.DamageError{File: "journal", What: fmt.Sprintf("entry %d: %v", index, err), Advice: "restore a backup, or run the version that wrote it"}
	}
	switch b := body.(type) {
	case *votes:
		e.applyVotes(index, b)
	case *rotation:
		// Before the first checkpoint, nothing else knows the key.
		if b.OpenTally != nil {
			if err := e.checkKey(b.OpenTally.CountsGeometry.KeyID); err != nil {
				return err
			}
		}
		return e.applyRotation(b)
	case *accountChange:
		return e.applyAccount(index, b)
	case *originsChange:
		e.applyOrigins(b)
	case *forgetChange:
		e.applyForget(b)
	case *renewChange:
		e.applyRenew(b)
	case *remoteChange:
		parts, err := e.parseParts(b.Parts)
		if err != nil {
			return err
		}
		return e.applyRemote(index, b.Origin, parts, true)
	}
	return nil
}
