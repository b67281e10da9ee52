package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
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
	TallyFrom     uint64      `json:"tally_from,omitempty"` // see rotation
	BlockFrom     uint64      `json:"block_from,omitempty"`

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
	Cold     *metaCold       `json:"cold,omitempty"` // nil if it is in memory
}

type metaCold struct {
	Version uint64 `json:"version"`
	Keys    uint64 `json:"keys"`
}

type metaTally struct {
	book.TallySpec
	CountsFile  string `json:"counts_file"`
	WeightsFile string `json:"weights_file"`
	UniqueFile  string `json:"unique_file"`
}

type metaBlock struct {
	book.BlockSpec
	SpamFile    string `json:"spam_file"`
	RevokedFile string `json:"revoked_file"`
}

const metaVersion = 1

// paged is what a checkpoint needs of an array.
type paged interface {
	Version() uint64
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
	if err := e.inTurn(context.Background(), f); err != nil {
		<-e.stopped
		f()
	}
}

// checkpointRest is how long after a failure a checkpoint is tried again at the
// earliest, however much the journal has grown.
const checkpointRest = 30 * time.Second

// maintain writes a checkpoint, or recovers from a failure. It returns false if
// the checkpoint failed.
func (e *Engine) maintain(ctx context.Context) bool {
	if e.opts.Store == nil {
		return true
	}
	if e.refusing() == nil {
		err := e.checkpoint(ctx, e.between)
		if err != nil && ctx.Err() == nil {
			// The journal still holds everything, so reports go on.
			e.opts.Log.Error("checkpoint failed; the journal is kept and grows", "err", err)
		}
		return err == nil
	}
	for wait := time.Second; e.refusing() != nil; wait = min(2*wait, 30*time.Second) {
		if err := e.recover(ctx); err != nil {
			e.opts.Log.Warn("reports are still refused", "err", err, "next_try", wait)
		}
		select {
		case <-ctx.Done():
			return true
		case <-time.After(wait):
		}
	}
	return true
}

// checkpoint writes what has changed to new files, page by page between
// batches, and lets the store replace the manifest and drop the journal before
// it.
func (e *Engine) checkpoint(ctx context.Context, between func(func())) error {
	s, err := e.snapshot(between, e.written)
	if err != nil {
		return err
	}
	if err := e.opts.Store.Checkpoint(ctx, s.start, s.meta, s.files); err != nil {
		return err
	}
	e.taken(s, between)
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
	e.taken(s, e.between)
	e.counters.recoveries.Add(1)
	e.failed.Store(nil)
	e.wakeMerge()
	e.opts.Log.Info("reports are taken again")
	return nil
}

// taken notes that the files of a snapshot are in force.
func (e *Engine) taken(s *snapshot, between func(func())) {
	e.written = s.written
	between(func() {
		for _, f := range s.cold {
			f.written(f.coldState, f.name)
		}
	})
}

// release lets go of arrays that are gone: what is noted of their files would keep
// them in memory until the next checkpoint.
func (e *Engine) release() {
	v := e.view.Load()
	live := make(map[any]bool)
	for _, g := range v.tally.Live {
		live[g.Counts], live[g.Weights], live[g.Unique] = true, true, true
	}
	for _, g := range v.block.Live {
		live[g.Spam], live[g.Revoked] = true, true
	}
	for _, r := range v.remote {
		for _, x := range r.arrays {
			live[x.memory] = true
		}
	}
	maps.DeleteFunc(e.written, func(_ string, w written) bool { return !live[w.array] })
}

// A snapshot is a checkpoint that is about to be written.
type snapshot struct {
	start   uint64 // first journal entry that the files may miss
	meta    []byte
	files   []store.File
	written map[string]written
	cold    []coldFile
}

// written is what a file holds: an array at a version, or a later one.
type written struct {
	array   paged
	version uint64
}

// A coldFile is what a file of the checkpoint has of a cold array.
type coldFile struct {
	coldState
	name string
}

