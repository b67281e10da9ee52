package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"
)

// Durability determines when Append returns.
type Durability uint8

const (
	// Always returns after fdatasync. Acknowledged entries survive power loss.
	Always Durability = iota
	// Relaxed returns after the write. Acknowledged entries survive the death of the process; a
	// power loss loses the last SyncEvery of entries.
	Relaxed
)

// String returns "always", "relaxed" or "invalid".
func (d Durability) String() string {
	switch d {
	case Always:
		return "always"
	case Relaxed:
		return "relaxed"
	}
	return "invalid"
}

// Options configure [Open]. The zero Options are the defaults.
type Options struct {
	// Durability is Always or Relaxed.
	Durability Durability
	// SyncEvery is the longest time that an entry stays unsynced if Durability is Relaxed. 0 means
	// one second.
	SyncEvery time.Duration
	// SegmentBytes is the size at which the journal continues in a new file. 0 means 64 MiB.
	SegmentBytes int64
	// Logger receives events that operators, but no caller, can act on. Nil discards them.
	Logger *slog.Logger
	// Random is the source of incarnations and file ids. Nil means crypto/rand.
	Random io.Reader
	// FS is nil except in tests.
	FS FS
	// Former, if not nil, is called with the Meta of a store's checkpoint before anything is changed. If it
	// returns a folder, a copy of the store takes the place of that folder.
	Former func(meta []byte) (folder string)
	// Salvage, if not nil, allows a damaged store to be opened.
	Salvage *Salvage
}

func (o *Options) complete() error {
	if o.Durability > Relaxed {
		return fmt.Errorf("store: durability %d, want Always or Relaxed", o.Durability)
	}
	if o.SyncEvery < 0 || o.SegmentBytes < 0 {
		return fmt.Errorf("store: SyncEvery %v and SegmentBytes %d, want 0 or more", o.SyncEvery, o.SegmentBytes)
	}
	if o.SyncEvery == 0 {
		o.SyncEvery = time.Second
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.FS == nil {
		o.FS = osFS{}
	}
	return nil
}

// A Store is an open directory; see [Open]. The package comment describes concurrency.
type Store struct {
	dir  string
	opts Options
	log  *slog.Logger
	id   string // incarnation
	fs   FS
	lock Handle
	mark Handle // the watermark

	ckptMu   sync.Mutex // held by Checkpoint, Recover and Close
	appendMu sync.Mutex // held while the journal is written

	mu       sync.Mutex // guards the fields below; writing to the journal also requires appendMu
	manifest Manifest
	journal
	failure error // why the store is Failed; nil if it is not
	closed  bool
	// followers are the open Followings.
	followers []*following
	salvaged  *Inspection // until the first Recover; nil if nothing was damaged

	stop    chan struct{} // closed by Close
	syncing sync.WaitGroup
}

// A journal is the state of the journal's segments and entries.
type journal struct {
	segs    []segment      // without the segment being written
	tail    *segmentWriter // nil until the first Append
	last    uint64         // last acknowledged entry
	durable uint64         // last entry known to be on disk
	burned  uint64         // last index that was ever attempted
	epoch   uint64

	oldest uint64 // first entry that Replay can pass on; at most manifest.Start
	keep   retention
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// Dir returns the directory.
func (s *Store) Dir() string { return s.dir }

// Manifest returns the description of the last checkpoint. The caller owns the result.
func (s *Store) Manifest() Manifest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.manifest.clone()
}

// LastIndex returns the index of the last acknowledged entry, or one less than Manifest().Start if
// there is none. The next entry's index is one more. The exception is a failed entry, which has
// used up its index: after Recover, LastIndex returns that index.
func (s *Store) LastIndex() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Err returns nil, or an error that wraps [ErrFailed] and its cause.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err()
}

func (s *Store) err() error {
	if s.closed {
		return ErrClosed
	}
	if s.failure != nil {
		return fmt.Errorf("store: %w: %w", ErrFailed, s.failure)
	}
	return nil
}

// OpenFile opens a file of the last checkpoint. Reads check every block of it; damage is a
// [*DamageError] that names file and offset. The reader stays valid when later checkpoints replace
// the file. If the checkpoint has no file of that name, the error wraps [fs.ErrNotExist].
func (s *Store) OpenFile(name string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock() // held while opening, so that no checkpoint removes the file
	if s.closed {
		return nil, ErrClosed
	}
	info, err := s.manifest.find(name)
	if err != nil {
		return nil, err
	}
	r, err := openBlocks(s.fs, s.path(filesDir, info.stored()), info)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Close syncs the journal and releases the directory. It is the only method that may be called on a
// closed Store, where it does nothing.
func (s *Store) Close() error {
	s.ckptMu.Lock()
	defer s.ckptMu.Unlock()
	s.appendMu.Lock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.appendMu.Unlock()
		return nil
	}
	s.closed = true
	s.wakeFollowers()
	failed := s.failure != nil
	s.mu.Unlock()
	close(s.stop)
	var errs []error
	if s.tail != nil {
		if !failed {
			errs = append(errs, s.syncTail())
		}
		errs = append(errs, s.tail.f.Close())
	}
	errs = append(errs, s.mark.Close(), s.lock.Close())
	s.appendMu.Unlock()
	s.syncing.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("store: close: %w", err)
	}
	return nil
}

// Replay calls fn with every entry from index from on, in order and checked; entry is valid until
// fn returns. It stops when ctx is done, and at the first error of fn, which it returns unchanged.
// Damage is a [*DamageError]; fn has received the entries before it. Entries appended during the
// replay are not included. A checkpoint made during the replay may remove segments, which is an
// error.
//
// From must be FirstIndex() or later.
func (s *Store) Replay(ctx context.Context, from uint64, fn func(index uint64, entry []byte) error) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	if n := s.salvaged; n != nil {
		s.mu.Unlock()
		return s.replaySalvaged(ctx, n, from, fn)
	}
	oldest, incarnation := s.oldest, s.manifest.Incarnation
	segs := append([]segment(nil), s.segs...)
	if s.tail != nil {
		segs = append(segs, s.tail.segment)
	}
	s.mu.Unlock()
	if from < oldest {
		return fmt.Errorf("store: replay from index %d, the journal starts at %d", from, oldest)
	}
	for _, seg := range segs {
		if seg.last < max(from, seg.first) {
			continue
		}
		if err := replaySegment(ctx, s.fs, seg, incarnation, from, fn); err != nil {
			return err
		}
	}
	return nil
}

// replaySegment reads seg.size bytes, which must hold the entries up to seg.last.
func replaySegment(ctx context.Context, fsys FS, seg segment, incarnation string, from uint64,
	fn func(uint64, []byte) error) error {
	f, size, err := seg.open(fsys)
	if err != nil {
		return err
	}
	defer f.Close()
	if size < seg.size {
		return damaged(seg.path, size, "the file had %d bytes before", seg.size)
	}
	want := seg.last
	sc := newScanner(f, seg.size) // the file may be growing
	if err := seg.begin(sc, incarnation); err != nil {
		return seg.fault(err)
	}
	if err := seg.entries(ctx, sc, from, want, fn); err != nil {
		return err
	}
	if _, err := sc.next(); err != io.EOF {
		if err == nil {
			err = &badRecord{seg.size, "a record behind the last one"}
		}
		return seg.fault(err)
	}
	return nil
}
