package ratelimit

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// The actions of a rule for a request over its limit.
const (
	Dunno  = "dunno"  // only measure, log and notify
	Defer  = "defer"  // refuse for now
	Reject = "reject" // refuse for good
	Hold   = "hold"   // accept, and put the message on hold
	Delay  = "delay"  // accept, after some time
)

var actions = []string{Defer, Reject, Hold, Delay, Dunno}

// The protocol states in which a rule may apply; [AnyState] means all of them.
const (
	StateConnect = "CONNECT"
	StateEhlo    = "EHLO" // or HELO
	StateMail    = "MAIL"
	StateRcpt    = "RCPT"
	StateData    = "DATA"
	StateEnd     = "END-OF-MESSAGE"
	AnyState     = "any"
)

var states = []string{StateConnect, StateEhlo, StateMail, StateRcpt, StateData, StateEnd, AnyState}

// The places where the mail server can record the rate of an accepted request.
const (
	TellLog    = "log"    // the rate, in the log of the mail server
	TellHeader = "header" // the rate, in a header field of the message
)

// DefaultHeader is the default name of the header field with the rate.
const DefaultHeader = "X-Bulkhead-Rate"

// DefaultMemory is the memory budget of one rule, in bytes: enough for a million keys with a limit
// of 10.
const DefaultMemory = 128 << 20

// MaxDelay is the longest [Rule].Delay. It is shorter than the timeouts of clients and mail
// servers.
const MaxDelay = time.Minute

// The bounds on a rule.
const (
	maxName   = 64
	maxText   = 512
	minMemory = 64 << 10
	maxMemory = 1 << 40
	maxWarn   = 1000
	maxHeader = 60
)

// A Rule is one [[ratelimit]] of the configuration.
type Rule struct {
	// Name identifies the rule: 1 to 64 of a-z, 0-9, - and _. It is also the name of the state
	// file.
	Name string
	// Per is what is counted, as Exim names it: conn, cmd, mail, rcpt, addr or byte. It supplies
	// State, Unique and Count where these are empty. Empty: State, Unique and Count apply as they
	// are.
	Per string
	// Reads is the name of another rule. This rule judges the other rule's counts by its own Limit
	// without counting anything, like Exim's readonly. Key, Unique, Count, Per, Period and Memory
	// come from the other rule, and must be empty here.
	Reads string
	// Key is the template of what is limited. The rule does not apply to a request that has an
	// empty value for one of its placeholders.
	Key string
	// Unique is the template of what is counted once in a period. Empty: every request counts. The
	// rule does not apply to a request that has an empty value for one of its placeholders, but an
	// empty sender counts as "<>".
	Unique string
	// Count is a number, or a template for the amount of one request, for example "{size}" or
	// "{recipient_count}". Empty: 1. A request counts nothing if its amount is not a decimal number
	// from 0 to 2^53, with or without a fraction.
	Count string
	// State is the protocol state in which the rule applies: CONNECT, EHLO (and HELO), MAIL, RCPT,
	// DATA, END-OF-MESSAGE, or any. Empty: the state of Per. Without Per it is END-OF-MESSAGE if
	// Count has a placeholder, since the size is not known earlier, and RCPT otherwise. The rule
	// always applies to requests without a state.
	State string
	// Limit is the amount that a period may hold, 0 or more. At 0 the rule only measures: it counts
	// every event and refuses none, so Action must be dunno unless single keys have limits. Above
	// 0, a request is refused if the rate including it reaches the limit; see [filter.UniqueRate].
	// Of requests of amount 1 in quick succession, a limit of N above 1 admits N, and a limit of 1
	// or less admits none.
	Limit float64
	// Limits are limits of single keys: "KEY LIMIT", where LIMIT is a number above 0, "measure" for
	// a key that is counted and never over its limit, or "block" for a key that always is.
	Limits []string
	// LimitsFile is a file with further limits, one on each line; lines that begin with "#" are
	// comments. It is read again when it has changed. Empty: none.
	LimitsFile string
	// Period is the smoothing period, and the lifetime of the filter.
	Period time.Duration
	// Strict also counts refused requests, so that a key over its limit gets nothing through until
	// it slows down. Otherwise only accepted requests count.
	Strict bool
	// Action is one of defer, reject, hold, delay and dunno; empty means defer. A delayed request
	// is not refused: Strict determines whether it counts.
	Action string
	// Delay is how long the action delay makes the client wait: 1 s to [MaxDelay] in whole seconds.
	// It is 0 with any other action.
	Delay time.Duration
	// Text is the reply to the refused client; {rule}, {key}, {rate}, {limit} and {period} are
	// replaced. Empty: a text that names limit and period.
	Text string
	// Accepted selects where the mail server records the rate of requests that no rule refuses: in
	// its "log" or in a "header" field of the message. Empty: nowhere.
	Accepted string
	// Header is the name of that field; empty means [DefaultHeader].
	Header string
	// Warn is the share of the limit, 0 to 1000, at which [Options.Notify] is called, for
	// example 0.8; 0 means never. It is always called when the limit itself is reached.
	Warn float64
	// Exempt lists the networks to whose requests (by client_address) the rule does not apply.
	Exempt []netip.Prefix
	// ExemptKeys lists the keys, in lower case, to which the rule does not apply.
	ExemptKeys []string
	// Memory is the maximum memory of the states, in bytes; 0 means DefaultMemory.
	Memory int64
}

