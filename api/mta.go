package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// RateLimits are the rules behind the policy door, as HTTP clients see them.
// Methods may be called concurrently.
type RateLimits interface {
	// ApplyRateLimits counts one request, whose attributes have the names of the
	// Postfix policy protocol, and says what to do with it.
	ApplyRateLimits(ctx context.Context, attributes map[string]string) (RateDecision, error)
	// RateLimits returns every rule and what it takes.
	RateLimits() []RateLimit
	// RateKeys returns the states of a key in every rule, or in the named one.
	RateKeys(rule, key string) ([]RateKey, error)
	// ResetRateKey forgets a key in every rule, or in the named one, and returns
	// in how many it was known.
	ResetRateKey(rule, key string) int
}

// A RateRequest is one event to be counted.
type RateRequest struct {
	Attributes map[string]string `json:"attributes" doc:"Attributes of the Postfix policy protocol, for example sasl_username and recipient."`
}

// A RateDecision says what to do with an event.
type RateDecision struct {
	Action string        `json:"action" enum:"dunno,defer,reject,hold"`
	Text   string        `json:"text,omitempty" doc:"For the client."`
	Rules  []RateOutcome `json:"rules" doc:"The rules that apply to the event, in their order."`
}

// A RateOutcome is what one rule says of an event.
type RateOutcome struct {
	Rule  string  `json:"rule"`
	Key   string  `json:"key"`
	Rate  float64 `json:"rate" doc:"In a period, this event included."`
	Limit float64 `json:"limit"`
	Over  bool    `json:"over"`
	New   bool    `json:"new" doc:"Whether the item was not yet seen in this period."`
}

// A RateLimit is one rule and what it takes.
type RateLimit struct {
	Name    string  `json:"name"`
	Key     string  `json:"key"`
	Unique  string  `json:"unique,omitempty"`
	Limit   float64 `json:"limit"`
	Period  string  `json:"period"`
	Action  string  `json:"action"`
	Keys    int     `json:"keys" doc:"Keys that have a state."`
	Bytes   int64   `json:"bytes" doc:"Memory of the states."`
	Evicted int64   `json:"evicted" doc:"Keys that gave way because the memory was spent."`
	Dropped int64   `json:"dropped" doc:"Keys that were idle."`
}

// A RateKey is the state of one key in one rule.
type RateKey struct {
	Rule   string  `json:"rule"`
	Rate   float64 `json:"rate" doc:"In a period, as decayed until now."`
	Limit  float64 `json:"limit"`
	Period string  `json:"period"`
	Items  float64 `json:"items" doc:"Different items in the filter, estimated from its fill."`
}

// A RateReset says in how many rules a key was forgotten.
type RateReset struct {
	Reset int `json:"reset"`
}

// Lists are the black, white and grey lists of a node, as HTTP clients see them.
// Methods may be called concurrently.
type Lists interface {
	// Lists returns every list.
	Lists() []List
	// FindInLists looks an address, domain, URL or IP address up. An entry that
	// cannot be read is an error that wraps bulkhead.ErrMalformed.
	FindInLists(entry string) ([]ListMatch, error)
}

// A List is one list.
type List struct {
	Name    string    `json:"name"`
	Tone    string    `json:"tone" enum:"black,white,grey"`
	Entries uint64    `json:"entries" doc:"Different elements, too low by about the error rate."`
	Allowed int       `json:"allowed" doc:"Entries of the exact allow list beside it."`
	Bytes   uint64    `json:"bytes" doc:"Memory of the filter."`
	Error   float64   `json:"error" doc:"Probability that one element which was never added is found."`
	Updated time.Time `json:"updated"`
}

// A ListMatch says how an entry was found in a list.
type ListMatch struct {
	List    string    `json:"list"`
	Tone    string    `json:"tone" enum:"black,white,grey"`
	Element string    `json:"element" doc:"What was found: the entry, a parent domain, a network, a folder."`
	Reason  string    `json:"reason,omitempty"`
	Updated time.Time `json:"updated"`
	Error   float64   `json:"error" doc:"Probability that an entry which was never added would have been found."`
}

// Limits of requests about rate limits.
const (
	maxAttributes = 64   // in a RateRequest
	maxRateKey    = 4096 // bytes of a key
	maxRateRule   = 64   // bytes of a rule's name
)

func (s *Server) rateLimits() (RateLimits, error) {
	if s.rates == nil {
		return nil, newProblem(http.StatusNotFound, "this server has no rate limits")
	}
	return s.rates, nil
}

func (s *Server) applyRate(r *request) (any, error) {
	rates, err := s.rateLimits()
	if err != nil {
		return nil, err
	}
	in, err := one[RateRequest](r)
	if err != nil {
		return nil, err
	}
	if len(in.Attributes) == 0 || len(in.Attributes) > maxAttributes {
		return nil, fmt.Errorf("%w: %d attributes, want 1 to %d", bulkhead.ErrMalformed, len(in.Attributes), maxAttributes)
	}
	d, err := rates.ApplyRateLimits(r.Context(), in.Attributes)
	return &d, err
}

func (s *Server) listRates(*request) (any, error) {
	rates, err := s.rateLimits()
	if err != nil {
		return nil, err
	}
	return append([]RateLimit{}, rates.RateLimits()...), nil
}

// rateKey returns the parameters of a request about one key.
func (s *Server) rateKey(r *request) (rates RateLimits, rule, key string, err error) {
	if rates, err = s.rateLimits(); err != nil {
		return nil, "", "", err
	}
	q, err := r.query("rule", "key")
	if err != nil {
		return nil, "", "", err
	}
	rule, key = q.Get("rule"), q.Get("key")
	if key == "" || len(key) > maxRateKey {
		return nil, "", "", fmt.Errorf("%w: key of %d bytes, want 1 to %d", bulkhead.ErrMalformed, len(key), maxRateKey)
	}
	if len(rule) > maxRateRule {
		return nil, "", "", fmt.Errorf("%w: name of a rule of %d bytes, limit %d", bulkhead.ErrMalformed, len(rule), maxRateRule)
	}
	return rates, rule, key, nil
}

func (s *Server) showRate(r *request) (any, error) {
	rates, rule, key, err := s.rateKey(r)
	if err != nil {
		return nil, err
	}
	keys, err := rates.RateKeys(rule, key)
	return append([]RateKey{}, keys...), err
}

func (s *Server) resetRate(r *request) (any, error) {
	rates, rule, key, err := s.rateKey(r)
	if err != nil {
		return nil, err
	}
	r.did = []any{"rule", rule, "key", key}
	return &RateReset{Reset: rates.ResetRateKey(rule, key)}, nil
}

func (s *Server) showLists(*request) (any, error) {
	if s.lists == nil {
		return []List{}, nil
	}
	return append([]List{}, s.lists.Lists()...), nil
}

func (s *Server) findInLists(r *request) (any, error) {
	if s.lists == nil {
		return []ListMatch{}, nil
	}
	q, err := r.query("entry")
	if err != nil {
		return nil, err
	}
	found, err := s.lists.FindInLists(q.Get("entry"))
	return append([]ListMatch{}, found...), err
}
