package manage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/ratelimit"
)

// An MTA offers the rate limits and lists of the doors for mail servers to HTTP clients:
// [api.RateLimits] and [api.Lists].
type MTA struct {
	limits *ratelimit.Limiter
	lists  *lists.Set
}

// NewMTA returns the interface to rate limits and lists.
func NewMTA(limits *ratelimit.Limiter, lists *lists.Set) *MTA { return &MTA{limits, lists} }

// ApplyRateLimits implements [api.RateLimits].
func (a *MTA) ApplyRateLimits(_ context.Context, attributes map[string]string,
	readonly bool) (admin.RateDecision, error) {
	ask := a.limits.Apply
	if readonly {
		ask = a.limits.Peek
	}
	action, text, outcomes, err := ask(func(name string) []byte {
		if v, ok := attributes[name]; ok {
			return []byte(v)
		}
		return nil
	})
	d := admin.RateDecision{Action: action, Text: text, Rules: []admin.RateOutcome{}}
	for _, o := range outcomes {
		d.Rules = append(d.Rules, admin.RateOutcome{Rule: o.Rule, Key: o.Key, Rate: o.Rate, Limit: o.Limit, Over: o.Over,
			New: o.New})
	}
	return d, err
}

// RateLimits implements [api.RateLimits].
func (a *MTA) RateLimits() []admin.RateLimit {
	var all []admin.RateLimit
	for _, u := range a.limits.Usage() {
		all = append(all, admin.RateLimit{
			Name: u.Rule.Name, Key: u.Rule.Key, Unique: u.Rule.Unique, Reads: u.Rule.Reads, Limit: u.Rule.Limit,
			Period: config.Duration(u.Rule.Period).String(),
			Action: u.Rule.Action, Keys: u.Keys, Bytes: u.Bytes, Evicted: u.Evicted, Dropped: u.Dropped,
		})
	}
	return all
}

// RateKeys implements [api.RateLimits].
func (a *MTA) RateKeys(rule, key string) ([]admin.RateKey, error) {
	states, err := a.limits.Show(rule, key)
	var all []admin.RateKey
	for _, s := range states {
		all = append(all, admin.RateKey{Rule: s.Rule, Rate: s.Rate, Limit: s.Limit,
			Period: config.Duration(s.Period).String(), Items: s.Items})
	}
	return all, err
}

// TopRateKeys implements [api.RateLimits].
func (a *MTA) TopRateKeys(n int) ([]admin.TopKeys, error) {
	rules, err := a.limits.Top(n)
	var all []admin.TopKeys
	for _, r := range rules {
		t := admin.TopKeys{Rule: r.Rule, Keys: make([]admin.TopKey, len(r.Keys))}
		for i, k := range r.Keys {
			t.Keys[i] = admin.TopKey{Key: k.Key, Rate: k.Rate, Limit: k.Limit, Items: k.Items}
		}
		all = append(all, t)
	}
	return all, err
}

// ResetRateKey implements [api.RateLimits].
func (a *MTA) ResetRateKey(rule, key string) int { return a.limits.Reset(rule, key) }

// Lists implements [api.Lists].
func (a *MTA) Lists() []admin.List {
	var all []admin.List
	for _, h := range a.lists.Handles() {
		out := admin.List{Name: h.Name(), Unknown: !h.Known(), Updated: h.Updated()}
		if l := h.List(); l != nil {
			out.Tone, out.Entries, out.Allowed = string(l.Meta().Tone), l.Count(), l.Allowed()
			out.Bytes, out.Error = l.Bytes(), l.ErrorRate()
		}
		if err := h.Fault(); err != nil {
			out.Fault = err.Error()
		}
		all = append(all, out)
	}
	return all
}

// EditList implements [api.Lists].
func (a *MTA) EditList(ctx context.Context, name string, e *admin.ListEdit) (admin.ListEdited, error) {
	got, err := a.lists.Edit(ctx, name, &lists.Edit{Add: e.Add, Remove: e.Remove, Dry: e.Dry, Source: "administrator",
		Now: clock.Now})
	if err != nil {
		return admin.ListEdited{}, editProblem(err)
	}
	return admin.ListEdited{Added: got.Added, Restored: got.Restored, Removed: got.Removed, Known: got.Known,
		Absent: got.Absent}, nil
}

// editProblem turns an error of an edit into what the API answers. Errors of the system are of the list's files.
func editProblem(err error) error {
	var system syscall.Errno
	switch {
	case errors.As(err, &system):
		return &client.Problem{Title: "Conflict", Status: http.StatusConflict,
			Detail: fmt.Sprintf("the file of the list cannot be changed by the node: %v", err)}
	case errors.Is(err, fs.ErrNotExist):
		return &client.Problem{Title: "Not Found", Status: http.StatusNotFound, Detail: err.Error()}
	}
	return fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
}

// FindInLists implements [api.Lists].
func (a *MTA) FindInLists(entry string) ([]admin.ListMatch, error) {
	e, err := lists.ParseEntry(entry)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
	}
	var all []admin.ListMatch
	for _, m := range a.lists.Find(e) {
		all = append(all, admin.ListMatch{List: m.List, Tone: string(m.Tone), Element: m.Element, Reason: m.Reason,
			Updated: m.Built, Error: m.Error})
	}
	return all, nil
}
