package door

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// ErrCrowded says that a message was not taken because those that are being read and
// judged take all the memory they may. Trying again later may succeed.
var ErrCrowded = errors.New("too many messages at once")

// Cost is how many times its size a message takes at most while it is judged.
const Cost = 4

// smallShare is the part of a Memory that is small: who wants no more does not stand in
// line behind those who want much, if there is room.
const smallShare = 64

// A Memory bounds the bytes from outside that all doors hold together: see [Hold]. A nil
// Memory sets no bound. Its methods may be called concurrently.
type Memory struct {
	limit int64

	mu       sync.Mutex
	held     int64
	waiting  list.List // of *turn, the longest first
	refusals int64
}

// A turn is that of one who waits.
type turn struct {
	n    int64
	come chan struct{} // closed when it was given n bytes
}

// NewMemory returns a Memory of limit bytes, 1 or more.
func NewMemory(limit int64) *Memory { return &Memory{limit: max(1, limit)} }

// Usage returns the limit, how much of it is held, and how often a message or datagram was
// not taken for want of it.
func (m *Memory) Usage() (limit, held, refusals int64) {
	if m == nil {
		return 0, 0, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limit, m.held, m.refusals
}

// Hold returns a claim that holds nothing yet.
func (m *Memory) Hold() Hold { return Hold{memory: m} }

// A Hold is what one message holds of a [Memory]. One goroutine uses it.
type Hold struct {
	memory *Memory
	n      int64
}

// Take takes n more bytes, or returns an error that wraps [ErrCrowded] and takes
// nothing. A hold that is empty waits for its turn until ctx ends, and no longer than
// patience; one that has something does not wait, since those who wait for each other
// would wait for ever. A message that would need more than there is takes all of it.
func (h *Hold) Take(ctx context.Context, n int64, patience time.Duration) error {
	m := h.memory
	if m == nil || n <= 0 {
		return nil
	}
	n = min(n, m.limit-h.n)
	m.mu.Lock()
	if m.held+n <= m.limit && (h.n > 0 || m.waiting.Len() == 0 || n <= m.limit/smallShare) {
		m.held += n
		m.mu.Unlock()
		h.n += n
		return nil
	}
	if h.n > 0 || patience <= 0 || ctx.Err() != nil {
		m.refusals++
		m.mu.Unlock()
		return fmt.Errorf("%w: they may take %d bytes", ErrCrowded, m.limit)
	}
	t := &turn{n, make(chan struct{})}
	place := m.waiting.PushBack(t)
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-t.come:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-t.come: // perhaps in the moment in which ctx ended
		h.n += n
		return nil
	default:
	}
	m.waiting.Remove(place)
	m.refusals++
	m.next() // who waited behind may fit
	return fmt.Errorf("%w: they may take %d bytes", ErrCrowded, m.limit)
}

// grab takes n bytes at once, or as much as there is for one that would need more, and
// returns what it took; ok is false if that is not to be had now. The caller gives it back.
func (m *Memory) grab(n int64) (taken int64, ok bool) {
	if m == nil || n <= 0 {
		return 0, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n = min(n, m.limit)
	if m.held+n > m.limit {
		return 0, false
	}
	m.held += n
	return n, true
}

// giveBack gives back what grab took.
func (m *Memory) giveBack(n int64) {
	h := Hold{memory: m, n: n}
	h.Release()
}

// refuse counts something that was not taken.
func (m *Memory) refuse() {
	m.mu.Lock()
	m.refusals++
	m.mu.Unlock()
}

// Release gives all back. The hold may be used again.
func (h *Hold) Release() {
	m := h.memory
	if m == nil || h.n == 0 {
		return
	}
	m.mu.Lock()
	m.held -= h.n
	m.next()
	m.mu.Unlock()
	h.n = 0
}

// ReadAll is [io.ReadAll] of a message that is held, [Cost] times its size. size is how
// long it is said to be, -1 if nobody knows: no more is taken for it than comes.
func (h *Hold) ReadAll(ctx context.Context, r io.Reader, size int64, patience time.Duration) ([]byte, error) {
	const step = 16 << 10
	var b []byte
	for {
		if len(b) == cap(b) {
			grow := max(step, cap(b))
			if b == nil && size >= 0 {
				grow = int(min(size, step)) + 1 // the last byte is for the end
			}
			if err := h.Take(ctx, Cost*int64(grow), patience); err != nil {
				return nil, err
			}
			b = append(make([]byte, 0, len(b)+grow), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// next lets those in whose turn it is. The caller holds mu.
func (m *Memory) next() {
	for {
		front := m.waiting.Front()
		if front == nil {
			return
		}
		t := front.Value.(*turn)
		if m.held+t.n > m.limit {
			return
		}
		m.held += t.n
		m.waiting.Remove(front)
		close(t.come)
	}
}
