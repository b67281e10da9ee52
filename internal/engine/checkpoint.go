package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// meta is the engine's data in the manifest of a checkpoint.
type meta struct {
	Version       int         `json:"version"`
	KeyID         uint64      `json:"key_id"` // of the network's secret
	Tally         []metaTally `json:"tally"`
	Block         []metaBlock `json:"blocklist"`
	Accounts      string      `json:"accounts"`          // file
	Ballots       string      `json:"ballots,omitempty"` // file; an older version has none
	AccountsIndex uint64      `json:"accounts_index"`
	TallyFrom     uint64      `json:"tally_from,omitempty"` // see rotation
	BlockFrom     uint64      `json:"block_from,omitempty"`

	// Clock is the time by which generations open, Unix seconds; absent in older versions.
	Clock uint64 `json:"clock,omitempty"`

	Origins []replica.Stored `json:"origins,omitempty"`

	Doubts []Doubt `json:"doubts,omitempty"` // since a salvage
	Wounds string  `json:"wounds,omitempty"` // file
}

type metaTally struct {
	book.TallySpec
	Votes      uint64 `json:"votes,omitempty"` // in version 1: now UniqueCapacity
	CountsFile string `json:"counts_file"`
	UniqueFile string `json:"unique_file"`
}

type metaBlock struct {
	book.BlockSpec
	SpamFile    string `json:"spam_file"`
	RevokedFile string `json:"revoked_file"`
	WeightsFile string `json:"weights_file"` // this and what follows: not in version 1
	VotesFile   string `json:"votes_file"`
	NamesFile   string `json:"names_file"`
	// With a floor, SpamFile and RevokedFile hold the filters that peers see, and these files hold
	// the filters that the node acts upon.
	ListedFile   string `json:"listed_file,omitempty"`
	UnlistedFile string `json:"unlisted_file,omitempty"`
}

// With a floor, these are the arrays of the signatures that the node itself lists and takes off.
// The arrays "spam" and "revoked" then have the part that peers see.
const (
	listedArray   = "listed"
	unlistedArray = "unlisted"
)

// metaVersion is 2 since votes are in the generations of the blocklist; see meta.convert
// for version 1.
const metaVersion = 2

func (e *Engine) wakeCheckpoint() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// between runs f on the writer's goroutine, between two batches.
func (e *Engine) between(f func()) {
	// If the writer has stopped, nothing changes, and f may run here.
	if err := e.inTurn(context.Background(), f); err != nil {
		<-e.stopped
		f()
	}
}

// checkpointRest is the minimum time between a failed checkpoint and the next, regardless of the
// journal's size.
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
			// The journal still holds everything, so reports are still accepted.
			e.opts.Log.Error("checkpoint failed; the journal is kept and grows", "err", err)
		}
		return err == nil
	}
	for wait := time.Second; ; wait = min(2*wait, checkpointRest) {
		err := e.recover(ctx)
		if err == nil {
			return true
		}
		e.opts.Log.Warn("reports are still refused", "err", err, "next_try", wait)
		select {
		case <-ctx.Done():
			return true
		case <-time.After(wait):
		}
	}
}

// checkpoint writes changed arrays to new files, page by page between batches. The store then
// replaces the manifest and drops the older journal.
func (e *Engine) checkpoint(ctx context.Context, between func(func())) error {
	e.writtenMu.Lock()
	defer e.writtenMu.Unlock()
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
	e.writtenMu.Lock()
	defer e.writtenMu.Unlock()
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
	e.replicas.Wake()
	e.opts.Log.Info("reports are accepted again")
	return nil
}

// taken records that the files of a snapshot are in force.
func (e *Engine) taken(s *snapshot, between func(func())) {
	e.written = s.written
	between(s.remote.Written)
}

// release drops references to removed arrays, which would otherwise stay in memory until the next
// checkpoint.
func (e *Engine) release() {
	v := e.view()
	live := make(map[any]bool)
	for _, g := range v.tally.Live {
		live[g.Counts], live[g.Unique] = true, true
	}
	for _, g := range v.block.Live {
		for _, array := range []any{g.Spam, g.Revoked, g.Weights, g.Votes, g.Names, g.ToldSpam, g.ToldRevoked} {
			live[array] = true
		}
	}
	v.remote.Each(func(array any) { live[array] = true })
	e.writtenMu.Lock()
	defer e.writtenMu.Unlock()
	maps.DeleteFunc(e.written, func(_ string, w written) bool { return !live[w.array] })
}

