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

// ErrCrowded means that a message was refused because the messages being read and judged take all
// the memory that they may. Trying again later may succeed.
var ErrCrowded = errors.New("too many messages at once")

// Cost is how many times its size a message takes at most while it is judged.
const Cost = 4

// smallShare is the fraction of a Memory that is small. A request for no more does not queue behind
// larger ones if there is room.
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

// A turn is the place of one waiting hold in the queue.
type turn struct {
	n    int64
	come chan struct{} // closed when it was given n bytes
}

// NewMemory returns a Memory of limit bytes, 1 or more.
func NewMemory(limit int64) *Memory { return &Memory{limit: max(1, limit)} }

// Usage returns the limit, the bytes of it that are held, and how often a message or datagram was
// refused for lack of memory.
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

// A Hold is the part of a [Memory] that one message holds. Only one goroutine may use it.
type Hold struct {
	memory *Memory
	n      int64
}

// Take takes n more bytes, or returns an error that wraps [ErrCrowded] and takes nothing. A hold
// that is empty waits for its turn until ctx ends, and no longer than patience. A hold that has
// something does not wait, since holds that wait for each other would wait for ever. A message that
// needs more than the limit takes all of it.
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
	case <-t.come: // perhaps at the moment when ctx ended
		h.n += n
		return nil
	default:
	}
	m.waiting.Remove(place)
	m.refusals++
	m.next() // a smaller request behind it may fit
	return fmt.Errorf("%w: they may take %d bytes", ErrCrowded, m.limit)
}

// grab takes n bytes at once, or the whole limit if n exceeds it, and returns the number of bytes
// that it took. ok is false if they are not available now. The caller gives them back.
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

// giveBack gives back the bytes that grab took.
func (m *Memory) giveBack(n int64) {
	h := Hold{memory: m, n: n}
	h.Release()
}

// refuse counts a refusal.
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

// ReadAll is [io.ReadAll] of a message that takes [Cost] times its size of the memory. size is its
// announced size in bytes, or -1 if it is unknown. Memory is taken as bytes arrive, and not for the
// announced size.
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

// next serves the holds whose turn it is. The caller holds mu.
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
