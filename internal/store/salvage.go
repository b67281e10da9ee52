package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// A Salvage has the options for opening a damaged store.
type Salvage struct {
	// Aside is the folder in which damaged files are kept, under their paths in the store. It is
	// created if necessary, on the same file system.
	Aside string
	// Entries replaces unreadable journal entries, by index.
	Entries map[uint64][]byte
}

// errSalvaged is the reason why a salvaged store accepts no entries before it is complete again.
var errSalvaged = errors.New("what could be read of a damaged store is not yet written anew")

// salvageGap is how many indexes are skipped after a salvage. A page may have seen an entry that
// left no trace in the journal or the watermark, and would skip a different entry with the same
// index.
const salvageGap = 1 << 20

// salvage is load for a store that may be damaged. An intact store is opened as usual. Otherwise
// damaged files are kept in Aside, [Store.Replay] passes on what is readable, and the store is
// Failed until [Store.Recover] has written all of it as a new checkpoint.
func (s *Store) salvage() error {
	n, err := inspect(context.Background(), s.fs, s.dir)
	if err != nil {
		return err
	}
	if len(n.Faults) == 0 {
		return s.load()
	}
	if _, err := os.Stat(s.path(filesDir)); !n.Readable && errors.Is(err, os.ErrNotExist) {
		return s.load() // the folder never held a store
	}
	if !n.Readable {
		return &DamageError{File: s.path(manifestFile), Advice: adviceAnew,
			What: "neither the manifest nor its copy can be read: " + n.Faults[0].What}
	}
	if n.newer != "" {
		return &DamageError{File: s.path(manifestFile), Advice: adviceAnew,
			What: fmt.Sprintf("the manifest and its copy are out of date: %s is of a later journal", n.newer)}
	}
	if err := s.setAside(n); err != nil {
		return err
	}
	m := n.Manifest
	s.manifest, s.id, s.epoch = m, m.Incarnation, m.epoch
	s.segs, s.salvaged = n.segs, n
	s.last, s.durable, s.burned = n.LastIndex, n.LastIndex, n.LastIndex+salvageGap
	s.oldest = m.Start
	s.failure = errSalvaged
	if err := makeDirs(s.dir); err != nil {
		return err
	}
	return s.openMark(true)
}

// Salvaged returns the damage of the store. It returns nil if there was none, or everything has
// been rewritten.
func (s *Store) Salvaged() *Inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.salvaged
}

// replaySalvaged passes on the readable entries, and replacements for the others.
func (s *Store) replaySalvaged(ctx context.Context, n *Inspection, from uint64,
	fn func(index uint64, entry []byte) error) error {
	next := from
	replaced := slices.Sorted(maps.Keys(s.opts.Salvage.Entries))
	fill := func(end uint64) error {
		for ; len(replaced) > 0 && replaced[0] < end; replaced = replaced[1:] {
			if index := replaced[0]; index >= next {
				if err := fn(index, s.opts.Salvage.Entries[index]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for i := range n.segs {
		seg := n.segs[i]
		_, _, err := seg.walk(ctx, s.fs, n.Manifest.Incarnation, func(index uint64, entry []byte) error {
			if index < next {
				return nil
			}
			if err := fill(index); err != nil {
				return err
			}
			next = index + 1
			return fn(index, entry)
		})
		if err != nil {
			return err
		}
	}
	return fill(n.LastIndex + 1)
}

// setAside keeps every file that has a fault.
func (s *Store) setAside(n *Inspection) error {
	for _, f := range n.Faults {
		rel, err := filepath.Rel(s.dir, f.File)
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		info, err := os.Stat(f.File)
		if err != nil || !info.Mode().IsRegular() {
			continue // missing files cannot be kept
		}
		to := filepath.Join(s.opts.Salvage.Aside, rel)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), keep(f.File, to)); err != nil {
			return fmt.Errorf("store: setting aside %s: %w", f.File, err)
		}
		if rel == filepath.Join(journalDir, filepath.Base(rel)) {
			if _, _, ok := parseSegmentName(filepath.Base(rel)); !ok {
				if err := s.fs.Remove(f.File); err != nil { // it never belonged to the journal
					return fmt.Errorf("store: %w", err)
				}
			}
		}
	}
	return nil
}

// keep gives the file a second name, or copies it if the file system has no hard links.
func keep(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	return copyFile(from, to)
}
