package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// RateLimits gives HTTP clients access to the rules behind the policy door. Methods may be called
// concurrently.
type RateLimits interface {
	// ApplyRateLimits counts one request and returns the action. The attributes have the names of the
	// Postfix policy protocol.
	ApplyRateLimits(ctx context.Context, attributes map[string]string, readonly bool) (admin.RateDecision, error)
	// RateLimits returns every rule and its resources.
	RateLimits() []admin.RateLimit
	// RateKeys returns the states of a key in every rule, or in the named one.
	RateKeys(rule, key string) ([]admin.RateKey, error)
	// TopRateKeys returns up to n keys with the highest rates of every rule.
	TopRateKeys(n int) ([]admin.TopKeys, error)
	// ResetRateKey forgets a key in every rule, or in the named one, and returns how
	// many rules knew it.
	ResetRateKey(rule, key string) int
}

// Lists gives HTTP clients access to the black, white and grey lists of a node. Methods may be
// called concurrently.
type Lists interface {
	// Lists returns every list.
	Lists() []admin.List
	// FindInLists looks up an address, domain, URL or IP address. The error for an
	// invalid entry wraps bulkhead.ErrMalformed.
	FindInLists(entry string) ([]admin.ListMatch, error)
}

// A ListEditor is a [Lists] that administrators can change. Its method may be called concurrently.
type ListEditor interface {
	// EditList adds entries to a list and removes entries from it. The error for an invalid entry wraps
	// bulkhead.ErrMalformed, and the error for an unknown list is a [client.Problem].
	EditList(ctx context.Context, name string, e *admin.ListEdit) (admin.ListEdited, error)
}

func (s *Server) rateLimits() (RateLimits, error) {
	if s.opts.RateLimits == nil {
		return nil, newProblem(http.StatusNotFound, "this server has no rate limits")
	}
	return s.opts.RateLimits, nil
}

// applyRate serves mail servers. Clients of less trust could use up the limits of others, whose mail is then deferred,
// and look at their rates.
func (s *Server) applyRate(r *request) (any, error) {
	if err := s.maySpeak(r); err != nil {
		return nil, err
	}
	rates, err := s.rateLimits()
	if err != nil {
		return nil, err
	}
	in, err := one[admin.RateRequest](r)
	if err != nil {
		return nil, err
	}
	d, err := rates.ApplyRateLimits(r.Context(), in.Attributes, in.Readonly)
	return &d, err
}

func (s *Server) listRates(*request) (any, error) {
	rates, err := s.rateLimits()
	if err != nil {
		return nil, err
	}
	return append([]admin.RateLimit{}, rates.RateLimits()...), nil
}

// rateKey returns the parameters of a request about one key.
func (s *Server) rateKey(r *request) (rates RateLimits, rule, key string, err error) {
	if rates, err = s.rateLimits(); err != nil {
		return nil, "", "", err
	}
	rule, key = r.query.Get("rule"), r.query.Get("key")
	if key == "" {
		return nil, "", "", fmt.Errorf("%w: no key", bulkhead.ErrMalformed)
	}
	return rates, rule, key, nil
}

func (s *Server) showRate(r *request) (any, error) {
	rates, rule, key, err := s.rateKey(r)
	if err != nil {
		return nil, err
	}
	keys, err := rates.RateKeys(rule, key)
	return append([]admin.RateKey{}, keys...), err
}

func (s *Server) resetRate(r *request) (any, error) {
	rates, rule, key, err := s.rateKey(r)
	if err != nil {
		return nil, err
	}
	r.did = []any{"rule", rule, "key", key}
	return &admin.RateReset{Reset: rates.ResetRateKey(rule, key)}, nil
}

func (s *Server) showLists(*request) (any, error) {
	if s.opts.Lists == nil {
		return []admin.List{}, nil
	}
	return append([]admin.List{}, s.opts.Lists.Lists()...), nil
}

func (s *Server) findInLists(r *request) (any, error) {
	if s.opts.Lists == nil {
		return []admin.ListMatch{}, nil
	}
	found, err := s.opts.Lists.FindInLists(r.query.Get("entry"))
	return append([]admin.ListMatch{}, found...), err
}

func (s *Server) editList(r *request) (any, error) {
	in, err := one[admin.ListEdit](r)
	if err != nil {
		return nil, err
	}
	editor, ok := s.opts.Lists.(ListEditor)
	if !ok {
		return nil, newProblem(http.StatusNotFound, "this server has no lists that can be changed")
	}
	name := r.PathValue("name")
	out, err := editor.EditList(r.Context(), name, &in)
	if err != nil {
		r.did = []any{"list", name}
		return nil, err
	}
	r.did = []any{"list", name, "added", len(out.Added), "restored", len(out.Restored), "removed", len(out.Removed),
		"dry", in.Dry}
	for _, l := range []*[]string{&out.Added, &out.Restored, &out.Removed} {
		*l = append([]string{}, *l...)
	}
	return &out, nil
}
