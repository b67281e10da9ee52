package experiment

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

// Config has the settings of [Run].
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
	// Progress, if not nil, is called with the share of the work that is done, 0 to 1, from one
	// goroutine at a time.
	Progress func(done float64, what string)
	// Log, nil for none.
	Log *slog.Logger
}

// Complete sets the defaults and returns an error for an invalid configuration.
func (c *Config) Complete() error {
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

// Small reports whether a run is one that only tries the program out: work that has no
// rounds is then less.
func (c *Config) Small() bool { return c.Rounds < 100 }

// Less returns n, or few in a small run.
func (c *Config) Less(n, few int) int {
	if c.Small() {
		return few
	}
	return n
}

// Wants reports whether a part is to be run.
func (c *Config) Wants(part string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, part) }

// Parts returns the names of the parts of the study: the experiments "1" to "8",
// "draws" (what one draw of the insertions matters), "seeds" and "families" (the
// experiments with other seeds and hash functions), "offset" (what may explain that
// Experiments 6 and 8 lie above print), "equal" (less m or k for the same error),
// "growth" (errors over time), "membership" (Table I), "twopart" (Jiang & Zhao),
// "rate" (Finch), "merge", "deletion", "split", "dcc" (f_dcc on real mail), "lines"
// (the theory of a node's arrays against measurement), "node" (f_dcc, merging and
// deletion on them), "revocation" (spam that is hidden by chance) and "speed".
func Parts() []string {
	return []string{"1", "2", "3", "4", "5", "6", "7", "8", "draws", "seeds", "families", "offset", "equal", "growth",
		"membership", "twopart", "rate", "merge", "deletion", "split", "dcc", "lines", "node", "revocation", "speed"}
}

// A Unit is a piece of work whose result is kept in a file.
type Unit struct {
	Name string  // of the file
	Cost float64 // about the seconds that it takes
	// have reports whether the loaded result is all that is wanted.
	Have   func() bool
	Result any // pointer; loaded from the file, or filled by run
	Run    func(ctx context.Context, s *Simulator, tick func(float64)) error
	// partial says that an interrupted unit leaves a result worth keeping.
	partial bool
	// alone says that the unit measures time: it runs when nothing else does.
	Alone bool
	// seconds is the processor time that the work has taken, over all runs.
	Seconds float64
}

// A Stored is the file of a unit's result.
type Stored struct {
	Format  int             `json:"format"`
	Seed    uint64          `json:"seed"`
	Draw    Draw            `json:"draw"`
	Family  HashFamily      `json:"family,omitempty"` // empty for universal
	Seconds float64         `json:"seconds"`
	Result  json.RawMessage `json:"result"`
}

const storedFormat = 1

// StoredFamily is how files of results name the hash family.
func (c *Config) StoredFamily() HashFamily {
	if c.Family == FamilyUniversal {
		return ""
	}
	return c.Family
}

func (c *Config) path(u *Unit) string { return filepath.Join(c.Out, "results", u.Name+".json") }

// Load reads an earlier result of u and reports whether it is all that is
// wanted. A file of other settings is ignored.
func (c *Config) Load(u *Unit) (bool, error) {
	b, err := os.ReadFile(c.path(u))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("study: %w", err)
	}
	var s Stored
	if err := json.Unmarshal(b, &s); err != nil || s.Format != storedFormat || s.Seed != c.Seed || s.Draw != c.Draw ||
		s.Family != c.StoredFamily() {
		c.Log.Info("ignoring a result of other settings", "file", c.path(u))
		return false, nil
	}
	if err := json.Unmarshal(s.Result, u.Result); err != nil {
		return false, fmt.Errorf("study: %s: %w", c.path(u), err)
	}
	u.Seconds = s.Seconds
	return u.Have(), nil
}

// Save writes the result of u.
func (c *Config) Save(u *Unit) error {
	result, err := json.Marshal(u.Result)
	if err != nil {
		return fmt.Errorf("study: %s: %w", u.Name, err)
	}
	b, err := json.Marshal(Stored{storedFormat, c.Seed, c.Draw, c.StoredFamily(), u.Seconds, result})
	if err != nil {
		return fmt.Errorf("study: %s: %w", u.Name, err)
	}
	return WriteFile(c.path(u), b)
}

// WriteFile replaces a file as a whole.
func WriteFile(path string, b []byte) error {
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

// Work runs the units that have no result yet.
func (c *Config) Work(ctx context.Context, units []*Unit) error {
	var todo, alone []*Unit
	meter := &meter{tell: c.Progress}
	for _, u := range units {
		done, err := c.Load(u)
		if err != nil {
			return err
		}
		meter.total += u.Cost
		switch {
		case done:
			meter.done += u.Cost
		case u.Alone:
			alone = append(alone, u)
		default:
			todo = append(todo, u)
		}
	}
	// Longest first, so that no worker is left alone at the end.
	slices.SortStableFunc(todo, func(a, b *Unit) int { return int(1000 * (b.Cost - a.Cost)) })
	if err := c.crew(ctx, todo, c.Jobs, meter); err != nil {
		return err
	}
	return c.crew(ctx, alone, 1, meter)
}

// crew runs units on a number of workers and waits for them.
func (c *Config) crew(ctx context.Context, todo []*Unit, workers int, meter *meter) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *Unit)
	var wg sync.WaitGroup
	for range min(workers, len(todo)) {
		wg.Go(func() {
			// A thread of its own, so that its processor time can be measured.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := NewSimulator(c.Seed)
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

func (c *Config) runUnit(ctx context.Context, u *Unit, s *Simulator, meter *meter) error {
	if ctx.Err() != nil {
		return nil
	}
	before, began := 0.0, ThreadTime()
	err := u.Run(ctx, s, func(share float64) {
		meter.add(u.Cost*(share-before), u.Name)
		before = share
	})
	u.Seconds += (ThreadTime() - began).Seconds()
	if err != nil && !u.partial {
		return err
	}
	if err == nil {
		meter.add(u.Cost*(1-before), u.Name)
	}
	return errors.Join(err, c.Save(u))
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

// TableUnits returns the units of the experiments that are wanted.
func (c *Config) TableUnits() (units []*Unit, results map[int][]*TableResult) {
	results = map[int][]*TableResult{}
	for _, e := range Experiments() {
		if !c.Wants(strconv.Itoa(e.Number)) {
			continue
		}
		for _, m := range e.Sizes {
			for _, k := range HashCounts() {
				r := &TableResult{Experiment: e.Number, M: m * 1000, K: k}
				results[e.Number] = append(results[e.Number], r)
				perRound := 1.5e-4 * float64(k)
				if e.order != blocks {
					perRound += 4e-9 * float64(k+2) * 200_000
				}
				units = append(units, &Unit{
					partial: true,
					Name:    fmt.Sprintf("experiment%d-%dK-k%d", e.Number, m, k), Cost: perRound * float64(c.Rounds), Result: r,
					Have: func() bool { return len(r.Rounds) >= c.Rounds },
					Run: func(ctx context.Context, s *Simulator, tick func(float64)) error {
						return r.simulate(ctx, s, &e, c, c.Rounds, tick)
					},
				})
			}
		}
	}
	return units, results
}
