package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/api"
	"github.com/bulkhead-mail/bulkhead/dnsbl"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/ratelimit"
	"github.com/bulkhead-mail/bulkhead/milter"
	"github.com/bulkhead-mail/bulkhead/policy"
)

// rateFolder is the folder of the rate limits in the data folder.
const rateFolder = "ratelimits"

// An mta is what the doors for mail servers share: rate limits and lists.
type mta struct {
	limits  *ratelimit.Limiter
	webhook *ratelimit.Webhook // nil if there is none
	lists   *lists.Set
	milter  *milter.Server // nil while its door is shut; so the next two
	policy  *policy.Server
	dnsbl   *dnsbl.Server
}

// openMTA reads the rate limits and the lists.
func (s *server) openMTA(cfg *config.Config) (*mta, error) {
	m := &mta{}
	rules, err := rulesOf(cfg)
	if err != nil {
		return nil, err
	}
	opts := ratelimit.Options{
		Rules: rules, Dir: filepath.Join(s.dir, rateFolder), Checkpoint: time.Duration(cfg.Policy.Checkpoint),
		Log: s.log.With("part", "ratelimit"),
	}
	if cfg.Policy.Webhook != "" {
		m.webhook = ratelimit.NewWebhook(cfg.Policy.Webhook, nil, opts.Log)
		opts.Notify = m.webhook.Notify
	}
	if m.limits, err = ratelimit.Open(opts); err != nil {
		return nil, &config.Error{Key: "ratelimit", Detail: err.Error()}
	}
	m.lists, err = lists.OpenSet(lists.SetOptions{
		Files: filesOf(cfg), MaxBytes: cfg.Lists.MaxBytes, Watch: time.Duration(cfg.Lists.Watch), Log: s.log.With("part", "lists"),
	})
	if err != nil {
		return nil, &config.Error{Key: "lists.list", Detail: err.Error()}
	}
	return m, nil
}

// loops returns what runs beside the doors.
func (m *mta) loops() []*opened {
	all := []*opened{
		{serve: m.limits.Run},
		{serve: func(ctx context.Context) error { m.lists.Run(ctx); return nil }},
	}
	if m.webhook != nil {
		all = append(all, &opened{serve: func(ctx context.Context) error { m.webhook.Run(ctx); return nil }})
	}
	return all
}

// reload takes over rules, lists, policies and zones. A mistake in the lists or
// the rules changes nothing.
func (m *mta) reload(cfg *config.Config) error {
	rules, err := rulesOf(cfg)
	if err != nil {
		return err
	}
	if err := checkRules(rules); err != nil {
		return err
	}
	policies := policiesOf(&cfg.Milter)
	if err := new(milter.Server).SetPolicies(policies); err != nil {
		return &config.Error{Key: "milter.policy", Detail: err.Error()}
	}
	if m.milter != nil {
		if err := m.milter.SetPolicies(policies); err != nil {
			return err
		}
	}
	if err := m.lists.SetFiles(filesOf(cfg)); err != nil {
		return err
	}
	_ = m.lists.Reload() // what cannot be read is logged there, and stays as it was
	if m.dnsbl != nil {
		zones, err := m.zonesOf(cfg)
		if err == nil {
			err = m.dnsbl.SetZones(zones)
		}
		if err != nil {
			return err
		}
	}
	return m.limits.Reload(rules)
}

// checkRules says whether the rules of rate limits are right.
func checkRules(rules []ratelimit.Rule) error {
	if _, err := ratelimit.Open(ratelimit.Options{Rules: rules}); err != nil {
		return &config.Error{Key: "ratelimit", Detail: err.Error()}
	}
	return nil
}

// checkMTA says whether the parts of a configuration that only their owners can
// judge are right: templates of rate limits, policies and traps of the milter,
// the lists' files, zones. It reads the lists and changes nothing.
func checkMTA(cfg *config.Config) error {
	rules, err := rulesOf(cfg)
	if err != nil {
		return err
	}
	if err := checkRules(rules); err != nil {
		return err
	}
	front, err := milterOf(cfg)
	if err != nil {
		return err
	}
	front.Clearinghouse = struct{ bulkhead.Clearinghouse }{} // nobody asks it
	if err := front.Prepare(); err != nil {
		return &config.Error{Key: "milter", Detail: err.Error()}
	}
	m := &mta{}
	if m.lists, err = lists.OpenSet(lists.SetOptions{Files: filesOf(cfg), MaxBytes: cfg.Lists.MaxBytes}); err != nil {
		return &config.Error{Key: "lists.list", Detail: err.Error()}
	}
	zones, err := m.zonesOf(cfg)
	if err != nil {
		return err
	}
	if _, err := dnsbl.NewServer(dnsbl.Options{Zones: zones}); err != nil {
		return &config.Error{Key: "dnsbl.zone", Detail: err.Error()}
	}
	return nil
}