// snapshot prepares a checkpoint. Pages are copied only as the files are
// written; those of arrays that the last checkpoint has as they are now are not
// copied at all.
func (e *Engine) snapshot(between func(func()), last map[string]written) (*snapshot, error) {
	s := &snapshot{written: make(map[string]written)}
	m := meta{Version: metaVersion, KeyID: e.opts.Secret.ID(), Accounts: "accounts"}
	var accounts []byte
	var err error
	var v *view
	var states map[*cold]coldState
	between(func() {
		s.start = e.opts.Store.LastIndex() + 1
		v = e.view.Load()
		accounts, err = e.book.Encode()
		m.AccountsIndex = e.accountsIndex
		e.journalBytes = 0
		states = v.coldStates()
	})
	if err != nil {
		return nil, err
	}
	add := func(kind string, start uint64, array any) string {
		file := store.File{Name: fmt.Sprintf("%s-%d", kind, start)}
		now := written{array: array.(paged)}
		now.version = now.array.Version() // before a page is copied
		if last[file.Name] != now {
			file.Write = pageWriter(now.array, between)
		}
		s.files = append(s.files, file)
		s.written[file.Name] = now
		return file.Name
	}
	m.TallyFrom, m.BlockFrom = v.tally.From, v.block.From
	for _, g := range v.tally.Live {
		m.Tally = append(m.Tally, metaTally{g.TallySpec,
			add("counts", g.Start, g.Counts), add("weights", g.Start, g.Weights), add("unique", g.Start, g.Unique)})
	}
	for _, g := range v.block.Live {
		m.Block = append(m.Block, metaBlock{g.BlockSpec, add("spam", g.Start, g.Spam), add("revoked", g.Start, g.Revoked)})
	}
	for _, r := range v.remote {
		o := metaOrigin{Origin: r.Origin, Incarnation: r.incarnation}
		for _, x := range r.arrays {
			kind := fmt.Sprintf("replica-%s-%s", r.ID, x.array)
			mark := r.marks[x.arrayKey]
			a := metaReplica{Array: x.array, Start: x.start, Geometry: x.replicated().Geometry(), Partial: mark.partial, Boot: mark.boot}
			state, leaves := states[x.cold]
			if x.memory == nil {
				a.File = e.addCold(s, fmt.Sprintf("%s-%d", kind, x.start), state, between)
				a.Cold = &metaCold{state.version, state.keys}
			} else {
				a.File = add(kind, x.start, x.memory)
				if leaves {
					s.cold = append(s.cold, coldFile{state, a.File})
				}
			}
			o.Arrays = append(o.Arrays, a)
		}
		m.Origins = append(m.Origins, o)
	}
	s.files = append(s.files, store.File{Name: m.Accounts, Write: func(w io.Writer) error {
		_, err := w.Write(accounts)
		return err
	}})
	s.meta, err = json.Marshal(m)
	return s, err
}

// coldStates returns where the cold arrays of v are, and those that leave the
// memory: their pages are written as they are by then, and none of their rounds
// is given up yet. The writer calls it.
func (v *view) coldStates() map[*cold]coldState {
	out := make(map[*cold]coldState)
	for _, r := range v.remote {
		for _, x := range r.arrays {
			switch {
			case x.cold == nil:
			case x.memory == nil:
				out[x.cold] = x.cold.now()
			default:
				out[x.cold] = coldState{cold: x.cold}
			}
		}
	}
	return out
}

// addCold adds the file of a cold array to the snapshot: the one that is there,
// unless something came since.
func (e *Engine) addCold(s *snapshot, name string, state coldState, between func(func())) string {
	file := store.File{Name: name}
	if len(state.later) > 0 || state.file != name {
		file.Write = e.coldWriter(state, between)
	}
	s.files = append(s.files, file)
	s.cold = append(s.cold, coldFile{state, name})
	return name
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
