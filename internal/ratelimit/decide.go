package ratelimit

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A decider is the working memory of one decision.
type decider struct {
	asked []question // one for each rule that applies
	buf   []byte
}

// A question is one rule applied to one request.
type question struct {
	rule   *rule
	rate   *filter.UniqueRate // the rate that applies to this key
	key    []byte
	item   []byte
	hash   uint64
	n      float64
	result filter.RateMeasurement
	// readonly is set if nothing is to be counted.
	readonly bool
}

// measures reports whether the key has no limit, so that only its rate is wanted.
func (q *question) measures() bool { return q.rate == q.rule.measuring }

// deciders keeps the working memory of finished decisions; it holds no state.
var deciders = sync.Pool{New: func() any { return new(decider) }}

// run asks every rule, then counts, unless the request is read-only.
func (d *decider) run(l *Limiter, attr Attributes, readonly bool) error {
	l.Stats.Requests.Add(1)
	d.collect(l, attr, readonly)
	if len(d.asked) == 0 {
		return nil
	}
	now := l.opts.Now()
	// A single rule is measured and counted at once; several rules are all asked before any of them
	// counts.
	if len(d.asked) > 1 || d.asked[0].readonly {
		for i := range d.asked {
			if err := d.asked[i].peek(now); err != nil {
				return err
			}
		}
	}
	refused := d.refusal()
	for i := range d.asked {
		q := &d.asked[i]
		if q.readonly {
			if !readonly { // a rule that reads another one
				l.notify(q, now)
			}
			continue
		}
		q.rule.heavy.add(q.key, q.n, now, q.rule.Period)
		if refused == nil || q.rule.Strict || q.measures() {
			if err := q.measure(now); err != nil {
				return err
			}
		} else {
			q.result.Counted = false // another rule refuses it
		}
		l.notify(q, now)
	}
	if !readonly && d.refusal() != nil {
		l.Stats.Refused.Add(1)
	}
	return nil
}

// collect finds the rules that apply, their keys and their items.
func (d *decider) collect(l *Limiter, attr Attributes, readonly bool) {
	d.asked, d.buf = d.asked[:0], d.buf[:0]
	for _, r := range *l.rules.Load() {
		if !r.applies(attr) {
			continue
		}
		n, ok := r.amount(attr, d.buf[len(d.buf):])
		if !ok {
			continue
		}
		readonly := readonly || r.reads != nil
		if readonly {
			n = 0 // the rate without this event
		}
		start := len(d.buf)
		if d.buf, ok = r.key.append(d.buf, attr, false); !ok {
			d.buf = d.buf[:start]
			continue
		}
		middle := len(d.buf)
		if d.buf, ok = r.unique.append(d.buf, attr, true); !ok && r.reads == nil ||
			r.exemptKeys[string(d.buf[start:middle])] {
			d.buf = d.buf[:start]
			continue
		}
		// When buf grows, these slices keep the old memory, which is not modified any more.
		key, item := d.buf[start:middle:middle], d.buf[middle:len(d.buf):len(d.buf)]
		hash := r.hash(key)
		d.asked = append(d.asked, question{rule: r, rate: r.rateOf(hash), key: key, item: item, hash: hash, n: n,
			readonly: readonly})
	}
}

// refusal returns the first rule that refuses, or nil.
func (d *decider) refusal() *question {
	for i := range d.asked {
		if q := &d.asked[i]; q.result.Over && q.rule.refuses() {
			return q
		}
	}
	return nil
}

func (q *question) peek(now time.Time) (err error) {
	q.rule.states().view(q.hash, func(state []byte) {
		q.result, err = q.rate.Peek(state, now, q.item, q.n)
	})
	q.result.Counted = q.result.Counted && !q.readonly
	q.result.Over = q.result.Over && !q.measures()
	if err != nil {
		return fmt.Errorf("ratelimit: rule %q: %w", q.rule.Name, err)
	}
	return nil
}

func (q *question) measure(now time.Time) (err error) {
	q.rule.states().update(q.hash, now, func(state *[]byte) {
		q.result, err = q.rate.Measure(state, now, q.item, q.n)
	})
	q.result.Over = q.result.Over && !q.measures()
	if err != nil {
		return fmt.Errorf("ratelimit: rule %q: %w", q.rule.Name, err)
	}
	return nil
}