func rulesOf(cfg *config.Config) ([]ratelimit.Rule, error) {
	var rules []ratelimit.Rule
	for _, r := range cfg.RateLimit {
		exempt, err := prefixes(r.ExemptNetworks)
		if err != nil {
			return nil, &config.Error{Key: "ratelimit.exempt_networks", Detail: err.Error()}
		}
		rules = append(rules, ratelimit.Rule{
			Name: r.Name, Key: r.Key, Unique: r.Unique, Count: r.Count, State: r.State, Limit: r.Limit, Period: time.Duration(r.Period),
			Strict: r.Mode == "strict", Action: r.Action, Text: r.Text, Warn: r.Warn, Exempt: exempt, ExemptKeys: r.ExemptKeys, Memory: r.Memory,
		})
	}
	return rules, nil
}

func filesOf(cfg *config.Config) []lists.File {
	var files []lists.File
	for _, f := range cfg.Lists.Files {
		files = append(files, lists.File{Name: f.Name, Path: f.Path})
	}
	return files
}

func policiesOf(m *config.Milter) []milter.Policy {
	all := []milter.Policy{{
		Spam: milter.Action(m.Spam), Listed: milter.Action(m.Listed), Bulk: milter.Action(m.Bulk), Grey: milter.Action(m.Grey),
		Confidence: m.Confidence, Threshold: m.Threshold, Text: m.Text,
	}}
	for _, p := range m.Policies {
		all = append(all, milter.Policy{
			Domain: p.Domain, Spam: milter.Action(p.Spam), Listed: milter.Action(p.Listed), Bulk: milter.Action(p.Bulk), Grey: milter.Action(p.Grey),
			Confidence: p.Confidence, Threshold: p.Threshold, Text: p.Text,
		})
	}
	return all
}

func (m *mta) zonesOf(cfg *config.Config) ([]dnsbl.Zone, error) {
	var zones []dnsbl.Zone
	for _, z := range cfg.DNSBL.Zones {
		out := dnsbl.Zone{Name: z.Name, Form: dnsbl.Form(z.Form), TTL: time.Duration(z.TTL), Host: z.Host}
		if h := m.lists.Handle(z.List); h != nil {
			out.List = h
			if (z.Form == "hash") != (h.Hash() != "") {
				return nil, &config.Error{Key: "dnsbl.zone", Detail: fmt.Sprintf("zone %q: form %q does not fit list %q of hash %q", z.Name, z.Form, z.List, h.Hash())}
			}
		}
		if z.Code != "" {
			code, err := netip.ParseAddr(z.Code)
			if err != nil {
				return nil, &config.Error{Key: "dnsbl.zone.code", Detail: err.Error()}
			}
			out.Code = code
		}
		zones = append(zones, out)
	}
	return zones, nil
}

// listsOf answers the milter from the lists of a set.
type listsOf struct {
	set   *lists.Set
	names map[string]bool // that are asked; nil for all
}

// Find implements [milter.Lists].
func (l listsOf) Find(text string) []milter.Match {
	e, err := lists.ParseEntry(text)
	if err != nil {
		return nil
	}
	var all []milter.Match
	for _, m := range l.set.Find(e) {
		if l.names == nil || l.names[m.List] {
			all = append(all, milter.Match{List: m.List, Tone: string(m.Tone), Entry: m.Element, Reason: m.Reason, Error: m.Error})
		}
	}
	return all
}

// milterOf returns what the configuration alone says of the milter.
func milterOf(cfg *config.Config) (*milter.Server, error) {
	m := &cfg.Milter
	exempt, err := prefixes(m.ExemptNetworks)
	if err != nil {
		return nil, &config.Error{Key: "milter.exempt_networks", Detail: err.Error()}
	}
	return &milter.Server{
		Policies: policiesOf(m), Traps: m.Traps, DiscardTrapped: m.DiscardTrapped, ExemptNetworks: exempt, ExemptLogins: m.ExemptLogins,
		FailTempfail: m.OnFault == "tempfail", Host: cfg.Node.Name, MaxMessage: m.MaxMessage, Timeout: time.Duration(m.Timeout),
		IdleTime: time.Duration(m.IdleTimeout), MaxConns: cfg.Limits.Connections,
	}, nil
}

// openMilter opens the door for Postfix and Sendmail.
func (s *server) openMilter(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	m := &cfg.Milter
	front, err := milterOf(cfg)
	if err != nil {
		return nil, err
	}
	hashing := s.hashing
	// Of mail that is only counted, the node's own bands tell near copies: those
	// of rspamd would need half as much memory again.
	hashing.Skip = []bulkhead.Scheme{bulkhead.RspamdShingle}
	front.Clearinghouse, front.Signatures, front.Log = s.engine, hashing, s.log.With("door", "milter")
	if len(cfg.Lists.Files) > 0 {
		asked := listsOf{set: s.mta.lists}
		for _, name := range m.Lists {
			if asked.names == nil {
				asked.names = make(map[string]bool)
			}
			asked.names[name] = true
		}
		front.Lists = asked
	}
	if m.RateLimits {
		front.Limiter = s.mta.limits
	}
	if err := front.Prepare(); err != nil {
		return nil, &config.Error{Key: "milter", Detail: err.Error()}
	}
	s.mta.milter = front
	return openStream(ctx, address, front.Serve)
}

