package manage

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// WhitelistFile is the file of an administrator's whitelist entries, in the data folder. maxCleared
// bounds the number of signatures in it.
const (
	WhitelistFile = "whitelist.json"
	maxCleared    = 10_000
)

// A Whitelist is the administrator's whitelist, in addition to the configured one:
// [api.Whitelist]. Its methods may be called concurrently.
type Whitelist struct {
	dir    string
	config func() *config.Config
	apply  func(*engine.Whitelist)
	mu     sync.Mutex // one change of the whitelist at a time
	all    []admin.Cleared
}

// NewWhitelist returns the whitelist of a data folder, empty until [Whitelist.Read]. config returns
// the present configuration. apply puts a whitelist into force; it is called for each change.
func NewWhitelist(dir string, config func() *config.Config, apply func(*engine.Whitelist)) *Whitelist {
	return &Whitelist{dir: dir, config: config, apply: apply}
}

// WhitelistOf returns a configured whitelist for the engine.
func WhitelistOf(w *config.Whitelist) (*engine.Whitelist, error) {
	return engine.NewWhitelist(engine.WhitelistEntries{
		Senders: w.Senders, Domains: w.Domains, Networks: w.Networks,
		ListIDs: w.ListIDs, DKIM: w.DKIM, Signatures: w.Signatures,
	})
}

// Read reads the file.
func (w *Whitelist) Read() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := wholefile.ReadJSON(filepath.Join(w.dir, WhitelistFile), &w.all); err != nil {
		return fmt.Errorf("%w; mend or remove it", err)
	}
	if len(w.all) > maxCleared {
		return fmt.Errorf("%s: %d signatures, limit %d", WhitelistFile, len(w.all), maxCleared)
	}
	return nil
}

// with returns the whitelist of a configuration and the file together. mu is held.
func (w *Whitelist) with(cfg *config.Config, all []admin.Cleared) (*engine.Whitelist, error) {
	both := cfg.Whitelist
	both.Signatures = slices.Clone(both.Signatures)
	for i := range all {
		both.Signatures = append(both.Signatures, all[i].Signature.String())
	}
	return WhitelistOf(&both)
}

// With returns the effective whitelist with a configuration.
func (w *Whitelist) With(cfg *config.Config) (*engine.Whitelist, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.with(cfg, w.all)
}

// Renew puts the whitelist of the present configuration in force.
func (w *Whitelist) Renew() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	white, err := w.with(w.config(), w.all)
	if err == nil {
		w.apply(white)
	}
	return err
}

// put replaces the list on disk, and then in force. mu is held.
func (w *Whitelist) put(all []admin.Cleared) error {
	white, err := w.with(w.config(), all)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	if err := wholefile.Replace(filepath.Join(w.dir, WhitelistFile), wholefile.Bytes(append(data, '\n'))); err != nil {
		return err
	}
	w.all = all
	w.apply(white)
	return nil
}

// Cleared implements [api.Whitelist].
func (w *Whitelist) Cleared() []admin.Cleared {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// Clear implements [api.Whitelist].
func (w *Whitelist) Clear(sigs []bulkhead.Signature, by, note string) ([]admin.Cleared, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(w.all)
	now := clock.Now().UTC().Truncate(time.Second)
	for _, s := range logbook.Text(sigs) {
		if !slices.ContainsFunc(all, func(c admin.Cleared) bool { return c.Signature == s }) {
			all = append(all, admin.Cleared{Signature: s, By: by, Time: now, Note: note})
		}
	}
	added := all[len(w.all):]
	switch {
	case len(logbook.Text(sigs)) == 0:
		return nil, fmt.Errorf("%w: nothing is known of the whole text of this message", bulkhead.ErrMalformed)
	case len(added) == 0:
		return nil, nil
	case len(all) > maxCleared:
		return nil, fmt.Errorf("%w: the whitelist has %d signatures, limit %d", bulkhead.ErrOverLimit, len(w.all), maxCleared)
	}
	return slices.Clone(added), w.put(all)
}

// Unclear implements [api.Whitelist].
func (w *Whitelist) Unclear(sig bulkhead.Signature) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(w.all), func(c admin.Cleared) bool { return c.Signature == sig })
	if len(all) == len(w.all) {
		return false, nil
	}
	return true, w.put(all)
}