// notify reports a key at the warning level or at the limit.
func (l *Limiter) notify(q *question, now time.Time) {
	r, limit := q.rule, q.rate.Limit()
	warned := r.Warn > 0 && limit > 0 && q.result.Counted && q.result.Rate >= r.Warn*limit
	if !warned && !q.result.Over || !l.reported.first(q, now) {
		return
	}
	l.Stats.Warned.Add(1)
	e := Event{
		Time: now, Rule: r.Name, Key: string(q.key), Rate: q.result.Rate, Limit: limit,
		Period: period(r.Period), Over: q.result.Over, Action: r.Action,
	}
	l.opts.Log.Warn("rate limit", "rule", e.Rule, "key", printable(e.Key), "rate", e.Rate,
		"limit", e.Limit, "period", e.Period, "over", e.Over, "action", e.Action)
	if l.opts.Notify != nil {
		l.opts.Notify(e)
	}
}

// maxReported is the maximum number of keys remembered as reported.
const maxReported = 1 << 14

// reported remembers which keys were reported, so that each key is reported once per period and level,
// however many requests it makes.
type reported struct {
	mu   sync.Mutex
	till map[reportedKey]time.Time
}

type reportedKey struct {
	rule string
	hash uint64
	over bool
}

// first reports whether the key was not reported within the last period.
func (t *reported) first(q *question, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := reportedKey{q.rule.Name, q.hash, q.result.Over}
	// A time more than a period ahead dates from before the clock was set back.
	if till, ok := t.till[k]; ok && now.Before(till) && !till.After(now.Add(q.rule.Period)) {
		return false
	}
	if t.till == nil {
		t.till = make(map[reportedKey]time.Time)
	}
	if len(t.till) >= maxReported {
		for k, till := range t.till {
			if !now.Before(till) {
				delete(t.till, k)
			}
		}
		// In a flood of keys over their limits, repeating some reports is better than dropping all.
		if len(t.till) >= maxReported {
			clear(t.till)
		}
	}
	t.till[k] = now.Add(q.rule.Period)
	return true
}

// states returns the states that the rule judges: its own, or the present states of the rule that
// it reads.
func (r *rule) states() *table {
	if r.reads != nil {
		return r.reads.table
	}
	return r.table
}

// delay returns how long the client has to wait: the longest delay of all rules, 0 for none.
func (d *decider) delay() (longest time.Duration) {
	for i := range d.asked {
		if q := &d.asked[i]; q.result.Over {
			longest = max(longest, q.rule.Delay)
		}
	}
	return longest
}

// accepted returns the action for a request that no rule refuses, and for a delay its seconds.
func (d *decider) accepted() (action, text string) {
	if wait := d.delay(); wait > 0 {
		return Delay, strconv.Itoa(int(wait / time.Second))
	}
	return Dunno, ""
}

// answer returns what the mail server is to log or add for a request that no rule refuses or delays.
func (d *decider) answer() (action, text string) {
	header := ""
	var b strings.Builder
	for _, want := range []string{TellHeader, TellLog} {
		for i := range d.asked {
			q := &d.asked[i]
			if q.rule.Accepted != want || header != "" && q.rule.Header != header {
				continue
			}
			switch {
			case b.Len() > 0:
				b.WriteString("; ")
			case want == TellHeader:
				header = q.rule.Header
				b.WriteString(header + ": ")
			default:
				b.WriteString("rate ")
			}
			b.WriteString(q.format(want == TellLog))
		}
		if b.Len() > 0 {
			return want, b.String()
		}
	}
	return Dunno, ""
}

// format formats a rate. The key is included for the log only: the recipient of the mail, who can
// read its header, need not know the key.
func (q *question) format(key bool) string {
	limit := "no limit"
	if !q.measures() {
		limit = number(q.rate.Limit())
	}
	text := fmt.Sprintf("%s %.1f of %s per %s", q.rule.Name, q.result.Rate, limit, period(q.rule.Period))
	if key {
		text += " key=" + printable(string(q.key))
	}
	return text
}
