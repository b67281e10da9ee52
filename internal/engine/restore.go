package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/heal"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// load restores the last checkpoint and replays the journal after it.
func (e *Engine) load(ctx context.Context) error {
	manifest := e.opts.Store.Manifest()
	var clock uint64 // time of the checkpoint, Unix seconds; 0 if it has none
	if len(manifest.Meta) > 0 {
		if err := e.loadCheckpoint(manifest.Meta, &clock); err != nil {
			return err
		}
	}
	salvaged := e.opts.Store.Salvaged()
	if salvaged != nil {
		if err := e.salvage(salvaged); err != nil {
			return err
		}
	}
	if err := e.opts.Store.Replay(ctx, manifest.Start, e.replay); err != nil {
		return err
	}
	if salvaged != nil {
		e.journal.link = 0
		if err := e.settle(ctx); err != nil {
			return err
		}
	}
	books := e.current.Books()
	for _, start := range slices.Concat(books.Tally.Starts(), books.Block.Starts()) {
		clock = max(clock, start)
	}
	if e.clock.begin(clock); !e.clock.held {
		e.replicas.DropExpired()
	}
	if err := e.replicas.ThawAll(); err != nil {
		return err
	}
	e.replicas.Wake() // a limit may be new
	e.replicas.Crowd()
	return e.replicas.Merge(ctx, func(f func()) { f() }, nil)
}

// loadCheckpoint loads the files of a checkpoint with the given manifest, and sets its time.
func (e *Engine) loadCheckpoint(data []byte, clock *uint64) error {
	var m codec.Meta
	if err := json.Unmarshal(data, &m); err != nil {
		return pages.Damaged("manifest", err)
	}
	if err := m.Convert(e.writer.block); err != nil {
		return err
	}
	if m.Version != codec.MetaVersion {
		e.journal.wakeCheckpoint() // a store of this version's entries on an older checkpoint is of use to neither
	}
	if err := e.checkKey(m.KeyID); err != nil {
		return err
	}
	books := &view.Books{Secrets: e.current.Books().Secrets}
	books.Tally.From, books.Block.From = m.TallyFrom, m.BlockFrom
	for i := range m.Tally {
		g, err := e.loadTally(&m.Tally[i])
		if err != nil {
			return err
		}
		books.Tally = books.Tally.With(g)
	}
	for i := range m.Block {
		g, err := e.loadBlock(&m.Block[i])
		if err != nil {
			return err
		}
		books.Block = books.Block.With(g)
	}
	e.current.Set(books)
	if err := e.replicas.Load(m.Origins); err != nil {
		return err
	}
	if err := e.healer.Load(&m); err != nil {
		return err
	}
	if err := e.loadAccounts(&m); err != nil {
		return err
	}
	*clock = m.Clock
	e.clock.wrong.Store(m.Wrong)
	e.role.term.Store(&m.Term)
	if e.opts.Shared != nil {
		e.journal.link = m.Link
	}
	return errors.Join(e.loadBallots(&m), e.loadLearned(m.Learned))
}

// loadLearned loads what the node has learnt, unless it learns no longer. m is nil if it had not learnt.
func (e *Engine) loadLearned(m *learned.Manifest) error {
	if m == nil || !e.learned.On() {
		return nil
	}
	if err := e.learned.Restore(m); err != nil {
		return err
	}
	for i, g := range e.learned.Live() {
		if err := e.loadArrays(named{m.Generations[i].File, g.Counts}); err != nil {
			return err
		}
	}
	data, err := heal.ReadFile(e.opts.Store, m.Messages)
	if data == nil {
		return err
	}
	if err := e.learned.DecodeMessages(data); err != nil {
		return pages.Damaged(m.Messages, err)
	}
	return nil
}

func (e *Engine) loadTally(t *codec.TallyMeta) (*book.Tally, error) {
	if err := e.checkKey(t.CountsGeometry.KeyID); err != nil {
		return nil, err
	}
	g, err := e.writer.tally.Make(t.TallySpec)
	if err != nil {
		return nil, err
	}
	return g, e.loadArrays(named{t.CountsFile, g.Counts}, named{t.UniqueFile, g.Unique})
}

