package filter

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// A WindowConfig says how long the generations of a [Window] live.
type WindowConfig struct {
	// Period is the time after which a new generation begins, at least a
	// second.
	Period time.Duration
	// Keep is how many generations live, the newest included: 1 to 4096.
	Keep int
	// Idle discards a generation before its time, the newest excepted, when no
	// element of it was seen for so long (Yan & Cho, signature aging). 0 for
	// never. Needs [Window.Touch].
	Idle time.Duration
}

func (c WindowConfig) validate() error {
	switch {
	case c.Period < time.Second:
		return fmt.Errorf("filter: generation of %v, want at least 1s", c.Period)
	case c.Keep < 1 || c.Keep > 4096:
		return fmt.Errorf("filter: %d generations, want 1 to 4096", c.Keep)
	case c.Idle < 0:
		return fmt.Errorf("filter: idle time %v, want 0 or more", c.Idle)
	}
	return nil
}

// A Generation is one time slice of a [Window].
type Generation[F any] struct {
	Start  time.Time // a whole multiple of the period, UTC
	Seen   time.Time // last [Window.Touch], at first the start
	Filter F
}

// A Window is a row of filters in time order, of any type: elements go into the
// newest, look-ups ask all, and the oldest is discarded whole. That is how
// filters forget from which nothing can be deleted.
//
// Times are cut to multiples of the period since the Unix epoch, so that all
// servers of a network have the same generations. Methods need the caller's
// lock, also those that only read, when another may advance the window.
type Window[F any] struct {
	config WindowConfig
	fresh  func() (F, error)
	live   []Generation[F] // newest first
}

// NewWindow returns a window without generations. fresh makes the filter of a
// new one.
func NewWindow[F any](c WindowConfig, fresh func() (F, error)) (*Window[F], error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if fresh == nil {
		return nil, errors.New("filter: window without a function that makes filters")
	}
	return &Window[F]{config: c, fresh: fresh}, nil
}

// start returns the beginning of the generation that t lies in.
func (c WindowConfig) start(t time.Time) time.Time {
	n, p := t.UnixNano(), int64(c.Period)
	at := n - n%p
	if n%p < 0 {
		at -= p
	}
	return time.Unix(0, at).UTC()
}

// At advances the window to now and returns the newest filter, into which
// elements of now go. A clock that runs backwards does not turn the window
// back. Errors are those of the function that makes filters; the window is then
// as it was.
func (w *Window[F]) At(now time.Time) (F, error) {
	start := w.config.start(now)
	if len(w.live) == 0 || start.After(w.live[0].Start) {
		f, err := w.fresh()
		if err != nil {
			return f, err
		}
		w.live = append([]Generation[F]{{start, start, f}}, w.live...)
	}
	w.Expire(now)
	return w.live[0].Filter, nil
}

// Expire discards the generations that have outlived Keep periods or were idle
// for too long, without beginning a new one, and returns how many.
func (w *Window[F]) Expire(now time.Time) int {
	start := w.config.start(now)
	if len(w.live) > 0 && w.live[0].Start.After(start) {
		start = w.live[0].Start
	}
	kept := w.live[:0:0]
	for i, g := range w.live {
		idle := i > 0 && w.config.Idle > 0 && now.Sub(g.Seen) >= w.config.Idle
		// As a number of periods: so many of the longest overflow a duration.
		if age := int64(start.Sub(g.Start) / w.config.Period); age < int64(w.config.Keep) && !idle {
			kept = append(kept, g)
		}
	}
	gone := len(w.live) - len(kept)
	w.live = kept
	return gone
}

// Live returns the generations, newest first. The slice is the caller's, the
// filters are the window's.
func (w *Window[F]) Live() []Generation[F] { return append([]Generation[F](nil), w.live...) }

// Touch notes that an element of the generation with that start was seen now:
// it restarts the generation's idle time.
func (w *Window[F]) Touch(start, now time.Time) {
	for i := range w.live {
		if w.live[i].Start.Equal(start) && now.After(w.live[i].Seen) {
			w.live[i].Seen = now
		}
	}
}

// Sum adds up count over the live generations, saturating at [Many]: the count
// of an element in a window of counting filters. Sums of counts that are never
// too low are never too low.
func (w *Window[F]) Sum(count func(F) uint32) uint32 {
	var sum uint64
	for _, g := range w.live {
		sum += uint64(count(g.Filter))
	}
	return uint32(min(sum, Many))
}

// Any reports whether has holds for a live generation: membership in a window
// of sets.
func (w *Window[F]) Any(has func(F) bool) bool {
	for _, g := range w.live {
		if has(g.Filter) {
			return true
		}
	}
	return false
}

