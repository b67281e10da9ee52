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

// load restores the last checkpoint and replays the journal since.
func (e *Engine) load(ctx context.Context) error {
	manifest := e.opts.Store.Manifest()
	if len(manifest.Meta) > 0 {
		if err := e.loadCheckpoint(manifest.Meta); err != nil {
			return err
		}
	}
	e.index = max(e.index, manifest.Start-min(manifest.Start, 1))
	if err := e.opts.Store.Replay(ctx, manifest.Start, e.replay); err != nil {
		return err
	}
	e.replicas.DropExpired()
	if err := e.replicas.ThawAll(); err != nil {
		return err
	}
	e.replicas.Wake() // a limit may be new
	return e.replicas.Merge(ctx, func(f func()) { f() }, nil)
}

func (e *Engine) loadCheckpoint(data []byte) error {
	var m meta
	if err := json.Unmarshal(data, &m); err != nil {
		return pages.Damaged("manifest", err)
	}
	if m.Version != metaVersion {
		return fmt.Errorf("engine: the data directory is of version %d, this program reads %d", m.Version, metaVersion)
	}
	if err := e.checkKey(m.KeyID); err != nil {
		return err
	}
	v := &books{tally: book.Book[*book.Tally]{From: m.TallyFrom}, block: book.Book[*book.Block]{From: m.BlockFrom}}
	for _, t := range m.Tally {
		g, err := e.tally.Make(t.TallySpec)
		if err != nil {
			return err
		}
		if err := e.loadArrays(named{t.CountsFile, g.Counts}, named{t.WeightsFile, g.Weights}, named{t.UniqueFile, g.Unique}); err != nil {
			return err
		}
		v.tally = v.tally.With(g)
	}
	for _, b := range m.Block {
		g, err := e.block.Make(b.BlockSpec)
		if err != nil {
			return err
		}
		if err := e.loadArrays(named{b.SpamFile, g.Spam}, named{b.RevokedFile, g.Revoked}); err != nil {
			return err
		}
		v.block = v.block.With(g)
	}
	e.books.Store(v)
	if err := e.replicas.Load(m.Origins); err != nil {
		return err
	}
	return e.loadAccounts(m)
}

// checkKey refuses what was written with another network's key.
func (e *Engine) checkKey(written uint64) error {
	if id := e.opts.Secret.ID(); written != id {
		return fmt.Errorf("engine: %w: the data directory belongs to network key %016x, the key given is %016x", bulkhead.ErrGeometry, written, id)
	}
	return nil
}

func (e *Engine) loadAccounts(m meta) error {
	f, err := e.opts.Store.OpenFile(m.Accounts)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if err := e.book.Decode(data); err != nil {
		return pages.Damaged(m.Accounts, err)
	}
	e.accountsIndex = m.AccountsIndex
	return nil
}

// named is an array and the checkpoint file it is in.
type named struct {
	file  string
	array any
}

func (e *Engine) loadArrays(arrays ...named) error {
	for _, a := range arrays {
		if err := pages.Load(e.opts.Store, a.file, a.array.(pages.Array)); err != nil {
			return err
		}
	}
	return nil
}