// A rule is a checked Rule with its states.
type rule struct {
	Rule
	key, unique, count Template
	exemptKeys         map[string]bool
	secret             filter.Secret
	rate               *filter.UniqueRate
	largest            int                // bytes of the largest state
	measuring          *filter.UniqueRate // for keys without a limit: a limit of 0, at which everything counts
	blocking           *filter.UniqueRate // for keys that are always over their limit
	byKey              atomic.Pointer[keyLimits]
	stamp              wholefile.Stamp // of LimitsFile, when it was read
	reads              *rule           // the rule that owns the states, or nil
	table              *table
	heavy              *heavy // the busiest keys
}

// hash returns the hash by which a key is found.
func (r *rule) hash(key []byte) uint64 { return r.secret.Key(key).Hi }

// ruleSecret derives the secret of a rule's hashes from everything that gives its states their
// meaning. A rule with a different template therefore finds no old states.
func ruleSecret(node filter.Secret, r Rule) (s filter.Secret) {
	k := node.Key([]byte("ratelimit"), []byte(r.Name), []byte(r.Key), []byte(r.Unique), []byte(r.Count))
	binary.LittleEndian.PutUint64(s[:8], k.Hi)
	binary.LittleEndian.PutUint64(s[8:], k.Lo)
	return s
}

// compile checks r. The error names the rule and the field.
func compile(r Rule, secret filter.Secret) (*rule, error) {
	c := &rule{Rule: r, exemptKeys: make(map[string]bool), heavy: new(heavy)}
	if err := c.defaults(); err != nil {
		return nil, fmt.Errorf("ratelimit: rule %.*q: %w", maxName, r.Name, err)
	}
	for _, k := range r.ExemptKeys {
		c.exemptKeys[string(folded(k))] = true
	}
	if r.Reads != "" {
		return c, nil
	}
	r = c.Rule
	c.secret = ruleSecret(secret, r)
	for _, t := range []struct {
		field, text string
		into        *Template
	}{{"key", r.Key, &c.key}, {"unique", r.Unique, &c.unique}, {"count", r.Count, &c.count}} {
		parsed, err := ParseTemplate(t.text)
		if err != nil {
			return nil, fmt.Errorf("ratelimit: rule %q: %s: %w", r.Name, t.field, err)
		}
		*t.into = parsed
	}
	if c.key.Empty() {
		return nil, fmt.Errorf("ratelimit: rule %q: key is empty", r.Name)
	}
	if text, ok := c.count.constant(); ok && !c.count.Empty() {
		if _, ok := parseAmount([]byte(text)); !ok {
			return nil, fmt.Errorf("ratelimit: rule %q: count %.40q is no number from 0 to 2^53", r.Name, text)
		}
	}
	if err := c.makeRates(); err != nil {
		return nil, fmt.Errorf("ratelimit: rule %q: %w", r.Name, err)
	}
	c.largest = c.rate.MaxStateBytes()
	if c.limitsKeys() && !c.unique.Empty() {
		c.largest = max(c.largest, c.rate.StateBytes()+1) // keys may get higher limits at any time
	}
	var err error
	c.table, err = newTable(c.rate, c.largest, c.Memory)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: rule %q: %w", r.Name, err)
	}
	return c, c.openLimits()
}

