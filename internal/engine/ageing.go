package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/aside"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
)

// Ageing is the state of the ageing of generations.
type Ageing struct {
	// Held means that the machine's clock is implausibly far ahead. No generation expires, and new
	// counts go into generations of the expected time.
	Held bool
	// Newest is the last plausible time, for a held ageing the time of the newest record before it.
	// Now is the time by which generations open, and Clock is the machine's time.
	Newest, Now, Clock time.Time
	// Tally and Blocklist are the numbers of generations that expire at once when Clock is
	// confirmed.
	Tally, Blocklist int
}

// Now returns the time by which generations open and expire. It is the time of [Options.Now],
// unless the ageing is held.
func (e *Engine) Now() time.Time { return e.clock.now() }

// Ageing returns the state of the ageing.
func (e *Engine) Ageing() Ageing {
	now, wall, held := e.clock.read()
	a := Ageing{Held: held, Now: now, Clock: wall, Newest: now}
	if held {
		a.Newest = e.clock.last.Load().time
		b := e.current.Books()
		kept := func(ages []uint64, since uint64) []uint64 {
			return slices.DeleteFunc(ages, func(from uint64) bool { return from >= since })
		}
		since := [2]uint64{math.MaxUint64, math.MaxUint64}
		if wrong := e.clock.wrong.Load(); wrong != nil {
			since = *wrong // these age from the confirmation on
		}
		a.Tally = e.opts.Tally.Overdue(wall, kept(b.Tally.Ages(), since[0]))
		a.Blocklist = e.opts.Block.Overdue(wall, kept(b.Block.Ages(), since[1]))
	}
	return a
}

// ConfirmClock accepts the machine's clock while the ageing is held. Generations that are older
// than the books keep then expire. If the ageing is not held, ConfirmClock changes nothing.
func (e *Engine) ConfirmClock(ctx context.Context) error {
	return e.queue.change(ctx, func() error {
		_, wall, held := e.clock.read()
		if !held {
			return nil
		}
		if err := e.journal.refusing(); err != nil {
			return err // expired generations have to be journalled
		}
		e.clock.confirm(wall)
		return e.rotate()
	})
}

// A departure identifies a generation that has aged out.
type departure struct {
	book  string
	start uint64
}

// A leaving is the generations that have aged out, until they are in files.
type leaving struct {
	folder *aside.Folder // nil: none are kept

	mu    sync.Mutex
	saved map[departure]bool // false: being written
	work  sync.WaitGroup
}

// tick removes old files.
func (l *leaving) tick(log *slog.Logger) {
	if l.folder == nil {
		return
	}
	if err := l.folder.Tick(); err != nil {
		log.Warn("files of aged generations not tidied", "err", err)
	}
}

// departed returns the generations of starts that may be dropped: those that are in files, and those that are
// not kept, because they are empty or were given up for lack of memory. It begins to write the others.
// Only the writer calls it.
func (e *Engine) departed(books *view.Books, name string, starts []uint64, from uint64) []uint64 {
	l := &e.writer.leaving
	if l.folder == nil {
		return starts
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(starts), func(start uint64) bool {
		key := departure{name, start}
		done, begun := l.saved[key]
		if done || start < from {
			delete(l.saved, key)
			return false
		}
		g := aside.Generation{}
		names := []string{"counts", "unique"}
		if t := books.Tally.Find(start); name == "tally" && t != nil {
			if g.Tally = &t.TallySpec; t.Empty() {
				return false
			}
		} else if b := books.Block.Find(start); name == "blocklist" && b != nil {
			names = []string{"spam", "revoked", "weights", "votes", "names"}
			if b.Floor > 0 {
				names = append(names, book.ListedArray, book.UnlistedArray)
			}
			if g.Block = &b.BlockSpec; b.Empty() {
				return false
			}
		}
		if !begun {
			l.saved[key] = false
			e.writeAside(books, key, &g, names)
		}
		return true
	})
}

