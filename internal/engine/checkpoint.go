package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// meta is what the manifest of a checkpoint says of the engine.
type meta struct {
	Version       int         `json:"version"`
	KeyID         uint64      `json:"key_id"` // of the network's secret
	Tally         []metaTally `json:"tally"`
	Block         []metaBlock `json:"blocklist"`
	Accounts      string      `json:"accounts"` // file
	AccountsIndex uint64      `json:"accounts_index"`

	Origins []metaOrigin `json:"origins,omitempty"`
}

type metaOrigin struct {
	Origin
	Incarnation uint64        `json:"incarnation,omitempty"`
	Arrays      []metaReplica `json:"arrays"`
}

type metaReplica struct {
	Array    Array           `json:"array"`
	Start    uint64          `json:"start"`
	Geometry filter.Geometry `json:"geometry"`
	File     string          `json:"file"`
	Partial  uint64          `json:"partial,omitempty"` // see ArrayState
	Boot     uint64          `json:"boot,omitempty"`
}

type metaTally struct {
	tallySpec
	CountsFile  string `json:"counts_file"`
	WeightsFile string `json:"weights_file"`
	UniqueFile  string `json:"unique_file"`
}

type metaBlock struct {
	blockSpec
	SpamFile    string `json:"spam_file"`
	RevokedFile string `json:"revoked_file"`
}

const metaVersion = 1

// paged is what a checkpoint needs of an array.
type paged interface {
	Geometry() filter.Geometry
	AppendPage(dst []byte, page int) []byte
	LoadPage(b []byte) (page int, err error)
}

func (e *Engine) wakeCheckpoint() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// between runs f on the writer's goroutine, between two batches.
func (e *Engine) between(f func()) {
	// The writer may have stopped: then nobody changes anything, and f may run
	// here.
	if err := e.submit(context.Background(), &request{run: f}); err != nil {
		<-e.stopped
		f()
	}
}

// maintain writes a checkpoint, or recovers from a failure.
func (e *Engine) maintain(ctx context.Context) {
	if e.opts.Store == nil {
		return
	}
	if e.refusing() == nil {
		if err := e.checkpoint(ctx, e.between); err != nil && ctx.Err() == nil {
			// The journal still holds everything, so reports go on.
			e.opts.Log.Error("checkpoint failed; the journal is kept and grows", "err", err)
		}
		return
	}
	for wait := time.Second; e.refusing() != nil; wait = min(2*wait, 30*time.Second) {
		if err := e.recover(ctx); err != nil {
			e.opts.Log.Warn("reports are still refused", "err", err, "next_try", wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// checkpoint writes what has changed to new files, page by page between
// batches, and lets the store replace the manifest and drop the journal before
// it.
func (e *Engine) checkpoint(ctx context.Context, between func(func())) error {
	s, err := e.snapshot(between, e.sealed)
	if err != nil {
		return err
	}
	if err := e.opts.Store.Checkpoint(ctx, s.start, s.meta, s.files); err != nil {
		return err
	}
	e.sealed = s.sealed
	e.counters.checkpoints.Add(1)
	return nil
}

// recover writes everything to new files and starts a fresh journal.
func (e *Engine) recover(ctx context.Context) error {
	s, err := e.snapshot(e.between, nil)
	if err != nil {
		return err
	}
	if err := e.opts.Store.Recover(ctx, s.start, s.meta, s.files); err != nil {
		return err
	}
	e.sealed = s.sealed
	e.counters.recoveries.Add(1)
	e.failed.Store(nil)
	e.opts.Log.Info("reports are taken again")
	return nil
}

// A snapshot is a checkpoint that is about to be written.
type snapshot struct {
	start  uint64 // first journal entry that the files may miss
	meta   []byte
	files  []store.File
	sealed map[string]bool
}

// snapshot prepares a checkpoint. Pages are copied only as the files are
// written; those of the sealed files are not copied at all.
func (e *Engine) snapshot(between func(func()), sealed map[string]bool) (*snapshot, error) {
	s := &snapshot{sealed: make(map[string]bool)}
	m := meta{Version: metaVersion, KeyID: e.opts.Secret.ID(), Accounts: "accounts"}
	var accounts []byte
	var err error
	var v *view
	between(func() {
		s.start = e.opts.Store.LastIndex() + 1
		v = e.view.Load()
		accounts, err = e.book.Encode()
		m.AccountsIndex = e.accountsIndex
		e.journalBytes = 0
	})
	if err != nil {
		return nil, err
	}
	add := func(kind string, start uint64, array any, closed bool) string {
		name := fmt.Sprintf("%s-%d", kind, start)
		file := store.File{Name: name}
		if !sealed[name] {
			file.Write = pageWriter(array.(paged), between)
		}
		s.files = append(s.files, file)
		if closed {
			s.sealed[name] = true
		}
		return name
	}
	for i, g := range v.tally {
		m.Tally = append(m.Tally, metaTally{g.tallySpec,
			add("counts", g.Start, g.counts, i > 0), add("weights", g.Start, g.weights, i > 0), add("unique", g.Start, g.unique, i > 0)})
	}
	for i, g := range v.block {
		m.Block = append(m.Block, metaBlock{g.blockSpec, add("spam", g.Start, g.spam, i > 0), add("revoked", g.Start, g.revoked, i > 0)})
	}
	for _, r := range v.remote {
		o := metaOrigin{Origin: r.Origin, Incarnation: r.incarnation}
		r.each(func(a Array, start uint64, array replicated) {
			// An origin may send more of an old generation at any time.
			file := add(fmt.Sprintf("replica-%s-%s", r.ID, a), start, array, false)
			m := r.marks[arrayKey{a, start}]
			o.Arrays = append(o.Arrays, metaReplica{a, start, array.Geometry(), file, m.partial, m.boot})
		})
		m.Origins = append(m.Origins, o)
	}
	s.files = append(s.files, store.File{Name: m.Accounts, Write: func(w io.Writer) error {
		_, err := w.Write(accounts)
		return err
	}})
	s.meta, err = json.Marshal(m)
	return s, err
}

// pagesAtOnce is how many pages are copied between two batches: about 100
// microseconds of the writer's time.
const pagesAtOnce = 16

// pageWriter returns a function that writes every page of an array, each
// preceded by its length.
func pageWriter(array paged, between func(func())) func(io.Writer) error {
	return func(w io.Writer) error {
		var buf []byte
		pages := array.Geometry().Pages()
		for page := 0; page < pages; page += pagesAtOnce {
			buf = buf[:0]
			between(func() {
				for p := page; p < min(page+pagesAtOnce, pages); p++ {
					buf = appendSized(buf, func(b []byte) []byte { return array.AppendPage(b, p) })
				}
			})
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
		return nil
	}
}