// makeRates makes the rates that apply to the keys.
func (r *rule) makeRates() (err error) {
	c := filter.UniqueRateConfig{Period: r.Period, Mode: filter.Strict, Plain: r.unique.Empty(), Secret: r.secret}
	if r.measuring, err = filter.NewUniqueRate(c); err != nil {
		return err
	}
	if !r.Strict {
		c.Mode = filter.Leaky
	}
	if r.blocking, err = filter.NewUniqueRate(c); err != nil {
		return err
	}
	if r.rate = r.measuring; r.Limit != 0 {
		r.rate, err = r.blocking.WithLimit(r.Limit)
	}
	return err
}

// openLimits reads the limits of single keys.
func (r *rule) openLimits() error {
	if !r.limitsKeys() {
		return nil
	}
	r.stamp = wholefile.StampOf(r.LimitsFile) // before reading, so that a change meanwhile is noticed
	keys, err := r.readLimits()
	if err != nil {
		return fmt.Errorf("ratelimit: rule %q: %w", r.Name, err)
	}
	r.byKey.Store(&keys)
	return nil
}

// join makes r a rule that reads the states of another rule.
func (r *rule) join(rules []*rule) error {
	base := find(rules, r.Reads)
	if base == nil || base.Reads != "" {
		return fmt.Errorf("ratelimit: rule %q: no rule that counts is called %.60q", r.Name, r.Reads)
	}
	r.reads, r.key, r.unique, r.secret, r.Period, r.Memory = base, base.key, base.unique, base.secret,
		base.Period, base.Memory
	r.Key, r.Unique = base.Key, base.Unique
	if err := r.makeRates(); err != nil {
		return fmt.Errorf("ratelimit: rule %q: %w", r.Name, err)
	}
	return r.openLimits()
}

