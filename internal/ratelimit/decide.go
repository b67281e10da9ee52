package ratelimit

import (
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A decider is the working space of one decision.
type decider struct {
	asked []question // one for each rule that applies
	buf   []byte
}

// A question is one rule applied to one request.
type question struct {
	rule   *rule
	key    []byte
	item   []byte
	hash   uint64
	n      float64
	result filter.RateMeasurement
}

// deciders keeps the working space of finished decisions; it holds no state.
var deciders = sync.Pool{New: func() any { return new(decider) }}

// run asks every rule, then counts.
func (d *decider) run(l *Limiter, attr Attributes) error {
	l.Stats.Requests.Add(1)
	d.collect(l, attr)
	if len(d.asked) == 0 {
		return nil
	}
	now := l.opts.Now()
	// One rule alone is measured at once; several are asked before any counts.
	if len(d.asked) > 1 {
		for i := range d.asked {
			if err := d.asked[i].peek(now); err != nil {
				return err
			}
		}
	}
	refused := d.refusal()
	for i := range d.asked {
		q := &d.asked[i]
		if refused == nil || q.rule.Strict || q.rule.Limit == 0 {
			if err := q.measure(now); err != nil {
				return err
			}
		} else {
			q.result.Counted = false // what was asked would have been, but for another rule
		}
		l.tell(q, now)
	}
	if d.refusal() != nil {
		l.Stats.Refused.Add(1)
	}
	return nil
}

// collect finds the rules that apply, their keys and their items.
func (d *decider) collect(l *Limiter, attr Attributes) {
	d.asked, d.buf = d.asked[:0], d.buf[:0]
	for _, r := range *l.rules.Load() {
		if !r.applies(attr) {
			continue
		}
		n, ok := r.amount(attr, d.buf[len(d.buf):])
		if !ok {
			continue
		}
		start := len(d.buf)
		if d.buf, ok = r.key.append(d.buf, attr, false); !ok {
			d.buf = d.buf[:start]
			continue
		}
		middle := len(d.buf)
		if d.buf, ok = r.unique.append(d.buf, attr, true); !ok || r.exemptKeys[string(d.buf[start:middle])] {
			d.buf = d.buf[:start]
			continue
		}
		// Growing buf later leaves these slices with the old memory, which stays as it is.
		key, item := d.buf[start:middle:middle], d.buf[middle:len(d.buf):len(d.buf)]
		d.asked = append(d.asked, question{rule: r, key: key, item: item, hash: r.hash(key), n: n})
	}
}

// refusal returns the first rule that refuses, or nil.
func (d *decider) refusal() *question {
	for i := range d.asked {
		if q := &d.asked[i]; q.result.Over && q.rule.Action != Dunno {
			return q
		}
	}
	return nil
}

func (q *question) peek(now time.Time) (err error) {
	q.rule.table.view(q.hash, func(state []byte) {
		q.result, err = q.rule.rate.Peek(state, now, q.item, q.n)
	})
	q.result.Over = q.result.Over && q.rule.Limit > 0
	if err != nil {
		return fmt.Errorf("ratelimit: rule %q: %w", q.rule.Name, err)
	}
	return nil
}

func (q *question) measure(now time.Time) (err error) {
	q.rule.table.update(q.hash, now, func(state *[]byte) {
		q.result, err = q.rule.rate.Measure(state, now, q.item, q.n)
	})
	q.result.Over = q.result.Over && q.rule.Limit > 0
	if err != nil {
		return fmt.Errorf("ratelimit: rule %q: %w", q.rule.Name, err)
	}
	return nil
}

// tell reports a key at the warning level or at the limit.
func (l *Limiter) tell(q *question, now time.Time) {
	r := q.rule
	warned := r.Warn > 0 && r.Limit > 0 && q.result.Counted && q.result.Rate >= r.Warn*r.Limit
	if !warned && !q.result.Over || !l.told.first(q, now) {
		return
	}
	l.Stats.Warned.Add(1)
	e := Event{
		Time: now, Rule: r.Name, Key: string(q.key), Rate: q.result.Rate, Limit: r.Limit,
		Period: period(r.Period), Over: q.result.Over, Action: r.Action,
	}
	l.opts.Log.Warn("rate limit", "rule", e.Rule, "key", printable(e.Key), "rate", e.Rate,
		"limit", e.Limit, "period", e.Period, "over", e.Over, "action", e.Action)
	if l.opts.Notify != nil {
		l.opts.Notify(e)
	}
}

// maxTold is how many keys are remembered as reported.
const maxTold = 1 << 14

// told remembers which keys were reported, so that each is reported once a
// period and level, however many requests it makes.
type told struct {
	mu   sync.Mutex
	till map[toldKey]time.Time
}

type toldKey struct {
	rule string
	hash uint64
	over bool
}

// first reports whether the key was not reported within the last period.
func (t *told) first(q *question, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := toldKey{q.rule.Name, q.hash, q.result.Over}
	// One that lies more than a period ahead is from before the clock was set back.
	if till, ok := t.till[k]; ok && now.Before(till) && !till.After(now.Add(q.rule.Period)) {
		return false
	}
	if t.till == nil {
		t.till = make(map[toldKey]time.Time)
	}
	if len(t.till) >= maxTold {
		for k, till := range t.till {
			if !now.Before(till) {
				delete(t.till, k)
			}
		}
		// A flood of keys over their limits: better reported again than not.
		if len(t.till) >= maxTold {
			clear(t.till)
		}
	}
	t.till[k] = now.Add(q.rule.Period)
	return true
}
