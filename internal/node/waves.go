package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/top"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// wavePatience is how long a page waits for the latest entries to be read.
const wavePatience = 50 * time.Millisecond

// Waves implements [api.History].
func (h mailHistory) Waves(ctx context.Context, q admin.WaveQuery) (admin.WavePage, error) {
	var page admin.WavePage
	all, err := h.mailbook.Waves(ctx, wavePatience)
	if err != nil {
		return page, err
	}
	page.Upto, page.Whole, page.Since = all.Upto, all.Whole, all.Since
	if q.Class != "" {
		class, err := bulkhead.ParseClass(q.Class)
		if err != nil {
			return page, err
		}
		all.Waves = slices.DeleteFunc(all.Waves, func(w logbook.Wave) bool { return w.Class != class })
	}
	switch q.Sort {
	case "recent":
		slices.SortStableFunc(all.Waves, func(a, b logbook.Wave) int { return b.Last.Compare(a.Last) })
	case "new":
		slices.SortStableFunc(all.Waves, func(a, b logbook.Wave) int { return b.First.Compare(a.First) })
	}
	page.Of = len(all.Waves)
	for _, w := range all.Waves[:min(len(all.Waves), cmp.Or(q.Limit, logbook.DefaultPage), logbook.MaxPage)] {
		page.Waves = append(page.Waves, waveOf(&w))
	}
	return page, nil
}

func waveOf(w *logbook.Wave) admin.Wave {
	return admin.Wave{
		ID: int64(w.ID), First: w.First, Last: w.Last, Messages: w.Messages,
		Spam: w.Votes[logbook.CalledSpam], Ham: w.Votes[logbook.CalledHam], Revoked: w.Votes[logbook.Withdrawn],
		Class: w.Class.String(), Confidence: w.Confidence, Entry: int64(w.Entry), Slot: int64(w.Slot / time.Second),
		Growth: w.Growth,
		Doors:  namedCounts(w.Doors), Senders: namedCounts(w.Senders), Domains: namedCounts(w.Domains),
		Reporters: namedCounts(w.Reporters),
	}
}

func namedCounts(items []top.Item) []admin.NamedCount {
	out := make([]admin.NamedCount, len(items))
	for i, it := range items {
		out[i] = admin.NamedCount{Name: it.Name, Count: uint64(it.Count)}
	}
	return out
}

// Wave implements [api.History].
func (h mailHistory) Wave(ctx context.Context, id int64) (admin.WaveDetail, bool, error) {
	w, ok, err := h.mailbook.Wave(ctx, wavePatience, uint64(max(0, id)))
	if err != nil || !ok {
		return admin.WaveDetail{}, false, err
	}
	out := admin.WaveDetail{Wave: waveOf(&w)}
	e, ok, err := h.mailbook.Get(w.Entry)
	if err != nil || !ok {
		return out, true, err
	}
	out.Subject = e.Subject
	// Ask behind the history and the memory of messages: looking at a wave is not sending mail.
	v, err := h.judge.Check(ctx, bulkhead.Query{Signatures: e.Signatures()})
	if err != nil {
		return out, true, err
	}
	out.Verdict = client.NewVerdict(&v)
	return out, true, nil
}

// sparedFile is the file of an administrator's whitelist entries, in the data folder. maxSpared
// bounds the number of signatures in it.
const (
	sparedFile = "whitelist.json"
	maxSpared  = 10_000
)

// spared is the administrator's whitelist, in addition to the configured one. It implements
// [api.Whitelist].
type spared struct {
	core *core
	mu   sync.Mutex // one change of the whitelist at a time
	all  []admin.Cleared
}

// read reads the file.
func (c *spared) read() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := wholefile.ReadJSON(filepath.Join(c.core.dir, sparedFile), &c.all); err != nil {
		return fmt.Errorf("%w: mend or remove it", err)
	}
	if len(c.all) > maxSpared {
		return fmt.Errorf("%s: %d signatures, limit %d", sparedFile, len(c.all), maxSpared)
	}
	return nil
}

// with returns the whitelist of a configuration and the file together. mu is held.
func (c *spared) with(cfg *config.Config, all []admin.Cleared) (*engine.Whitelist, error) {
	w := cfg.Whitelist
	w.Signatures = slices.Clone(w.Signatures)
	for i := range all {
		w.Signatures = append(w.Signatures, all[i].Signature.String())
	}
	return whitelistOf(&w)
}

// whitelist returns the effective whitelist with a configuration.
func (c *spared) whitelist(cfg *config.Config) (*engine.Whitelist, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.with(cfg, c.all)
}

// renew puts the whitelist of the present configuration in force.
func (c *spared) renew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	white, err := c.with(c.core.cfg.Load(), c.all)
	if err == nil {
		c.core.engine.SetWhitelist(white)
	}
	return err
}

// put replaces the list on disk, and then in force. mu is held.
func (c *spared) put(all []admin.Cleared) error {
	white, err := c.with(c.core.cfg.Load(), all)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	if err := wholefile.Replace(filepath.Join(c.core.dir, sparedFile), wholefile.Bytes(append(data, '\n'))); err != nil {
		return err
	}
	c.all = all
	c.core.engine.SetWhitelist(white)
	return nil
}

// Cleared implements [api.Whitelist].
func (c *spared) Cleared() []admin.Cleared {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// Clear implements [api.Whitelist].
func (c *spared) Clear(sigs []bulkhead.Signature, by, note string) ([]admin.Cleared, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.all)
	now := clock.Now().UTC().Truncate(time.Second)
	for _, s := range logbook.Text(sigs) {
		if !slices.ContainsFunc(all, func(c admin.Cleared) bool { return c.Signature == s }) {
			all = append(all, admin.Cleared{Signature: s, By: by, Time: now, Note: note})
		}
	}
	added := all[len(c.all):]
	switch {
	case len(logbook.Text(sigs)) == 0:
		return nil, fmt.Errorf("%w: nothing is known of the whole text of this message", bulkhead.ErrMalformed)
	case len(added) == 0:
		return nil, nil
	case len(all) > maxSpared:
		return nil, fmt.Errorf("%w: the whitelist has %d signatures, limit %d", bulkhead.ErrOverLimit, len(c.all), maxSpared)
	}
	return slices.Clone(added), c.put(all)
}

// Unclear implements [api.Whitelist].
func (c *spared) Unclear(sig bulkhead.Signature) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(c.all), func(c admin.Cleared) bool { return c.Signature == sig })
	if len(all) == len(c.all) {
		return false, nil
	}
	return true, c.put(all)
}
