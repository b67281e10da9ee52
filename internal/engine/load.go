package engine

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// appendSized appends what f appends, preceded by its length in four bytes.
func appendSized(b []byte, f func([]byte) []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = f(b)
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// maxPage bounds the encoding of one page: its cells, and an overflow entry
// for each of them.
const maxPage = 2 << 20

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
	e.dropExpiredReplicas()
	if err := e.thawAll(); err != nil {
		return err
	}
	e.wakeMerge() // a limit may be new
	return e.merge(ctx, func(f func()) { f() }, false)
}

func (e *Engine) loadCheckpoint(data []byte) error {
	var m meta
	if err := json.Unmarshal(data, &m); err != nil {
		return damaged("manifest", err)
	}
	if m.Version != metaVersion {
		return fmt.Errorf("engine: the data directory is of version %d, this program reads %d", m.Version, metaVersion)
	}
	if err := e.checkKey(m.KeyID); err != nil {
		return err
	}
	v := &view{tally: book.Book[*book.Tally]{From: m.TallyFrom}, block: book.Book[*book.Block]{From: m.BlockFrom}}
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
	for _, o := range m.Origins {
		r := &replica{Origin: o.Origin, incarnation: o.Incarnation, marks: make(map[arrayKey]mark)}
		for _, a := range o.Arrays {
			if err := e.loadReplica(r, a); err != nil {
				return err
			}
		}
		v.remote = append(v.remote, r)
	}
	e.view.Store(v)
	return e.loadAccounts(m)
}

// checkKey refuses what was written with another network's key.
func (e *Engine) checkKey(written uint64) error {
	if id := e.opts.Secret.ID(); written != id {
		return fmt.Errorf("engine: %w: the data directory belongs to network key %016x, the key given is %016x", bulkhead.ErrGeometry, written, id)
	}
	return nil
}

func (e *Engine) loadReplica(r *replica, a metaReplica) error {
	key := arrayKey{a.Array, a.Start}
	r.marks[key] = mark{a.Partial, a.Boot}
	if a.Cold != nil {
		c := newCold(r.ID, key, a.Geometry, a.Cold.Version, a.Cold.Keys)
		c.file = a.File
		r.put(&remoteArray{arrayKey: key, cold: c})
		return nil
	}
	array, err := newReplicated(a.Array, a.Start, a.Geometry)
	if err != nil {
		return damaged(a.File, err)
	}
	r.put(&remoteArray{arrayKey: key, memory: array})
	return e.loadArray(a.File, array)
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
		return damaged(m.Accounts, err)
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
		if err := e.loadArray(a.file, a.array.(paged)); err != nil {
			return err
		}
	}
	return nil
}

// loadArray reads the pages that pageWriter wrote. Every page must be there,
// once and in order: a file with a page left out would undercount in silence.
func (e *Engine) loadArray(name string, array paged) error {
	f, err := e.opts.Store.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<18)
	var buf []byte
	var size [4]byte
	for want := range array.Geometry().Pages() {
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return unreadable(name, want, err)
		}
		n := binary.LittleEndian.Uint32(size[:])
		if n > maxPage {
			return damaged(name, fmt.Errorf("page %d of %d bytes, limit %d", want, n, maxPage))
		}
		if uint32(cap(buf)) < n {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(r, buf[:n]); err != nil {
			return unreadable(name, want, err)
		}
		page, err := array.LoadPage(buf[:n])
		if err != nil {
			return damaged(name, fmt.Errorf("page %d: %w", want, err))
		}
		if page != want {
			return damaged(name, fmt.Errorf("page %d where page %d belongs", page, want))
		}
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("bytes after the last page")
		}
		return unreadable(name, array.Geometry().Pages(), err)
	}
	return nil
}

// unreadable keeps the store's own word on a damaged file.
func unreadable(name string, page int, err error) error {
	var damage *store.DamageError
	if errors.As(err, &damage) {
		return err
	}
	return damaged(name, fmt.Errorf("page %d: %w", page, err))
}

func damaged(name string, err error) error {
	return &store.DamageError{File: name, What: err.Error(), Advice: "restore the data directory from a backup"}
}

var _ interface {
	book.Counter
	paged
} = (*filter.Counting)(nil)

var _ interface {
	book.Bitset
	paged
} = (*filter.Bits)(nil)
