package ratelimit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// DefaultCheckpoint is how often changed states are saved.
const DefaultCheckpoint = time.Minute

// maxRules bounds the rules that one request has to pass.
const maxRules = 64

// Options configure a [Limiter].
type Options struct {
	Rules []Rule
	// Dir is the folder of the saved states, made if absent. Empty: nothing is
	// saved.
	Dir string
	// Checkpoint is how often changed states are saved; 0 means
	// DefaultCheckpoint. What was counted since is lost when the machine stops
	// without notice.
	Checkpoint time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Random is read for the key of the filters' hashes; nil means crypto/rand.
	Random io.Reader
	// Notify is told when a key rises to the warning level of a rule, and when
	// it reaches the limit, once for each rise. It must not block; nil tells nobody.
	Notify func(Event)
	// Log takes events and faults; nil discards them.
	Log *slog.Logger
}

// An Event is a key that has reached the warning level, or the limit, of a rule. Its JSON form is what a webhook is sent.
type Event struct {
	Time   time.Time `json:"time"`
	Rule   string    `json:"rule"`
	Key    string    `json:"key"`
	Rate   float64   `json:"rate"`  // in a period
	Limit  float64   `json:"limit"` // in a period
	Period string    `json:"period"`
	Over   bool      `json:"over"` // the limit was reached, not only the warning level
	Action string    `json:"action"`
}

// An Outcome is what one rule says of one request.
type Outcome struct {
	Rule   string
	Key    string
	Rate   float64 // in a period, this request included
	Limit  float64
	Over   bool
	New    bool   // the item was not yet seen in this period
	Action string // of the rule
	Text   string // for the refused client; "" unless Over
}

// A Limiter applies rules to requests. Its methods may be called concurrently.
type Limiter struct {
	opts   Options
	secret filter.Secret
	rules  atomic.Pointer[[]*rule]
	mu     sync.Mutex // one Reload or Save at a time
	told   told

	Stats Stats
}

// Stats are the counters of a [Limiter]; all may be read at any time.
type Stats struct {
	Requests atomic.Int64 // requests that were looked at
	Refused  atomic.Int64 // requests that were deferred, rejected or put on hold
	Warned   atomic.Int64 // events
	Faults   atomic.Int64 // states that could not be read, or saved
}

// Open checks the rules and loads the saved states. A state file that does not
// fit its rule any more, or is damaged, is set aside and logged: the rule starts
// empty, and mail goes on.
func Open(opts Options) (*Limiter, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Checkpoint <= 0 {
		opts.Checkpoint = DefaultCheckpoint
	}
	l := &Limiter{opts: opts}
	if opts.Dir == "" {
		if _, err := io.ReadFull(opts.Random, l.secret[:]); err != nil {
			return nil, fmt.Errorf("ratelimit: %w", err)
		}
	} else if err := l.openDir(); err != nil {
		return nil, err
	}
	l.rules.Store(&[]*rule{})
	if err := l.Reload(opts.Rules); err != nil {
		return nil, err
	}
	return l, nil
}

// Reload replaces the rules. A rule of the same name whose period and templates are the
// same keeps its states. A mistake in any rule changes nothing.
func (l *Limiter) Reload(rules []Rule) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(rules) > maxRules {
		return fmt.Errorf("ratelimit: %d rules, limit %d", len(rules), maxRules)
	}
	old := *l.rules.Load()
	compiled := make([]*rule, 0, len(rules))
	seen := make(map[string]bool)
	for _, r := range rules {
		c, err := compile(r, l.secret)
		if err != nil {
			return err
		}
		if seen[c.Name] {
			return fmt.Errorf("ratelimit: two rules are called %q", c.Name)
		}
		seen[c.Name] = true
		compiled = append(compiled, c)
	}
	for _, c := range compiled {
		if c.Reads != "" {
			if err := c.join(compiled); err != nil {
				return err
			}
		}
	}
	for _, c := range compiled {
		if c.reads == nil {
			l.adopt(c, find(old, c.Name))
		}
	}
	l.rules.Store(&compiled)
	return nil
}

// adopt gives a new rule the states of the one that had its name, or those that
// were saved.
func (l *Limiter) adopt(c, was *rule) {
	switch {
	case was == nil || was.reads != nil:
		l.load(c)
	case was.rate.ID() != c.rate.ID():
		l.opts.Log.Warn("rate limit starts empty: its period or templates have changed", "rule", c.Name)
	case was.Memory == c.Memory && was.rate.Limit() == c.rate.Limit() && was.largest == c.largest:
		c.table = was.table
	default:
		// A table judges by the limit it was made with which keys are idle.
		for tag, state := range was.table.all() {
			c.table.keep(binary.LittleEndian.Uint64(tag), state, l.opts.Now())
		}
		c.table.touch()
	}
}