// writeAside begins to write a generation to its file. The caller holds the lock.
func (e *Engine) writeAside(books *view.Books, key departure, g *aside.Generation, names []string) {
	l := &e.writer.leaving
	var list []pages.Array
	for _, name := range names {
		if a, ok := books.Array(name, key.start).(pages.Array); ok {
			g.Arrays, list = append(g.Arrays, name), append(list, a)
		}
	}
	l.work.Add(1)
	e.keepers.Go(func() {
		defer l.work.Done()
		if err := l.folder.Save(g, list, e.queue.between); err != nil {
			e.opts.Log.Error("generation that has aged out not set aside", "book", key.book, "start", key.start, "err", err,
				"consequence", "it cannot be brought back")
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.saved[key] = true
	})
}

// AgedGeneration describes a generation that has aged out, and is kept in a file.
type AgedGeneration = aside.Generation

// SetAside returns the generations that have aged out and are kept in files.
func (e *Engine) SetAside() []AgedGeneration {
	if e.writer.leaving.folder == nil {
		return nil
	}
	list := e.writer.leaving.folder.List()
	var out []AgedGeneration
	for _, path := range aside.Sorted(list) {
		out = append(out, list[path])
	}
	return out
}

// BringBack durably opens the generations again that have aged out and are kept in files, with their
// counts, and returns their number. A generation that has still expired by the clock stays where it is: see
// skipped. The error of a damaged file wraps [aside.ErrDamaged].
func (e *Engine) BringBack(ctx context.Context) (n, skipped int, err error) {
	f := e.writer.leaving.folder
	if f == nil {
		return 0, 0, nil
	}
	list := f.List()
	for _, path := range aside.Sorted(list) {
		g := list[path]
		back, err := e.reopen(ctx, &g)
		if err != nil {
			return n, skipped, err
		}
		if !back {
			skipped++
			continue
		}
		start, _ := g.Start()
		size := func(name string) int {
			if a := e.healer.Own(replica.Key{Array: replica.Array(name), Start: start}); a != nil {
				return a.Geometry().Pages()
			}
			return 0
		}
		err = aside.Pages(path, size, func(name string, page []byte) error {
			return e.queue.change(ctx, func() error { return e.bringPage(replica.Array(name), start, page) })
		})
		if err != nil {
			return n, skipped, err
		}
		if err := f.Remove(path); err != nil {
			return n, skipped, err
		}
		n++
	}
	return n, skipped, nil
}

// reopen opens a generation again, with empty arrays. It reports false if the generation has expired. It
// changes nothing if the generation is live.
func (e *Engine) reopen(ctx context.Context, g *aside.Generation) (ok bool, err error) {
	err = e.queue.change(ctx, func() error {
		now := e.clock.now()
		r := &codec.Rotation{OpenTally: g.Tally, OpenBlock: g.Block}
		id := uint64(0)
		if g.Tally != nil {
			id, ok = g.Tally.CountsGeometry.KeyID, !e.opts.Tally.Expired(now, max(g.Tally.Start, g.Tally.Aged))
		} else {
			id, ok = g.Block.SpamGeometry.KeyID, !e.opts.Block.Expired(now, max(g.Block.Start, g.Block.Aged))
		}
		if ok = ok && e.Knows(id); !ok {
			return nil
		}
		if err := e.journal.refusing(); err != nil {
			return err
		}
		return e.commit(r)
	})
	return ok, err
}

// bringPage puts a page of a file in its place, unless the array has a later state of it: the generation was
// never dropped. Only the writer calls it.
func (e *Engine) bringPage(a Array, start uint64, page []byte) error {
	array := e.healer.Own(replica.Key{Array: a, Start: start})
	if array == nil {
		return nil // it has expired in the mean time
	}
	m, err := arrays.ParseImage(page, array.Geometry())
	if err != nil || m.Generation != start {
		return fmt.Errorf("%w: page of %s, generation %d: %v", aside.ErrDamaged, a, start, err)
	}
	if m.Info.Version <= array.Image(m.Page).Info.Version {
		return nil
	}
	if err := e.journal.refusing(); err != nil {
		return err
	}
	return e.commit(&codec.Heal{Array: a, Start: start, Image: page})
}
