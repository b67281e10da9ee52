package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
)

// load restores the last checkpoint and replays the journal after it.
func (e *Engine) load(ctx context.Context) error {
	manifest := e.opts.Store.Manifest()
	if len(manifest.Meta) > 0 {
		if err := e.loadCheckpoint(manifest.Meta); err != nil {
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
		if err := e.settle(ctx); err != nil {
			return err
		}
	}
	if e.beginAgeing(); !e.held {
		e.replicas.DropExpired()
	}
	if err := e.replicas.ThawAll(); err != nil {
		return err
	}
	e.replicas.Wake() // a limit may be new
	e.replicas.Crowd()
	return e.replicas.Merge(ctx, func(f func()) { f() }, nil)
}

func (e *Engine) loadCheckpoint(data []byte) error {
	var m meta
	if err := json.Unmarshal(data, &m); err != nil {
		return pages.Damaged("manifest", err)
	}
	if err := m.convert(e.block); err != nil {
		return err
	}
	if err := e.checkKey(m.KeyID); err != nil {
		return err
	}
	v := &books{tally: book.Book[*book.Tally]{From: m.TallyFrom}, block: book.Book[*book.Block]{From: m.BlockFrom}, secrets: e.books.Load().secrets}
	for _, t := range m.Tally {
		if err := e.checkKey(t.CountsGeometry.KeyID); err != nil {
			return err
		}
		g, err := e.tally.Make(t.TallySpec)
		if err != nil {
			return err
		}
		if err := e.loadArrays(named{t.CountsFile, g.Counts}, named{t.UniqueFile, g.Unique}); err != nil {
			return err
		}
		v.tally = v.tally.With(g)
	}
	for _, b := range m.Block {
		if err := e.checkKey(b.SpamGeometry.KeyID); err != nil {
			return err
		}
		g, err := e.block.Make(b.BlockSpec)
		if err != nil {
			return err
		}
		spam, revoked := g.Shared()
		err = e.loadArrays(named{b.SpamFile, spam}, named{b.RevokedFile, revoked}, named{b.ListedFile, g.Spam}, named{b.UnlistedFile, g.Revoked},
			named{b.WeightsFile, g.Weights}, named{b.VotesFile, g.Votes}, named{b.NamesFile, g.Names})
		if err != nil {
			return err
		}
		v.block = v.block.With(g)
	}
	e.books.Store(v)
	e.stored = m.Clock
	if err := e.replicas.Load(m.Origins); err != nil {
		return err
	}
	if len(m.Doubts) > 0 {
		e.doubts.Store(&m.Doubts)
	}
	if err := e.loadWounds(m); err != nil {
		return err
	}
	if err := e.loadAccounts(m); err != nil {
		return err
	}
	return e.loadBallots(m)
}

// convert converts m from an older version. In version 1 votes were in the tally's
// generations and are dropped: what they listed stays listed until somebody objects.
func (m *meta) convert(block *book.BlockKeeper) error {
	if m.Version == metaVersion {
		return nil
	}
	if m.Version != 1 {
		return fmt.Errorf("engine: the data directory is of version %d, this program reads 1 and %d", m.Version, metaVersion)
	}
	for i := range m.Tally {
		m.Tally[i].UniqueCapacity = m.Tally[i].Votes
	}
	for i := range m.Block {
		b := &m.Block[i]
		had := b.BlockSpec
		spec, err := block.Least(had.Start)
		if err != nil {
			return err
		}
		spec.Capacity, spec.SpamGeometry, spec.RevokedGeometry = had.Capacity, had.SpamGeometry, had.RevokedGeometry
		b.BlockSpec = spec
	}
	return nil
}

// checkKey refuses data written with another network's key.
func (e *Engine) checkKey(written uint64) error {
	if e.books.Load().secrets.Knows(written) {
		return nil
	}
	return fmt.Errorf("engine: %w: the data directory belongs to network key %016x, the key given is %016x", bulkhead.ErrGeometry, written, e.opts.Secret.ID())
}

func (e *Engine) loadAccounts(m meta) error {
	data, err := e.readFile(m.Accounts)
	if data == nil {
		return err
	}
	if err := e.accounts.Decode(data); err != nil {
		return pages.Damaged(m.Accounts, err)
	}
	e.accountsIndex = m.AccountsIndex
	return nil
}

func (e *Engine) loadBallots(m meta) error {
	if m.Ballots == "" {
		return nil
	}
	data, err := e.readFile(m.Ballots)
	if data == nil {
		return err
	}
	if err := e.ballots.Decode(data); err != nil {
		return pages.Damaged(m.Ballots, err)
	}
	return nil
}

// loadWounds reads what it takes to make lost pages whole. If that is lost, too, they stay
// as they are.
func (e *Engine) loadWounds(m meta) error {
	if m.Wounds == "" {
		return nil
	}
	data, err := e.readFile(m.Wounds)
	if data == nil {
		return err
	}
	if e.wounds, err = decodeWounds(data); err != nil {
		return pages.Damaged(m.Wounds, err)
	}
	return nil
}

// readFile returns nil without an error for a file that is lost; see [Engine.salvage].
func (e *Engine) readFile(name string) ([]byte, error) {
	if n := e.opts.Store.Salvaged(); n != nil && n.Damaged(name) {
		data, _ := n.Whole(name)
		return data, nil
	}
	f, err := e.opts.Store.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return data, nil
}

// named is an array and its checkpoint file.
type named struct {
	file  string
	array any
}

func (e *Engine) loadArrays(arrays ...named) error {
	for _, a := range arrays {
		if a.file == "" {
			continue // of an older version, see meta.convert, or without a floor
		}
		if err := pages.Load(e.opts.Store, a.file, a.array.(pages.Array)); err != nil {
			return err
		}
	}
	return nil
}
