package study

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Config says what [Run] is to do.
type Config struct {
	// Out is the folder for results; it is made if it is absent. Results of
	// earlier runs with the same seed and draw are used again.
	Out string
	// Rounds is how often each configuration is simulated; the other
	// measurements scale with it. 0 for 1000.
	Rounds int
	// Seed of everything that is drawn at random.
	Seed uint64
	// Jobs is the number of workers, 0 for one for each processor.
	Jobs int
	// Draw of the numbers of insertions in Experiments 4 to 8, "" for
	// [DrawPrinted].
	Draw Draw
	// Family of hash functions in the experiments, "" for [FamilyUniversal].
	Family HashFamily
	// Only names the parts to run, see [Parts]; empty for all.
	Only []string
	// Corpus is a folder of unpacked mail corpora, each with its index.tsv;
	// "" leaves out what needs real mail.
	Corpus string
	// Report is a folder that gets the report in Markdown and its figures; "" for none. A
	// report is written only by a run of all parts.
	Report string
	// Progress, if not nil, is told the share of the work that is done, 0 to 1,
	// from one goroutine at a time.
	Progress func(done float64, what string)
	// Log, nil for none.
	Log *slog.Logger
}

func (c *Config) complete() error {
	if c.Rounds == 0 {
		c.Rounds = 1000
	}
	if c.Jobs == 0 {
		c.Jobs = runtime.GOMAXPROCS(0)
	}
	if c.Draw == "" {
		c.Draw = DrawPrinted
	}
	if c.Family == "" {
		c.Family = FamilyUniversal
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Out == "":
		return errors.New("study: no folder for results")
	case c.Rounds < 1 || c.Rounds > 1_000_000:
		return fmt.Errorf("study: %d rounds, want 1 to 1000000", c.Rounds)
	case c.Jobs < 1 || c.Jobs > 1024:
		return fmt.Errorf("study: %d jobs, want 1 to 1024", c.Jobs)
	}
	for _, name := range c.Only {
		if !slices.Contains(Parts(), name) {
			return fmt.Errorf("study: unknown part %q, want one of %s", name, strings.Join(Parts(), ", "))
		}
	}
	if c.Report != "" && len(c.Only) > 0 {
		return errors.New("study: a report needs all parts")
	}
	return errors.Join(c.Draw.validate(), c.Family.validate())
}

// small reports whether a run is one that only tries the program out: work that has no
// rounds is then less.
func (c *Config) small() bool { return c.Rounds < 100 }

// less returns n, or few in a small run.
func (c *Config) less(n, few int) int {
	if c.small() {
		return few
	}
	return n
}

func (c *Config) wants(part string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, part) }

// Parts returns the names of the parts of the study: the experiments "1" to "8",
// "draws" (what one draw of the insertions matters), "seeds" and "families" (the
// experiments with other seeds and hash functions), "offset" (what may explain that
// Experiments 6 and 8 lie above print), "equal" (less m or k for the same error),
// "growth" (errors over time), "membership" (Table I), "twopart" (Jiang & Zhao),
// "rate" (Finch), "merge", "deletion", "split", "dcc" (f_dcc on real mail), "lines"
// (the theory of a node's arrays against measurement), "node" (f_dcc, merging and
// deletion on them), "revocation" (spam that is hidden by chance) and "speed".
func Parts() []string {
	return []string{"1", "2", "3", "4", "5", "6", "7", "8", "draws", "seeds", "families", "offset", "equal", "growth", "membership", "twopart", "rate", "merge", "deletion", "split", "dcc", "lines", "node", "revocation", "speed"}
}

// A unit is a piece of work whose result is kept in a file.
type unit struct {
	name string  // of the file
	cost float64 // about the seconds that it takes
	// have reports whether the loaded result is all that is wanted.
	have   func() bool
	result any // pointer; loaded from the file, or filled by run
	run    func(ctx context.Context, s *simulator, tick func(float64)) error
	// partial says that an interrupted unit leaves a result worth keeping.
	partial bool
	// alone says that the unit measures time: it runs when nothing else does.
	alone bool
	// seconds is the processor time that the work has taken, over all runs.
	seconds float64
}

// A stored is the file of a unit's result.
type stored struct {
	Format  int             `json:"format"`
	Seed    uint64          `json:"seed"`
	Draw    Draw            `json:"draw"`
	Family  HashFamily      `json:"family,omitempty"` // empty for universal
	Seconds float64         `json:"seconds"`
	Result  json.RawMessage `json:"result"`
}

const storedFormat = 1

// storedFamily is how files of results name the hash family.
func (c *Config) storedFamily() HashFamily {
	if c.Family == FamilyUniversal {
		return ""
	}
	return c.Family
}

func (c *Config) path(u *unit) string { return filepath.Join(c.Out, "results", u.name+".json") }