// openPolicy opens the door for Postfix policy delegation.
func (s *server) openPolicy(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	front := &policy.Server{
		Limiter: s.mta.limits, FailDefer: cfg.Policy.OnFault == "defer", MaxConns: cfg.Limits.Connections,
		Log: s.log.With("door", "policy"),
	}
	front.Rate, front.Exempt = doorLimits(cfg.Limits)
	s.mta.policy = front
	return openStream(ctx, address, front.Serve)
}

func openStream(ctx context.Context, address string, serve func(context.Context, net.Listener) error) (*opened, error) {
	l, err := listen.Stream(ctx, address)
	if err != nil {
		return nil, err
	}
	return &opened{address: l.Addr().String(), serve: func(ctx context.Context) error { return serve(ctx, l) }}, nil
}

// openDNSBL opens the door for DNS queries, over UDP and TCP.
func (s *server) openDNSBL(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	zones, err := s.mta.zonesOf(cfg)
	if err != nil {
		return nil, err
	}
	opts := dnsbl.Options{Zones: zones, MaxConns: cfg.Limits.Connections, Log: s.log.With("door", "dnsbl")}
	opts.Rate, opts.Exempt = doorLimits(cfg.Limits)
	front, err := dnsbl.NewServer(opts)
	if err != nil {
		return nil, &config.Error{Key: "dnsbl.zone", Detail: err.Error()}
	}
	conns, err := listen.Packets(ctx, address, 0)
	if err != nil {
		return nil, err
	}
	bound := conns[0].LocalAddr().String()
	l, err := listen.Stream(ctx, bound)
	if err != nil {
		for _, c := range conns {
			err = errors.Join(err, c.Close())
		}
		return nil, err
	}
	s.mta.dnsbl = front
	return &opened{address: bound, serve: func(ctx context.Context) error {
		return both(ctx,
			func(ctx context.Context) error { return front.ServeUDP(ctx, conns) },
			func(ctx context.Context) error { return front.ServeTCP(ctx, l) })
	}}, nil
}

// mtaAPI shows rate limits and lists to HTTP clients.
type mtaAPI struct{ m *mta }

// ApplyRateLimits implements [api.RateLimits].
func (a mtaAPI) ApplyRateLimits(_ context.Context, attributes map[string]string) (api.RateDecision, error) {
	action, text, outcomes, err := a.m.limits.Apply(func(name string) []byte {
		if v, ok := attributes[name]; ok {
			return []byte(v)
		}
		return nil
	})
	d := api.RateDecision{Action: action, Text: text, Rules: []api.RateOutcome{}}
	for _, o := range outcomes {
		d.Rules = append(d.Rules, api.RateOutcome{Rule: o.Rule, Key: o.Key, Rate: o.Rate, Limit: o.Limit, Over: o.Over, New: o.New})
	}
	return d, err
}

// RateLimits implements [api.RateLimits].
func (a mtaAPI) RateLimits() []api.RateLimit {
	var all []api.RateLimit
	for _, u := range a.m.limits.Usage() {
		all = append(all, api.RateLimit{
			Name: u.Rule.Name, Key: u.Rule.Key, Unique: u.Rule.Unique, Limit: u.Rule.Limit, Period: config.Duration(u.Rule.Period).String(),
			Action: u.Rule.Action, Keys: u.Keys, Bytes: u.Bytes, Evicted: u.Evicted, Dropped: u.Dropped,
		})
	}
	return all
}

// RateKeys implements [api.RateLimits].
func (a mtaAPI) RateKeys(rule, key string) ([]api.RateKey, error) {
	states, err := a.m.limits.Show(rule, key)
	var all []api.RateKey
	for _, s := range states {
		all = append(all, api.RateKey{Rule: s.Rule, Rate: s.Rate, Limit: s.Limit, Period: config.Duration(s.Period).String(), Items: s.Items})
	}
	return all, err
}

// ResetRateKey implements [api.RateLimits].
func (a mtaAPI) ResetRateKey(rule, key string) int { return a.m.limits.Reset(rule, key) }

// Lists implements [api.Lists].
func (a mtaAPI) Lists() []api.List {
	var all []api.List
	for _, h := range a.m.lists.Handles() {
		l := h.List()
		all = append(all, api.List{
			Name: h.Name(), Tone: string(l.Meta().Tone), Entries: l.Count(), Allowed: l.Allowed(),
			Bytes: l.Bytes(), Error: l.ErrorRate(), Updated: h.Updated(),
		})
	}
	return all
}

// FindInLists implements [api.Lists].
func (a mtaAPI) FindInLists(entry string) ([]api.ListMatch, error) {
	e, err := lists.ParseEntry(entry)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
	}
	var all []api.ListMatch
	for _, m := range a.m.lists.Find(e) {
		all = append(all, api.ListMatch{List: m.List, Tone: string(m.Tone), Element: m.Element, Reason: m.Reason, Updated: m.Built, Error: m.Error})
	}
	return all, nil
}
