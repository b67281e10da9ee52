package ratelimit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
)

// DefaultCheckpoint is how often changed states are saved.
const DefaultCheckpoint = time.Minute

// maxRules is the maximum number of rules. A request may have to pass all of them.
const maxRules = 64

// Options configure a [Limiter].
type Options struct {
	Rules []Rule
	// Dir is the folder of the saved states, created if absent. Empty: nothing is saved.
	Dir string
	// Checkpoint is how often changed states are saved; 0 means [DefaultCheckpoint]. A crash loses
	// the counts since the last checkpoint.
	Checkpoint time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Random is the source of the secret that keys all hashes; nil means crypto/rand.
	Random io.Reader
	// Notify is called when a key reaches the warning level of a rule, and when it reaches the
	// limit: each at most once per period of the rule. It must not block. nil means that there are
	// no notifications.
	Notify func(Event)
	// Log receives events and faults; nil discards them.
	Log *slog.Logger
}

// An Event is a key that has reached the warning level or the limit of a rule. A webhook receives
// its JSON form.
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

// An Outcome is the result of one rule for one request.
type Outcome struct {
	Rule  string
	Key   string
	Rate  float64 // in a period, including this request
	Limit float64
	Over  bool
	New   bool   // the item was not seen before in this period
	Text  string // for the refused client; "" unless Over
}

// A Limiter applies rules to requests. Its methods may be called concurrently.
type Limiter struct {
	opts     Options
	secret   filter.Secret
	rules    atomic.Pointer[[]*rule]
	mu       sync.Mutex // one Reload or Save at a time
	reported reported

	Stats Stats
}

// Stats are the counters of a [Limiter]. All of them may be read at any time.
type Stats struct {
	Requests atomic.Int64 // requests that were examined
	Refused  atomic.Int64 // requests that were deferred, rejected or put on hold
	Warned   atomic.Int64 // events
	Faults   atomic.Int64 // states and limit files that could not be read, or states not saved
}

// Open checks the rules and loads the saved states. A state file that is damaged or no longer fits
// its rule is set aside and logged, and the rule starts empty. Open fails if a rule has a mistake,
// or if the folder or the secret in it cannot be used.
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

// Reload replaces the rules. A rule that keeps its name, period and templates keeps its states. If
// any rule has a mistake, nothing changes.
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

// adopt gives a new rule the states of the rule that had its name, or else its saved states.
func (l *Limiter) adopt(c, was *rule) {
	switch {
	case was == nil || was.reads != nil:
		l.load(c)
	case was.rate.ID() != c.rate.ID():
		l.opts.Log.Warn("rate limit starts empty", "rule", c.Name,
			"reason", "its period or templates have changed")
	case was.Memory == c.Memory && was.rate.Limit() == c.rate.Limit() && was.largest == c.largest:
		c.table, c.heavy = was.table, was.heavy
	default:
		c.heavy = was.heavy
		// A table judges which keys are idle by the limit that it was made with.
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

// Limit applies every rule and returns the resulting action:
//
//   - the action of the first rule whose limit is reached ("defer", "reject" or "hold"), with the text
//     for the client;
//   - else "delay" with the seconds of the longest delay;
//   - else "header" or "log" with the rates, if a rule asks for them;
//   - else "dunno".
//
// Rules that measure or are strict count every request, the others only requests that no rule
// refuses. Limit waits for nothing but short locks. An error means that a state is damaged.
func (l *Limiter) Limit(_ context.Context, attr func(name string) []byte) (action, text string, err error) {
	d := deciders.Get().(*decider)
	defer deciders.Put(d)
	if err := d.run(l, attr, false); err != nil {
		l.Stats.Faults.Add(1)
		return "", "", err
	}
	o := d.refusal()
	if o == nil {
		if action, text = d.accepted(); action == Dunno {
			action, text = d.answer()
		}
		return action, text, nil
	}
	return o.rule.Action, o.reply(), nil
}

// reply returns the text for a refused client.
func (q *question) reply() string {
	return q.rule.reply(string(q.key), q.result.Rate, q.rate.Limit())
}

// Apply is [Limiter.Limit], but it also returns the outcome of every rule that applies to the
// request, in their order, and it returns "dunno" for every request that is not refused.
func (l *Limiter) Apply(attr Attributes) (action, text string, outcomes []Outcome, err error) {
	return l.apply(attr, false)
}

// Peek is Apply without counting, like Exim's readonly: the rates are the keys' present rates,
// without this request. It sends no notifications.
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
			Over: q.result.Over, New: q.result.New,
		}
		if o.Over {
			o.Text = q.reply()
		}
		outcomes = append(outcomes, o)
	}
	if o := d.refusal(); o != nil {
		return o.rule.Action, o.reply(), outcomes, nil
	}
	action, text = d.accepted()
	return action, text, outcomes, nil
}

// A Usage is the memory use of one rule, and what the rule has dropped since it was loaded.
type Usage struct {
	Rule    Rule
	Keys    int
	Bytes   int64 // of states and index
	Evicted int64 // keys dropped to make room
	Dropped int64 // keys dropped as idle
}

// Usage returns the usage of every rule, in their order. A rule that reads another rule has no
// usage of its own.
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
	Rate   float64 // in a period, decayed to the present
	Limit  float64
	Period time.Duration
	Items  float64 // different items in the filter, estimated from its fill
}

// folded returns a key as templates write it: A to Z in lower case, every other byte unchanged.
func folded(key string) []byte { return appendLower(nil, []byte(key)) }

// Show returns the state of a key in every rule that has one, or in the named rule alone. The key
// has the form that the rule's template makes, in any case. An error means that a state is damaged.
func (l *Limiter) Show(rule, key string) ([]Status, error) {
	var all []Status
	now := l.opts.Now()
	for _, r := range *l.rules.Load() {
		if rule != "" && r.Name != rule {
			continue
		}
		s, found, err := r.show(folded(key), now)
		if err != nil {
			return nil, err
		}
		if found {
			all = append(all, s)
		}
	}
	return all, nil
}

// Reset forgets a key in every rule, or in the named rule alone, and returns how many rules had the
// key.
func (l *Limiter) Reset(rule, key string) int {
	n := 0
	for _, r := range *l.rules.Load() {
		if r.reads != nil || rule != "" && r.Name != rule {
			continue
		}
		r.heavy.remove(string(folded(key)))
		if r.table.drop(r.hash(folded(key))) {
			n++
		}
	}
	return n
}

// Run drops idle keys, reads changed limit files and saves changed states at every checkpoint until
// ctx ends, and then saves once more. It returns the error of the last save.
func (l *Limiter) Run(ctx context.Context) error {
	for range clock.Ticks(ctx, l.opts.Checkpoint) {
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
	return l.Save()
}
