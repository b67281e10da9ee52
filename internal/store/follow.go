package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A Journal is an ordered log of entries that a node is a state machine of: entries are decisions, so
// whoever applies them in order has the same state. [Store] is the journal in local files.
//
// One goroutine appends. Append returns once the entry is as durable as the journal promises. An index is
// used for one entry only, and the entries have the indexes from FirstIndex to LastIndex. After Append has failed,
// it is unknown whether the journal has the entry, and no further entry is accepted until the journal has recovered.
type Journal interface {
	// Append appends an entry of at most [MaxEntry] bytes and returns its index.
	Append(entry []byte) (index uint64, err error)
	// Replay passes the entries from an index on to fn, in order. It returns errors of fn unchanged.
	Replay(ctx context.Context, from uint64, fn func(index uint64, entry []byte) error) error
	// FirstIndex returns the index of the oldest entry that Replay can pass on; LastIndex()+1 if there is none.
	FirstIndex() uint64
	// LastIndex returns the index of the last acknowledged entry.
	LastIndex() uint64
	// Drop allows the journal to drop the entries below an index, because a checkpoint covers them.
	Drop(ctx context.Context, before uint64) error
	// Err returns why the journal accepts no entries, or nil.
	Err() error
	// Close releases the journal.
	Close() error
}

var _ Journal = (*Store)(nil)

// A Shared journal is a [Journal] outside of the node, which several nodes read. One of them appends at a time: the
// journal itself refuses the entries of any other. The node's own [Store] has a copy of every entry.
type Shared interface {
	Journal
	// Join makes the journal continue where a node's state ends, at a position: it passes the entries after that on to
	// take, in order and with the position before them, and returns the position of the last one. A writer joins before
	// its first entry, with begin set, and after each error of Append. A journal that does not exist is begun at the
	// position if begin is set.
	//
	// Errors wrap [ErrFenced] if another writer has appended since this one began, [ErrGap] if entries after the
	// position are gone, and [ErrDiverged] if the state is none that the journal leads to.
	Join(ctx context.Context, at Position, begin bool,
		take func(ctx context.Context, from Position, entries []Entry) error) (Position, error)
	// Room returns nil if the journal has room for entries, after an error of Append that wraps [ErrFull]. It returns
	// one that does otherwise.
	Room(ctx context.Context) error
}

var (
	// ErrFenced means that another writer has appended to a shared journal, so that this one may not any more.
	ErrFenced = errors.New("another node appends to the journal")
	// ErrGap means that a shared journal does not have the entries that follow a state.
	ErrGap = errors.New("entries are missing in the journal")
	// ErrDiverged means that a state does not come from the entries of a shared journal.
	ErrDiverged = errors.New("the journal does not continue this node's state")
	// ErrFull means that a shared journal has reached its size.
	ErrFull = errors.New("the journal is full")
)

// A Position is a place in a shared journal: after the entry with an index. Link identifies all entries up to it, see
// [Position.After]; 0 for an empty state, or if it is not known.
type Position struct {
	Index, Link uint64
}

// After returns the position after one more entry.
func (p Position) After(entry []byte) Position {
	h := sha256.New()
	var head [16]byte
	binary.LittleEndian.PutUint64(head[:], p.Link)
	binary.LittleEndian.PutUint64(head[8:], p.Index)
	h.Write(head[:])
	h.Write(entry)
	return Position{p.Index + 1, max(1, binary.LittleEndian.Uint64(h.Sum(nil)))}
}

// ErrLag means that the receiver of a [Following] is too slow, so that entries were dropped. They are
// still in the journal.
var ErrLag = errors.New("store: the follower of the journal is too slow")

// An Entry is an entry of the journal with its index.
type Entry struct {
	Index uint64
	Data  []byte
}

// A Following receives the entries of a journal as they become durable. One goroutine calls Next;
// the methods may be called concurrently with the journal's.
type Following interface {
	// Next returns the next entries, at least one and at most about 4 MiB. It waits until there are
	// some or ctx ends. Its errors wrap [ErrLag], after which the Following is useless, or
	// [ErrClosed], or are ctx.Err().
	Next(ctx context.Context) ([]Entry, error)
	// Close ends the Following.
	Close()
}

// A following is the Following of a Store.
type following struct {
	s     *Store
	limit int // bytes

	// Store.mu guards the fields below.
	queue []Entry
	bytes int
	lost  bool
	wake  chan struct{} // signalled after each change of the queue or of the durable index
}