// A snapshot is a checkpoint that is about to be written.
type snapshot struct {
	start   uint64 // first journal entry that the files may miss
	meta    []byte
	files   []store.File
	written map[string]written
	remote  *replica.Snapshot
}

// written is the content of a file: an array at a version, or a later one.
type written struct {
	array   pages.Array
	version uint64
}

// snapshot prepares a checkpoint. Pages are copied only as the files are written; arrays
// unchanged since the last checkpoint are not copied at all.
func (e *Engine) snapshot(between func(func()), last map[string]written) (*snapshot, error) {
	s := &snapshot{written: make(map[string]written)}
	m := meta{Version: metaVersion, Accounts: "accounts", Ballots: "ballots"}
	var accounts, ballots, wounds []byte
	var err error
	var v view
	between(func() {
		s.start = e.opts.Store.LastIndex() + 1
		v = e.view()
		m.KeyID = v.secrets.IDs[0]
		accounts, err = e.accounts.Encode()
		m.AccountsIndex = e.accountsIndex
		ballots = e.ballots.Encode()
		e.journalBytes = 0
		m.Clock = uint64(max(0, e.clock.now().Unix()))
		s.remote = e.replicas.Snapshot()
		m.Doubts = e.Doubts()
		if e.wounds != nil {
			wounds = e.wounds.encode()
		}
	})
	if err != nil {
		return nil, err
	}
	add := func(name string, array pages.Array) {
		file := store.File{Name: name}
		now := written{array: array}
		now.version = now.array.Version() // before a page is copied
		if last[file.Name] != now {
			file.Write = pages.Writer(now.array, between)
		}
		s.files = append(s.files, file)
		s.written[file.Name] = now
	}
	own := func(kind string, start uint64, array any) string {
		name := fmt.Sprintf("%s-%d", kind, start)
		add(name, array.(pages.Array))
		if file := &s.files[len(s.files)-1]; shared(kind) {
			sums := store.File{Name: sumsOf(name)}
			if file.Write != nil {
				// The store writes files in the order of their names: the sums after the pages.
				file.Write, sums.Write = pages.Summed(array.(pages.Array), between)
			}
			s.files = append(s.files, sums)
		}
		return name
	}
	m.TallyFrom, m.BlockFrom = v.tally.From, v.block.From
	for _, g := range v.tally.Live {
		m.Tally = append(m.Tally, metaTally{TallySpec: g.TallySpec, CountsFile: own("counts", g.Start, g.Counts),
			UniqueFile: own("unique", g.Start, g.Unique)})
	}
	for _, g := range v.block.Live {
		spam, revoked := g.Shared()
		b := metaBlock{BlockSpec: g.BlockSpec, SpamFile: own("spam", g.Start, spam),
			RevokedFile: own("revoked", g.Start, revoked),
			WeightsFile: own("weights", g.Start, g.Weights), VotesFile: own("votes", g.Start, g.Votes),
			NamesFile: own("names", g.Start, g.Names)}
		if g.Floor > 0 {
			b.ListedFile, b.UnlistedFile = own(listedArray, g.Start, g.Spam), own(unlistedArray, g.Start, g.Revoked)
		}
		m.Block = append(m.Block, b)
	}
	m.Origins = s.remote.Origins(between, add, func(name string, write func(io.Writer) error) {
		s.files = append(s.files, store.File{Name: name, Write: write})
	})
	small := map[string][]byte{m.Accounts: accounts, m.Ballots: ballots}
	if wounds != nil {
		m.Wounds = "wounds"
		small[m.Wounds] = wounds
	}
	for name, data := range small {
		s.files = append(s.files, store.File{Name: name, Write: func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}})
	}
	s.meta, err = json.Marshal(m)
	return s, err
}

// mergeRest is the time between a failed merge and the next try.
const mergeRest = 30 * time.Second

// merge merges arrays of replicas that have no memory of their own. It runs in the goroutine that
// writes checkpoints, because these replace the files that it reads.
func (e *Engine) merge(ctx context.Context) error {
	if e.refusing() != nil {
		return e.replicas.Merge(ctx, e.between, nil)
	}
	return e.replicas.Merge(ctx, e.between, func(ctx context.Context) error { return e.checkpoint(ctx, e.between) })
}