// defaults fills in and checks all fields that are not templates.
func (r *rule) defaults() error {
	if err := validName(r.Name); err != nil {
		return err
	}
	if r.Reads != "" && (r.Key != "" || r.Unique != "" || r.Count != "" || r.Per != "" || r.Period != 0 || r.Memory != 0) {
		return fmt.Errorf("what reads rule %.60q has no key, unique, count, per, period or memory of its own", r.Reads)
	}
	if err := r.spell(); err != nil {
		return err
	}
	if r.State == "" {
		r.State = StateRcpt
		if strings.Contains(r.Count, "{") {
			r.State = StateEnd
		}
	}
	if r.Header == "" {
		r.Header = DefaultHeader
	}
	if r.Action == "" {
		r.Action = Defer
	}
	if r.Memory == 0 {
		r.Memory = DefaultMemory
	}
	switch {
	case !slices.Contains(states, r.State):
		return fmt.Errorf("state %.40q is none of %s", r.State, strings.Join(states, ", "))
	case r.Accepted != "" && r.Accepted != TellLog && r.Accepted != TellHeader:
		return fmt.Errorf("accepted %.40q is none of log, header", r.Accepted)
	case r.Accepted == TellHeader && r.State != StateMail && r.State != StateRcpt && r.State != StateData:
		return fmt.Errorf("a header field can be added in the states MAIL, RCPT and DATA, not in %s", r.State)
	case !validHeader(r.Header):
		return fmt.Errorf("header %.80q is not 1 to %d of letters, digits and -", r.Header, maxHeader)
	case !slices.Contains(actions, r.Action):
		return fmt.Errorf("action %.40q is none of %s", r.Action, strings.Join(actions, ", "))
	case r.Action == Delay && (r.Delay < time.Second || r.Delay > MaxDelay || r.Delay%time.Second != 0):
		return fmt.Errorf("delay %v, want whole seconds from 1s to %v", r.Delay, MaxDelay)
	case r.Action != Delay && r.Delay != 0:
		return fmt.Errorf("a delay with the action %s", r.Action)
	case r.Limit == 0 && r.Action != Dunno && !r.limitsKeys():
		return fmt.Errorf("a limit of 0 only measures: action %s, want dunno", r.Action)
	case r.Memory < minMemory || r.Memory > maxMemory:
		return fmt.Errorf("memory of %d bytes, want %d to %d", r.Memory, minMemory, int64(maxMemory))
	case !(r.Warn >= 0 && r.Warn <= maxWarn):
		return fmt.Errorf("warn %g, want 0 to %d", r.Warn, maxWarn)
	case len(r.Text) > maxText:
		return fmt.Errorf("text of %d bytes, limit %d", len(r.Text), maxText)
	case strings.ContainsFunc(r.Text, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return fmt.Errorf("text %.60q has a control character", r.Text)
	}
	for _, p := range r.Exempt {
		if !p.IsValid() {
			return fmt.Errorf("exempt network is not valid")
		}
	}
	return nil
}

func validHeader(name string) bool {
	return name != "" && len(name) <= maxHeader && !strings.ContainsFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-')
	})
}

func validName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("name of %d bytes, want 1 to %d", len(name), maxName)
	}
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return fmt.Errorf("name has %q, want a-z, 0-9, - and _", c)
		}
	}
	return nil
}

// applies reports whether the rule considers a request at all, apart from keys.
func (r *rule) applies(attr Attributes) bool {
	if r.State != AnyState {
		switch state := attr("protocol_state"); {
		case len(state) == 0, string(state) == r.State:
		case r.State == StateEhlo && string(state) == "HELO":
		default:
			return false
		}
	}
	if len(r.Exempt) == 0 {
		return true
	}
	addr, err := netip.ParseAddr(string(attr("client_address")))
	if err != nil {
		return true
	}
	addr = addr.Unmap().WithZone("")
	return !slices.ContainsFunc(r.Exempt, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// refuses reports whether the rule refuses requests over its limit.
func (r *rule) refuses() bool { return r.Action != Dunno && r.Action != Delay }

// amount returns the amount of one request, and false if that is not a number.
func (r *rule) amount(attr Attributes, buf []byte) (float64, bool) {
	if r.count.Empty() {
		return 1, true
	}
	text, ok := r.count.append(buf[:0], attr, false)
	if !ok {
		return 0, false
	}
	return parseAmount(text)
}

// reply returns the text for a refused client.
func (r *rule) reply(key string, rate, limit float64) string {
	text := r.Text
	if text == "" {
		text = "limit of {limit} per {period} reached, try again later"
		if r.Action == Reject || r.Action == Hold {
			text = "limit of {limit} per {period} reached"
		}
	}
	if !strings.Contains(text, "{") {
		return text
	}
	return strings.NewReplacer(
		"{rule}", r.Name, "{key}", printable(key), "{rate}", number(rate),
		"{limit}", number(limit), "{period}", period(r.Period),
	).Replace(text)
}

// maxShown is the maximum length of a key in messages, in bytes.
const maxShown = 200

// printable keeps the bytes and the length of a key, which a client may have chosen, from
// corrupting a reply or the log.
func printable(s string) string {
	if len(s) > maxShown {
		s = s[:maxShown] + "..."
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
}

func number(f float64) string {
	if f == math.Trunc(f) {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'f', 1, 64)
}

// period formats whole hours and minutes without the zeros of time.Duration.
func period(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