// First returns the start of the oldest live generation for which has holds.
func (w *Window[F]) First(has func(F) bool) (start time.Time, ok bool) {
	for i := len(w.live) - 1; i >= 0; i-- {
		if has(w.live[i].Filter) {
			return w.live[i].Start, true
		}
	}
	return time.Time{}, false
}

// Encode writes the window: period, idle time in nanoseconds (8 bytes each),
// generations to keep and at hand (4 each), then for each its start and last
// sight in Unix nanoseconds (8 each), its length (8) and what encode writes.
func (w *Window[F]) Encode(out io.Writer, encode func(F, io.Writer) error) error {
	p := newPaperWriter(out, paperWindow)
	p.uint64(uint64(w.config.Period))
	p.uint64(uint64(w.config.Idle))
	p.uint32(uint32(w.config.Keep))
	p.uint32(uint32(len(w.live)))
	for _, g := range w.live {
		p.uint64(uint64(g.Start.UnixNano()))
		p.uint64(uint64(g.Seen.UnixNano()))
		var size countingWriter
		if err := encode(g.Filter, &size); err != nil {
			return err
		}
		p.uint64(uint64(size))
		p.flush()
		if p.err != nil {
			break
		}
		if err := encode(g.Filter, paperTap{p}); err != nil {
			return err
		}
	}
	return p.close()
}

// countingWriter counts the bytes written to it.
type countingWriter int64

func (c *countingWriter) Write(b []byte) (int, error) {
	*c += countingWriter(len(b))
	return len(b), nil
}

// paperTap passes bytes on through a paperWriter.
type paperTap struct{ p *paperWriter }

func (t paperTap) Write(b []byte) (int, error) {
	t.p.bytes(b)
	return len(b), t.p.err
}

// DecodeWindow reads what [Window.Encode] wrote. decode reads one filter within
// a limit in bytes, an equal share of limit for each generation. fresh is
// that of [NewWindow]. Errors wrap [ErrCorrupt] or [ErrTooLarge], or are those
// of decode.
func DecodeWindow[F any](r io.Reader, limit int64, fresh func() (F, error), decode func(io.Reader, int64) (F, error)) (*Window[F], error) {
	p := newPaperReader(r, paperWindow, limit)
	c := WindowConfig{Period: time.Duration(p.uint64()), Idle: time.Duration(p.uint64()), Keep: int(p.uint32())}
	n := p.uint32()
	if p.err == nil {
		if err := c.validate(); err != nil {
			p.fail("%v", err)
		} else if n > uint32(c.Keep) {
			p.fail("%d generations of a window of %d", n, c.Keep)
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	w, err := NewWindow(c, fresh)
	if err != nil {
		return nil, err
	}
	for range n {
		g, err := decodeGeneration(p, c, limit/int64(n), decode)
		if err != nil {
			return nil, err
		}
		if k := len(w.live); k > 0 && !g.Start.Before(w.live[k-1].Start) {
			return nil, fmt.Errorf("%w: generations out of order", ErrCorrupt)
		}
		w.live = append(w.live, g)
	}
	if err := p.close(); err != nil {
		return nil, err
	}
	return w, nil
}

func decodeGeneration[F any](p *paperReader, c WindowConfig, limit int64, decode func(io.Reader, int64) (F, error)) (Generation[F], error) {
	var g Generation[F]
	g.Start, g.Seen = time.Unix(0, int64(p.uint64())).UTC(), time.Unix(0, int64(p.uint64())).UTC()
	size := p.uint64()
	switch {
	case p.err != nil:
	case !g.Start.Equal(c.start(g.Start)) || g.Seen.Before(g.Start):
		p.fail("generation begun at %v, seen at %v, with a period of %v", g.Start, g.Seen, c.Period)
	case size > 1<<62:
		p.fail("generation of %d bytes", size)
	}
	if p.err != nil {
		return g, p.err
	}
	part := &io.LimitedReader{R: paperFeed{p}, N: int64(size)}
	f, err := decode(part, limit)
	if err != nil {
		return g, err
	}
	if part.N != 0 {
		p.fail("%d bytes after a generation's filter", part.N)
		return g, p.err
	}
	g.Filter = f
	return g, p.err
}

// paperFeed reads bytes through a paperReader.
type paperFeed struct{ p *paperReader }

func (f paperFeed) Read(b []byte) (int, error) {
	if f.p.err != nil {
		return 0, f.p.err
	}
	n, err := f.p.r.Read(b)
	f.p.crc = crcUpdate(f.p.crc, b[:n])
	return n, err
}