func (e *Engine) loadBlock(b *codec.BlockMeta) (*book.Block, error) {
	if err := e.checkKey(b.SpamGeometry.KeyID); err != nil {
		return nil, err
	}
	g, err := e.writer.block.Make(b.BlockSpec)
	if err != nil {
		return nil, err
	}
	spam, revoked := g.Shared()
	return g, e.loadArrays(named{b.SpamFile, spam}, named{b.RevokedFile, revoked}, named{b.ListedFile, g.Spam},
		named{b.UnlistedFile, g.Revoked}, named{b.WeightsFile, g.Weights}, named{b.VotesFile, g.Votes},
		named{b.NamesFile, g.Names})
}

func (e *Engine) loadAccounts(m *codec.Meta) error {
	data, err := heal.ReadFile(e.opts.Store, m.Accounts)
	if data == nil {
		return err
	}
	if err := e.accounts.Decode(data); err != nil {
		return pages.Damaged(m.Accounts, err)
	}
	e.writer.accountsIndex = m.AccountsIndex
	return nil
}

func (e *Engine) loadBallots(m *codec.Meta) error {
	if m.Ballots == "" {
		return nil
	}
	data, err := heal.ReadFile(e.opts.Store, m.Ballots)
	if data == nil {
		return err
	}
	if err := e.ballots.Decode(data); err != nil {
		return pages.Damaged(m.Ballots, err)
	}
	return nil
}

// named is an array and its checkpoint file.
type named struct {
	file  string
	array any
}

func (e *Engine) loadArrays(arrays ...named) error {
	for _, a := range arrays {
		if a.file == "" {
			continue // of an older version, see [codec.Meta.Convert], or without a floor
		}
		if err := pages.Load(e.opts.Store, a.file, a.array.(pages.Array)); err != nil {
			return err
		}
	}
	return nil
}

// replay applies one journal entry on start.
func (e *Engine) replay(index uint64, data []byte) error {
	entry, err := codec.Decode(data)
	if err != nil {
		if errors.Is(err, codec.ErrNewer) {
			return fmt.Errorf("%w: entry %d: %v; start the program that wrote it, or restore a backup of this version",
				store.ErrNewer, index, err)
		}
		advice := "restore a backup, or run the version that wrote it"
		if errors.Is(err, codec.ErrOldEntry) {
			advice = "it comes from a backup of that version: restore it with the program that made it, " +
				"start that and stop it with SIGTERM, and then start this one"
		}
		return &store.DamageError{File: "journal", What: fmt.Sprintf("entry %d: %v", index, err), Advice: advice}
	}
	e.journal.passed(index, data)
	if e.opts.Store.Salvaged() == nil {
		return e.apply(index, entry)
	}
	if v, ok := entry.(*codec.Votes); ok && e.healer.Orphaned(v) {
		e.healer.DoubtEntry(index)
	}
	if err := e.apply(index, entry); err != nil { // it depends on an entry that is lost
		e.opts.Log.Warn("journal entry skipped", "entry", index, "err", err,
			"reason", "it depends on an entry that was lost")
		e.healer.DoubtEntry(index)
	}
	return nil
}

// salvage records what a damaged store has lost, and takes lost data from opts.Refill if it is there.
func (e *Engine) salvage(n *store.Inspection) error {
	state := e.state()
	var backup *heal.State
	if e.opts.Refill != nil {
		b := e.opts.Refill.From.state()
		b.Index = e.opts.Refill.Index
		backup = &b
	}
	err := e.healer.Salvage(n, &state, backup)
	e.writer.accountsIndex = state.Index
	return err
}

// state returns the data of the node that a backup can replace.
func (e *Engine) state() heal.State {
	return heal.State{Books: e.current.Books(), Accounts: e.accounts, Ballots: e.ballots, Index: e.writer.accountsIndex}
}
