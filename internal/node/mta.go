package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dnsbl"
	"github.com/bulkhead-mail/bulkhead/internal/config"
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
func (s *Node) openMTA(cfg *config.Config) (*mta, error) {
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

// startMTA is the stage of rate limits and lists.
func (s *Node) startMTA(_ context.Context, st *stage) (err error) {
	if s.mta, err = s.openMTA(s.cfg.Load()); err != nil {
		return err
	}
	// Once more when all doors are shut: they count until then.
	st.close = func(context.Context) error { return s.mta.limits.Save() }
	st.tasks = []task{
		{name: "saving of rate limits", run: s.mta.limits.Run},
		{name: "watching of lists", run: func(ctx context.Context) error { s.mta.lists.Run(ctx); return nil }},
	}
	if s.mta.webhook != nil {
		st.tasks = append(st.tasks, task{name: "webhook of rate limits", run: func(ctx context.Context) error { s.mta.webhook.Run(ctx); return nil }})
	}
	return nil
}

// prepare judges rules, lists, policies and zones, and returns what takes them
// over. A mistake in any of them changes nothing.
func (m *mta) prepare(cfg *config.Config) (takeOver func() error, err error) {
	rules, err := rulesOf(cfg)
	if err != nil {
		return nil, err
	}
	if err := checkRules(rules); err != nil {
		return nil, err
	}
	policies := policiesOf(&cfg.Milter)
	if err := new(milter.Server).SetPolicies(policies); err != nil {
		return nil, &config.Error{Key: "milter.policy", Detail: err.Error()}
	}
	files, err := m.lists.Prepare(filesOf(cfg))
	if err != nil {
		return nil, &config.Error{Key: "lists.list", Detail: err.Error()}
	}
	var zones []dnsbl.Zone
	if m.dnsbl != nil {
		if zones, err = zonesOf(cfg, files.Handle); err != nil {
			return nil, err
		}
	}
	return func() error {
		var errs []error
		if m.milter != nil {
			errs = append(errs, m.milter.SetPolicies(policies))
		}
		files.Commit()
		_ = m.lists.Reload() // what cannot be read is logged there, and stays as it was
		if m.dnsbl != nil {
			errs = append(errs, m.dnsbl.SetZones(zones))
		}
		return errors.Join(append(errs, m.limits.Reload(rules))...)
	}, nil
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
	set, err := lists.OpenSet(lists.SetOptions{Files: filesOf(cfg), MaxBytes: cfg.Lists.MaxBytes})
	if err != nil {
		return &config.Error{Key: "lists.list", Detail: err.Error()}
	}
	_, err = zonesOf(cfg, set.Handle)
	return err
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

// policiesOf returns what recipients want; the first policy has no domain and is
// for everybody who has none of their own.
func policiesOf(m *config.Milter) []milter.Policy {
	everybody := config.MilterPolicy{
		Spam: m.Spam, Listed: m.Listed, Bulk: m.Bulk, Grey: m.Grey, Confidence: m.Confidence, Threshold: m.Threshold, Text: m.Text,
	}
	var all []milter.Policy
	for _, p := range append([]config.MilterPolicy{everybody}, m.Policies...) {
		all = append(all, milter.Policy{
			Domain: p.Domain, Spam: milter.Action(p.Spam), Listed: milter.Action(p.Listed), Bulk: milter.Action(p.Bulk), Grey: milter.Action(p.Grey),
			Confidence: p.Confidence, Threshold: p.Threshold, Text: p.Text,
		})
	}
	return all
}

// zonesOf returns the zones, which a server has found right, of lists by name.
func zonesOf(cfg *config.Config, list func(string) *lists.Handle) ([]dnsbl.Zone, error) {
	var zones []dnsbl.Zone
	for _, z := range cfg.DNSBL.Zones {
		out := dnsbl.Zone{Name: z.Name, Form: dnsbl.Form(z.Form), TTL: time.Duration(z.TTL), Host: z.Host}
		if h := list(z.List); h != nil {
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
	if _, err := dnsbl.NewServer(dnsbl.Options{Zones: zones}); err != nil {
		return nil, &config.Error{Key: "dnsbl.zone", Detail: err.Error()}
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
	if len(l.set.Handles()) == 0 {
		return nil
	}
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
func (s *Node) openMilter(ctx context.Context, address string) (*opened, error) {
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
	front.AuthResults = func() []string { return s.cfg.Load().Whitelist.AuthResults }
	// Also where there is no list yet: one may come with another configuration.
	asked := listsOf{set: s.mta.lists}
	for _, name := range m.Lists {
		if asked.names == nil {
			asked.names = make(map[string]bool)
		}
		asked.names[name] = true
	}
	front.Lists = asked
	if m.RateLimits {
		front.Limiter = s.mta.limits
	}
	if err := front.Prepare(); err != nil {
		return nil, &config.Error{Key: "milter", Detail: err.Error()}
	}
	o, err := openStream(ctx, address, front.Serve)
	if err != nil {
		return nil, err
	}
	s.mta.milter = front
	return o, nil
}

// openPolicy opens the door for Postfix policy delegation.
func (s *Node) openPolicy(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	front := &policy.Server{
		Limiter: s.mta.limits, FailDefer: cfg.Policy.OnFault == "defer", MaxConns: cfg.Limits.Connections,
		Log: s.log.With("door", "policy"),
	}
	front.Rate, front.Exempt = s.doorRate(cfg.Limits)
	o, err := openStream(ctx, address, front.Serve)
	if err != nil {
		return nil, err
	}
	s.mta.policy = front
	return o, nil
}

// openDNSBL opens the door for DNS queries, over UDP and TCP.
func (s *Node) openDNSBL(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	zones, err := zonesOf(cfg, s.mta.lists.Handle)
	if err != nil {
		return nil, err
	}
	opts := dnsbl.Options{Zones: zones, MaxConns: cfg.Limits.Connections, Log: s.log.With("door", "dnsbl")}
	opts.Rate, opts.Exempt = s.doorRate(cfg.Limits)
	front, err := dnsbl.NewServer(opts)
	if err != nil {
		return nil, err
	}
	o, err := openPort(ctx, address, front.ServeUDP, front.ServeTCP)
	if err != nil {
		return nil, err
	}
	s.mta.dnsbl = front
	return o, nil
}
