package doors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/abuse"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/verify"
	"github.com/bulkhead-mail/bulkhead/milter"
)

// policiesOf returns the recipients' policies; the first has no domain and applies to all other
// recipients.
func policiesOf(m *config.Milter) []milter.Policy {
	everybody := config.MilterPolicy{
		Spam: m.Spam, Listed: m.Listed, Suspected: m.Suspected, Bulk: m.Bulk, Grey: m.Grey, Confidence: m.Confidence,
		Threshold: m.Threshold, Text: m.Text,
	}
	var all []milter.Policy
	for _, p := range append([]config.MilterPolicy{everybody}, m.Policies...) {
		all = append(all, milter.Policy{
			Domain: p.Domain, Spam: milter.Action(p.Spam), Listed: milter.Action(p.Listed),
			Suspected: milter.Action(p.Suspected), Bulk: milter.Action(p.Bulk), Grey: milter.Action(p.Grey),
			Confidence: p.Confidence, Threshold: p.Threshold, Text: p.Text,
		})
	}
	return all
}

// rightPolicies is policiesOf, and checks that a milter accepts them.
func rightPolicies(m *config.Milter) ([]milter.Policy, error) {
	policies := policiesOf(m)
	if err := new(milter.Server).SetPolicies(policies); err != nil {
		return nil, &config.Error{Key: "milter.policy", Detail: err.Error()}
	}
	return policies, nil
}

// listsOf answers the milter's look-ups from a set of lists.
type listsOf struct {
	set   *lists.Set
	names map[string]bool // names to look up; empty: all
}

// Find implements [milter.Lists].
func (l listsOf) Find(text string) []milter.Match {
	e, err := lists.ParseEntry(text)
	if err != nil {
		return nil
	}
	var all []milter.Match
	for _, m := range l.set.Find(e) {
		if len(l.names) == 0 || l.names[m.List] {
			all = append(all, milter.Match{List: m.List, Tone: string(m.Tone), Entry: m.Element, Reason: m.Reason,
				Error: m.Error})
		}
	}
	return all
}

// milterOf returns the milter with its settings in the configuration.
func milterOf(cfg *config.Config) (*milter.Server, error) {
	m := &cfg.Milter
	exempt, err := config.ParseNetworks(m.ExemptNetworks)
	if err != nil {
		return nil, &config.Error{Key: "milter.exempt_networks", Detail: err.Error()}
	}
	var ballots []milter.Ballot
	for _, b := range []milter.Ballot{{Address: m.Abuse, Vote: bulkhead.Spam}, {Address: m.AbuseHam, Vote: bulkhead.Ham}} {
		if b.Address != "" {
			ballots = append(ballots, b)
		}
	}
	return &milter.Server{
		Ballots: ballots, Unpack: unpack,
		Policies: policiesOf(m), Traps: m.Traps, DiscardTrapped: m.DiscardTrapped, ExemptNetworks: exempt,
		ExemptLogins: m.ExemptLogins,
		FailTempfail: m.OnFault == "tempfail", Host: cfg.Node.Name, MaxMessage: m.MaxMessage,
		Timeout:  time.Duration(m.Timeout),
		IdleTime: time.Duration(m.IdleTimeout),
	}, nil
}

// unpack returns the messages in a mail to an abuse address.
func unpack(raw []byte) ([][]byte, error) {
	messages, _, err := abuse.Messages(raw)
	return messages, err
}

// checkMilter checks policies and traps.
func checkMilter(p *proposal) error {
	front, err := milterOf(p.Config)
	if err != nil {
		return err
	}
	front.Clearinghouse = struct{ bulkhead.Clearinghouse }{} // it is never called
	if err := front.Prepare(); err != nil {
		return &config.Error{Key: "milter", Detail: err.Error()}
	}
	return nil
}

// newMilter returns the milter of the node's configuration, and the verifier of its messages.
func (s *Set) newMilter() (*milter.Server, *verify.Verifier, error) {
	cfg := s.opts.Config()
	m := &cfg.Milter
	front, err := milterOf(cfg)
	if err != nil {
		return nil, nil, err
	}
	hashing := s.opts.Hashing
	// For mail that is only counted, the node's own bands find near copies. rspamd's shingles would
	// need half as much memory again.
	hashing.Skip = []bulkhead.Scheme{bulkhead.RspamdShingle}
	front.Clearinghouse, front.Signatures, front.Log = s.houseFor("milter"), hashing, s.opts.Log.With("door", "milter")
	if s.opts.Messages != nil {
		front.Features = s.opts.Messages.Features
	}
	front.Memory, front.MaxConns = s.opts.Memory, s.connections()
	front.AuthResults = func() []string { return s.opts.Config().Whitelist.AuthResults }
	verifier := verify.New(verify.Options{Resolver: config.WithPort(m.Resolver, "53"), Now: clock.Now, Log: front.Log})
	if m.Verify {
		front.Verify = verifier.Verify
	}
	// Even if there is no list yet: a reload may add one.
	asked := listsOf{set: s.opts.Lists, names: make(map[string]bool)}
	for _, name := range m.Lists {
		asked.names[name] = true
	}
	front.Lists = asked
	if m.RateLimits {
		front.Limiter = policyLimiter{s.opts.Limits}
	}
	if err := front.Prepare(); err != nil {
		return nil, nil, &config.Error{Key: "milter", Detail: err.Error()}
	}
	return front, verifier, nil
}

// openMilter opens the door for Postfix and Sendmail.
func (s *Set) openMilter(ctx context.Context, address string) (*opened, error) {
	front, verifier, err := s.newMilter()
	if err != nil {
		return nil, err
	}
	o, err := openStream(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics, o.times = append(milterMetrics(&front.Stats),
		verifyMetrics("milter", &verifier.Stats)), []*door.Times{&front.Stats.Times}
	o.prepare = func(p *proposal) (func() error, error) {
		policies, err := rightPolicies(&p.Milter)
		return func() error { return front.SetPolicies(policies) }, err
	}
	return o, nil
}

func milterMetrics(s *milter.Stats) []prometheus.Collector {
	return []prometheus.Collector{
		newFamily("bulkhead_milter_messages_total", "Messages that the milter judged, by class.", "class",
			map[string]*atomic.Int64{
				"white": &s.Classes.White, "spam": &s.Classes.Spam, "listed": &s.Classes.Listed,
				"suspected": &s.Classes.Suspected, "bulk": &s.Classes.Bulk,
				"grey": &s.Classes.Grey, "none": &s.Classes.Clean,
			}),
		newFamily("bulkhead_milter_actions_total", "Messages that the milter refused, deferred or put on hold.", "action",
			map[string]*atomic.Int64{
				"reject": &s.Actions.Rejected, "tempfail": &s.Actions.Tempfailed, "quarantine": &s.Actions.Quarantined,
			}),
		newFamily("bulkhead_milter_events_total",
			"Other events of the milter; fault: a message that was not judged or not counted.", "event",
			map[string]*atomic.Int64{
				"connection": &s.Connections, "exempt": &s.Exempt, "oversize": &s.Oversize, "fault": &s.Faults,
				"reported": &s.Ballots.Votes, "report_refused": &s.Ballots.Refused, "report_ignored": &s.Ballots.Unauthenticated,
				"malformed": &s.Malformed, "forged_header": &s.Forged, "trapped": &s.Trapped, "verified": &s.Verified,
				"limited": &s.Limited,
			}),
	}
}