// load reads an earlier result of u and reports whether it is all that is
// wanted. A file of other settings is ignored.
func (c *Config) load(u *unit) (bool, error) {
	b, err := os.ReadFile(c.path(u))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("study: %w", err)
	}
	var s stored
	if err := json.Unmarshal(b, &s); err != nil || s.Format != storedFormat || s.Seed != c.Seed || s.Draw != c.Draw || s.Family != c.storedFamily() {
		c.Log.Info("ignoring a result of other settings", "file", c.path(u))
		return false, nil
	}
	if err := json.Unmarshal(s.Result, u.result); err != nil {
		return false, fmt.Errorf("study: %s: %w", c.path(u), err)
	}
	u.seconds = s.Seconds
	return u.have(), nil
}

func (c *Config) save(u *unit) error {
	result, err := json.Marshal(u.result)
	if err != nil {
		return fmt.Errorf("study: %s: %w", u.name, err)
	}
	b, err := json.Marshal(stored{storedFormat, c.Seed, c.Draw, c.storedFamily(), u.seconds, result})
	if err != nil {
		return fmt.Errorf("study: %s: %w", u.name, err)
	}
	return writeFile(c.path(u), b)
}

// writeFile replaces a file as a whole.
func writeFile(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("study: %w", err)
	}
	tmp := path + ".part"
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return fmt.Errorf("study: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("study: %w", err)
	}
	return nil
}

// Run carries out the study and writes its tables, figures and report. It
// returns early, keeping what is finished, when ctx ends.
func Run(ctx context.Context, c Config) error {
	if err := c.complete(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("study: %w", err)
	}
	p := c.plan()
	if err := c.work(ctx, p.units); err != nil {
		return err
	}
	return p.write(ctx)
}

// work runs the units that have no result yet.
func (c *Config) work(ctx context.Context, units []*unit) error {
	var todo, alone []*unit
	meter := &meter{tell: c.Progress}
	for _, u := range units {
		done, err := c.load(u)
		if err != nil {
			return err
		}
		meter.total += u.cost
		switch {
		case done:
			meter.done += u.cost
		case u.alone:
			alone = append(alone, u)
		default:
			todo = append(todo, u)
		}
	}
	// Longest first, so that no worker is left alone at the end.
	slices.SortStableFunc(todo, func(a, b *unit) int { return int(1000 * (b.cost - a.cost)) })
	if err := c.crew(ctx, todo, c.Jobs, meter); err != nil {
		return err
	}
	return c.crew(ctx, alone, 1, meter)
}

// crew runs units on a number of workers and waits for them.
func (c *Config) crew(ctx context.Context, todo []*unit, workers int, meter *meter) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *unit)
	var wg sync.WaitGroup
	for range min(workers, len(todo)) {
		wg.Go(func() {
			// A thread of its own, so that its processor time can be measured.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := newSimulator(c.Seed)
			s.family = c.Family
			for u := range queue {
				if err := c.runUnit(ctx, u, s, meter); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for _, u := range todo {
		select {
		case queue <- u:
		case <-ctx.Done():
			break feed
		}
	}
	close(queue)
	wg.Wait()
	return context.Cause(ctx)
}

func (c *Config) runUnit(ctx context.Context, u *unit, s *simulator, meter *meter) error {
	if ctx.Err() != nil {
		return nil
	}
	before, began := 0.0, threadTime()
	err := u.run(ctx, s, func(share float64) {
		meter.add(u.cost*(share-before), u.name)
		before = share
	})
	u.seconds += (threadTime() - began).Seconds()
	if err != nil && !u.partial {
		return err
	}
	if err == nil {
		meter.add(u.cost*(1-before), u.name)
	}
	return errors.Join(err, c.save(u))
}

// A meter adds up the work done.
type meter struct {
	mu          sync.Mutex
	done, total float64
	tell        func(float64, string)
}

func (m *meter) add(cost float64, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += cost
	if m.tell != nil {
		m.tell(m.done/m.total, what)
	}
}

// tableUnits returns the units of the experiments that are wanted.
func (c *Config) tableUnits() (units []*unit, results map[int][]*tableResult) {
	results = map[int][]*tableResult{}
	for _, e := range experiments() {
		if !c.wants(strconv.Itoa(e.number)) {
			continue
		}
		for _, m := range e.sizes {
			for _, k := range hashCounts() {
				r := &tableResult{Experiment: e.number, M: m * 1000, K: k}
				results[e.number] = append(results[e.number], r)
				perRound := 1.5e-4 * float64(k)
				if e.order != blocks {
					perRound += 4e-9 * float64(k+2) * 200_000
				}
				units = append(units, &unit{
					partial: true,
					name:    fmt.Sprintf("experiment%d-%dK-k%d", e.number, m, k), cost: perRound * float64(c.Rounds), result: r,
					have: func() bool { return len(r.Rounds) >= c.Rounds },
					run: func(ctx context.Context, s *simulator, tick func(float64)) error {
						return r.simulate(ctx, s, &e, c, c.Rounds, tick)
					},
				})
			}
		}
	}
	return units, results
}