// Follow returns a Following of the entries that are appended from now on. It holds at most limit
// bytes of entries that were not received. The caller closes it.
func (s *Store) Follow(limit int) Following {
	f := &following{s: s, limit: limit, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers = append(s.followers, f)
	return f
}

// Close implements [Following].
func (f *following) Close() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.followers = slices.DeleteFunc(f.s.followers, func(other *following) bool { return other == f })
}

// Next implements [Following].
func (f *following) Next(ctx context.Context) ([]Entry, error) {
	for {
		entries, err := f.take()
		if err != nil || len(entries) > 0 {
			return entries, err
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// maxTaken is the size in bytes from which Next adds no further entry.
const maxTaken = 4 << 20

func (f *following) take() ([]Entry, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.lost {
		return nil, ErrLag
	}
	n, size := 0, 0
	for n < len(f.queue) && f.queue[n].Index <= f.s.durable && size < maxTaken {
		size += len(f.queue[n].Data)
		n++
	}
	if n == 0 && f.s.closed {
		return nil, ErrClosed
	}
	out := f.queue[:n:n]
	f.queue = f.queue[n:]
	f.bytes -= size
	return out, nil
}

// publish passes an entry that was just written to the followers. The caller holds mu.
func (s *Store) publish(index uint64, entry []byte) {
	if len(s.followers) == 0 {
		return
	}
	e := Entry{index, bytes.Clone(entry)}
	for _, f := range s.followers {
		f.queue = append(f.queue, e)
		if f.bytes += len(entry); f.bytes > f.limit {
			f.lost, f.queue = true, nil
		}
	}
	s.wakeFollowers()
}

// wakeFollowers makes followers look at the queue again. The caller holds mu.
func (s *Store) wakeFollowers() {
	for _, f := range s.followers {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// FirstIndex implements [Journal].
func (s *Store) FirstIndex() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.oldest
}

// A retention states which entries stay although a checkpoint covers them.
type retention struct {
	from  uint64 // 0: none stays
	least int64  // bytes
}

// Retain keeps the entries from an index on, also those that a checkpoint covers, until another call states a later
// index. It returns the first of them that is still there. Later checkpoints drop the oldest of them beyond a size in
// bytes: the size of the checkpoint, but not less than least. Recover and Open keep none.
func (s *Store) Retain(from uint64, least int64) (first uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = retention{from, least}
	return max(from, s.oldest)
}

// keepFrom returns the index of the first entry that stays after a checkpoint. The caller holds mu.
func (s *Store) keepFrom() uint64 {
	start := s.manifest.Start
	if s.keep.from == 0 {
		return start
	}
	room := int64(0)
	for i := range s.manifest.Files {
		room += s.manifest.Files[i].Size
	}
	room = max(room, s.keep.least)
	from := max(s.oldest, min(start, s.keep.from))
	for i := len(s.segs) - 1; i >= 0 && s.segs[i].last >= from; i-- {
		if seg := &s.segs[i]; seg.last < start {
			if room -= seg.size; room < 0 {
				return seg.last + 1
			}
		}
	}
	return from
}

// Drop implements [Journal]. [Store.Checkpoint] has dropped the entries that it covers, so Drop only checks that it
// does.
func (s *Store) Drop(_ context.Context, before uint64) error {
	if start := s.Manifest().Start; before > start {
		return fmt.Errorf("store: drop entries below %d, and the checkpoint covers those below %d", before, start)
	}
	return nil
}

// Durable returns the index of the last entry that is known to be on disk.
func (s *Store) Durable() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable
}

// SkipTo notes that the indexes up to index are used, after AppendAll has failed to write these entries: the caller's
// memory has them, so that the journal continues after them once it has recovered.
func (s *Store) SkipTo(index uint64) {
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	s.burned = max(s.burned, index)
}

// AppendAll appends the entries of another journal under their own indexes, which continue this one,
// and returns once all of them are on disk. Its errors are those of [Store.Append]; entries before the
// one that failed may be in the journal.
func (s *Store) AppendAll(entries []Entry) error {
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if err := s.Err(); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Index != s.last+1 || len(e.Data) > MaxEntry {
			return fmt.Errorf("store: entry %d of %d bytes does not continue the journal, which ends with entry %d",
				e.Index, len(e.Data), s.last)
		}
		s.burned = e.Index
		if err := s.write(e.Index, e.Data, false); err != nil {
			s.fail(err)
			return s.Err()
		}
	}
	if err := s.syncTail(); err != nil {
		s.fail(err)
		return s.Err()
	}
	return nil
}
