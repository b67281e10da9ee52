package manage

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// WeightsFile is the file of accounts' weights over time, in the data folder. It has up to
// maxWeighed accounts whose weight has been above zero, and for each the latest maxWeights times at
// which the weight changed.
const (
	WeightsFile  = "weights.json"
	weighedEvery = time.Hour
	maxWeighed   = 1000
	maxWeights   = 64
	weightStep   = 0.005 // a smaller difference is no change
)

// weights holds the weights of accounts over time. The zero value records nothing. Its methods may
// be called concurrently.
type weights struct {
	mu    sync.Mutex
	path  string
	known map[string][]admin.Weight
}

// open reads the file. An unreadable file begins anew.
func (w *weights) open(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.path = filepath.Join(dir, WeightsFile)
	w.known = make(map[string][]admin.Weight)
	err := wholefile.ReadJSON(w.path, &w.known)
	if err != nil || w.known == nil {
		w.known = make(map[string][]admin.Weight)
	}
	return err
}

// InspectWeights returns an error if the file of weights in a data folder is damaged, or one that
// wraps [fs.ErrNotExist].
func InspectWeights(path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	known := make(map[string][]admin.Weight)
	return wholefile.ReadJSON(path, &known)
}

// note records the weights of all accounts at a time, and writes the file if any changed.
func (w *weights) note(now time.Time, worth map[string]float64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.path == "" {
		return nil
	}
	changed := false
	for name := range w.known {
		if _, ok := worth[name]; !ok {
			delete(w.known, name)
			changed = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(worth)) {
		x, before := worth[name], w.known[name]
		if len(before) == 0 && (x == 0 || len(w.known) >= maxWeighed) {
			continue
		}
		if last := len(before) - 1; last >= 0 && max(x-before[last].Worth, before[last].Worth-x) < weightStep {
			continue
		}
		before = append(before, admin.Weight{Time: now.Unix(), Worth: x})
		w.known[name] = before[max(0, len(before)-maxWeights):]
		changed = true
	}
	if !changed {
		return nil
	}
	data, err := json.Marshal(w.known)
	if err != nil {
		return err
	}
	return wholefile.Replace(w.path, wholefile.Bytes(append(data, '\n')))
}

// all returns the accounts in the order of their names.
func (w *weights) all() []admin.Weights {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []admin.Weights
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		out = append(out, admin.Weights{Account: name, Samples: slices.Clone(w.known[name])})
	}
	return out
}

// OpenWeights begins to record the weights of accounts over time, in a file of the data folder. An
// unreadable file begins anew, and is an error.
func (a *Accounts) OpenWeights(dir string) error { return a.weights.open(dir) }

// Weights implements [api.Users].
func (a *Accounts) Weights(context.Context) []admin.Weights { return a.weights.all() }

// noteWeights records the present weights of all accounts.
func (a *Accounts) noteWeights() {
	worth := make(map[string]float64)
	for _, account := range a.book().All() {
		worth[account.Name] = a.book().Worth(account.Name)
	}
	if err := a.weights.note(clock.Now(), worth); err != nil {
		a.opts.Log.Warn("weights of accounts not saved", "err", err,
			"consequence", "the chart of weights has a gap if the node restarts")
	}
}

// WatchWeights records the weights now and every hour, until ctx ends.
func (a *Accounts) WatchWeights(ctx context.Context) error {
	a.noteWeights()
	for range clock.Ticks(ctx, weighedEvery) {
		a.noteWeights()
	}
	return nil
}