func find(rules []*rule, name string) *rule {
	for _, r := range rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Limit applies every rule and returns what to do: the action of the first rule
// whose limit is reached ("defer", "reject" or "hold") and the text for the
// client; else "header" or "log" and the rates, if a rule wants them told; else "dunno". It counts as the rules say: what is refused by any rule
// counts only in strict ones. It never blocks.
func (l *Limiter) Limit(_ context.Context, attr func(name string) []byte) (action, text string, err error) {
	d := deciders.Get().(*decider)
	defer deciders.Put(d)
	if err := d.run(l, attr, false); err != nil {
		l.Stats.Faults.Add(1)
		return "", "", err
	}
	o := d.refusal()
	if o == nil {
		action, text = d.tell()
		return action, text, nil
	}
	return o.rule.Action, o.reply(), nil
}

// reply returns the text for a refused client.
func (q *question) reply() string {
	return q.rule.reply(string(q.key), q.result.Rate, q.rate.Limit())
}

// Apply is [Limiter.Limit] with the outcome of every rule that applies to the
// request, in the order of the rules, and without what the mail server is told of accepted
// requests.
func (l *Limiter) Apply(attr Attributes) (action, text string, outcomes []Outcome, err error) {
	return l.apply(attr, false)
}

// Peek is Apply that counts nothing, as Exim's readonly: the rates are those of the keys
// as they are, without this request. Nobody is told.
func (l *Limiter) Peek(attr Attributes) (action, text string, outcomes []Outcome, err error) {
	return l.apply(attr, true)
}

func (l *Limiter) apply(attr Attributes, readonly bool) (action, text string, outcomes []Outcome, err error) {
	var d decider
	if err := d.run(l, attr, readonly); err != nil {
		l.Stats.Faults.Add(1)
		return "", "", nil, err
	}
	for i := range d.asked {
		q := &d.asked[i]
		o := Outcome{
			Rule: q.rule.Name, Key: string(q.key), Rate: q.result.Rate, Limit: q.rate.Limit(),
			Over: q.result.Over, New: q.result.New, Action: q.rule.Action,
		}
		if o.Over {
			o.Text = q.reply()
		}
		outcomes = append(outcomes, o)
	}
	if o := d.refusal(); o != nil {
		return o.rule.Action, o.reply(), outcomes, nil
	}
	return Dunno, "", outcomes, nil
}

// A Usage says what one rule takes.
type Usage struct {
	Rule    Rule
	Keys    int
	Bytes   int64 // of states and index
	Evicted int64 // keys that gave way because the memory was spent
	Dropped int64 // keys that were idle
}

// Usage returns the use of every rule, in their order.
func (l *Limiter) Usage() []Usage {
	var all []Usage
	for _, r := range *l.rules.Load() {
		u := Usage{Rule: r.Rule}
		if r.reads != nil {
			all = append(all, u)
			continue
		}
		u.Keys, u.Bytes, u.Evicted, u.Dropped = r.table.usage()
		all = append(all, u)
	}
	return all
}

// A Status is the state of one key in one rule.
type Status struct {
	Rule   string
	Rate   float64 // in a period, as decayed until now
	Limit  float64
	Period time.Duration
	Items  float64 // different items in the filter, estimated from its fill
}

// folded returns a key as templates write it: A to Z in lower case, every other
// byte as it is.
func folded(key string) []byte { return appendLower(nil, []byte(key)) }

// Show returns the states of key (as its template gives it, any case) in every
// rule that has one, or in the named rule alone.
func (l *Limiter) Show(rule, key string) ([]Status, error) {
	var all []Status
	now := l.opts.Now()
	for _, r := range *l.rules.Load() {
		if rule != "" && r.Name != rule {
			continue
		}
		hash := r.hash(folded(key))
		s := Status{Rule: r.Name, Limit: r.rateOf(hash).Limit(), Period: r.Period}
		found := false
		var errs [2]error
		r.states().view(hash, func(state []byte) {
			if found = state != nil; found {
				s.Rate, errs[0] = r.rate.Rate(state, now)
				s.Items, errs[1] = r.rate.Items(state)
			}
		})
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("ratelimit: rule %q: %w", r.Name, err)
		}
		if found {
			all = append(all, s)
		}
	}
	return all, nil
}

// Reset forgets key in every rule, or in the named one alone, and returns in how
// many rules it was known.
func (l *Limiter) Reset(rule, key string) int {
	n := 0
	for _, r := range *l.rules.Load() {
		if r.reads == nil && (rule == "" || r.Name == rule) && r.table.drop(r.hash(folded(key))) {
			n++
		}
	}
	return n
}

// Run drops idle keys, reads changed files of limits and saves changed states until ctx ends, and then saves
// once more. It returns the error of the last save.
func (l *Limiter) Run(ctx context.Context) error {
	tick := time.NewTicker(l.opts.Checkpoint)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return l.Save()
		case <-tick.C:
		}
		for _, r := range *l.rules.Load() {
			if r.reads == nil {
				r.table.clean(l.opts.Now())
			}
		}
		l.watchLimits()
		if err := l.Save(); err != nil {
			l.opts.Log.Error("rate limits not saved", "err", err)
		}
	}
}
