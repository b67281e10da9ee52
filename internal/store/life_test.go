package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A life is a caller of the store that remembers everything, and a store whose process and machine
// can die at any moment.
type life struct {
	t    *testing.T
	rng  *rand.Rand
	dir  string
	opts Options
	fs   *powerFS
	s    *Store

	memory []fact // every acknowledged entry, in order
	tried  fact   // the entry whose Append failed; index 0 if there is none
	safe   int    // this many of memory must survive a power loss
}

type fact struct {
	index uint64
	text  string
}

func (l *life) fatalf(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("after %d operations: %s", l.fs.count, fmt.Sprintf(format, args...))
}

// files returns two checkpoint files that hold the memory.
func (l *life) files() []File {
	half := len(l.memory) / 2
	write := func(name string, facts []fact) File {
		return File{name, func(w io.Writer) error {
			for _, f := range facts {
				if _, err := fmt.Fprintf(w, "%d %s\n", f.index, f.text); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	return []File{write("one", l.memory[:half]), write("two", l.memory[half:])}
}

func (l *life) randomText() string {
	b := make([]byte, l.rng.IntN([]int{20, 300, 3000, 40_000}[l.rng.IntN(4)]))
	for i := range b {
		b[i] = 'a' + byte(l.rng.IntN(26))
	}
	return string(b)
}

// step performs one operation, and returns the error of a dead process.
func (l *life) step() error {
	m := l.s.Manifest()
	switch n := l.rng.IntN(20); {
	case l.s.Err() != nil:
		err := l.s.Recover(context.Background(), l.s.LastIndex()+1, []byte(fmt.Sprint(len(l.memory))), l.files())
		if err == nil {
			l.tried, l.safe = fact{}, len(l.memory)
		}
		return err
	case n < 15:
		text := l.randomText()
		index, err := l.s.Append([]byte(text))
		if err != nil {
			if !errors.Is(err, ErrFailed) {
				l.fatalf("Append: %v", err)
			}
			l.tried = fact{l.s.LastIndex() + 1, text}
			return err
		}
		l.memory = append(l.memory, fact{index, text})
		if l.opts.Durability == Always {
			l.safe = len(l.memory)
		}
		return nil
	case n < 18:
		span := l.s.LastIndex() + 2 - m.Start
		start := m.Start + l.rng.Uint64N(span)
		if l.rng.IntN(2) == 0 {
			start = l.s.LastIndex() + 1
		}
		err := l.s.Checkpoint(context.Background(), start, []byte(fmt.Sprint(len(l.memory))), l.files())
		if err == nil {
			l.safe = len(l.memory)
		}
		return err
	default:
		if err := l.s.Close(); err != nil {
			return err
		}
		l.safe = len(l.memory)
		return l.open(false)
	}
}

// kill ends the process without a clean shutdown.
func (l *life) kill() {
	l.fs.left = 0
	l.s.Close() // releases the lock and changes nothing
	l.fs.left = -1
}

// open starts the next process. It must find everything that was acknowledged, and beyond that at
// most the one entry that was attempted. After a power loss a relaxed store may have lost the
// newest entries.
func (l *life) open(powerLost bool) error {
	s, err := Open(l.dir, l.opts)
	if err != nil {
		var damage *DamageError
		if errors.As(err, &damage) {
			l.fatalf("undamaged store: %v", err)
		}
		return err
	}
	l.s = s
	got, err := l.load()
	if err != nil {
		l.fatalf("load: %v", err)
	}
	known := min(len(got), len(l.memory))
	lost := len(l.memory) - known
	if !slices.Equal(got[:known], l.memory[:known]) || lost > 0 && (!powerLost || known < l.safe) {
		l.fatalf("%d entries after %d, %d of them safe; power lost %v", len(got), len(l.memory), l.safe, powerLost)
	}
	if extra := got[known:]; len(extra) > 1 || len(extra) == 1 && extra[0] != l.tried {
		l.fatalf("entries that were never acknowledged: %.200v, tried %.80v", extra, l.tried)
	}
	if n := len(got); n > 0 && s.LastIndex() < got[n-1].index {
		l.fatalf("last index %d below entry %d", s.LastIndex(), got[n-1].index)
	}
	l.memory, l.tried, l.safe = got, fact{}, len(got)
	return nil
}

// load rebuilds the memory from files and journal.
func (l *life) load() (facts []fact, err error) {
	m := l.s.Manifest()
	for _, info := range m.Files {
		r, err := l.s.OpenFile(info.Name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			number, text, _ := strings.Cut(lines.Text(), " ")
			index, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				return nil, err
			}
			facts = append(facts, fact{index, text})
		}
		if err := errors.Join(lines.Err(), r.Close()); err != nil {
			return nil, err
		}
	}
	if want := string(m.Meta); want != "" && want != fmt.Sprint(len(facts)) {
		return nil, fmt.Errorf("metadata of a checkpoint of %s entries with files of %d", want, len(facts))
	}
	err = l.s.Replay(context.Background(), m.Start, func(index uint64, e []byte) error {
		if n := len(facts); n == 0 || facts[n-1].index < index {
			facts = append(facts, fact{index, string(e)})
		}
		return nil
	})
	return facts, err
}

// run goes through the given number of deaths.
func (l *life) run(deaths int, faultRate float64) {
	l.fs = newPowerFS()
	l.opts.FS = l.fs
	if err := l.open(false); err != nil {
		l.fatalf("first open: %v", err)
	}
	for range deaths {
		l.fs.left = l.rng.IntN(120)
		l.fs.fault = func(string, string) bool { return l.rng.Float64() < faultRate }
		for l.s != nil && l.fs.left > 0 {
			err := l.step()
			if l.s.isClosed() { // a Close or an Open in between failed
				break
			}
			if err != nil && !errors.Is(err, errFault) && !errors.Is(err, errDead) && !errors.Is(err, ErrFailed) {
				l.fatalf("step: %v", err)
			}
		}
		l.fs.fault = nil
		l.kill()
		powerLost := l.rng.IntN(2) == 0
		if powerLost {
			l.fs = l.fs.cut(l.t, l.rng, l.dir)
			l.opts.FS = l.fs
		}
		if err := l.open(powerLost); err != nil {
			l.fatalf("open after a death: %v", err)
		}
	}
	if err := l.s.Close(); err != nil {
		l.fatalf("close: %v", err)
	}
}

// TestLives lets processes and machines die at random operations, with and without failed
// operations before. Every acknowledged entry must be found each time.
func TestLives(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	for _, d := range []Durability{Always, Relaxed} {
		for _, rate := range []float64{0, 0.02, 0.15} {
			t.Run(fmt.Sprintf("%v,faults=%v", d, rate), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					l := &life{t: t, rng: rand.New(rand.NewPCG(seed, uint64(rate*100))), dir: newDir(t),
						opts: Options{Durability: d, SegmentBytes: 30_000, SyncEvery: 1 << 40}}
					l.run(8, rate)
					if t.Failed() {
						t.Logf("seed %d", seed)
						return
					}
				}
			})
		}
	}
}
