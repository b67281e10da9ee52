package node

import (
	"context"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/node/metric"
	"github.com/bulkhead-mail/bulkhead/internal/ratelimit"
)

// rateFolder is the folder of the rate limits in the data folder.
const rateFolder = "ratelimits"

// An mta holds the rate limits and lists that the doors for mail servers share.
type mta struct {
	limits  *ratelimit.Limiter
	webhook *ratelimit.Webhook // nil if there is none
	lists   *lists.Set
}

// openMTA reads the rate limits and the lists.
func (n *Node) openMTA(cfg *config.Config) (*mta, error) {
	m := &mta{}
	rules, err := rulesOf(cfg)
	if err == nil {
		err = checkRules(rules)
	}
	if err != nil {
		return nil, err
	}
	opts := ratelimit.Options{
		Rules: rules, Dir: filepath.Join(n.dir, rateFolder), Checkpoint: time.Duration(cfg.Policy.Checkpoint),
		Now: clock.Now, Log: n.log.With("part", "ratelimit"),
	}
	if cfg.Policy.Webhook != "" {
		m.webhook = ratelimit.NewWebhook(cfg.Policy.Webhook, nil, opts.Log)
		opts.Notify = m.webhook.Notify
	}
	if m.limits, err = ratelimit.Open(opts); err != nil {
		return nil, err // of the folder, since the rules are right
	}
	// A start may be an unattended reboot: one bad file of a list must not close all doors.
	m.lists, err = lists.OpenSet(lists.SetOptions{
		Files: filesOf(cfg), MaxBytes: cfg.Lists.MaxBytes, Watch: time.Duration(cfg.Lists.Watch), FailOpen: true,
		Log: n.log.With("part", "lists"),
	})
	if err != nil {
		return nil, &config.Error{Key: "lists.list", Detail: err.Error()}
	}
	return m, nil
}

// startMTA is the stage of rate limits and lists.
func (n *Node) startMTA(_ context.Context, st *stage) (err error) {
	if n.mta, err = n.openMTA(n.cfg.Load()); err != nil {
		return err
	}
	n.registry.MustRegister(mtaCollector(n.mta)) // names are the program's own
	// Save again when all doors are closed, because they count until then.
	st.close = func(context.Context) error { return n.mta.limits.Save() }
	st.tasks = []task{
		{name: "saving of rate limits", run: n.mta.limits.Run},
		{name: "watching of lists", run: func(ctx context.Context) error { n.mta.lists.Run(ctx); return nil }},
	}
	if n.mta.webhook != nil {
		st.tasks = append(st.tasks,
			task{name: "webhook of rate limits", run: func(ctx context.Context) error { n.mta.webhook.Run(ctx); return nil }})
	}
	return nil
}

// prepare checks rules and lists. It returns a function that applies them, and the lists of the
// proposal.
func (m *mta) prepare(cfg *config.Config) (takeOver func() error, list func(string) *lists.Handle, err error) {
	rules, err := rulesOf(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := checkRules(rules); err != nil {
		return nil, nil, err
	}
	files, err := m.lists.Prepare(filesOf(cfg))
	if err != nil {
		return nil, nil, &config.Error{Key: "lists.list", Detail: err.Error()}
	}
	return func() error {
		files.Commit()
		_ = m.lists.Reload() // unreadable lists are logged and stay unchanged
		return m.limits.Reload(rules)
	}, files.Handle, nil
}

// checkRules checks the rules of rate limits.
func checkRules(rules []ratelimit.Rule) error {
	if _, err := ratelimit.Open(ratelimit.Options{Rules: rules}); err != nil {
		return &config.Error{Key: "ratelimit", Detail: err.Error()}
	}
	return nil
}

func rulesOf(cfg *config.Config) ([]ratelimit.Rule, error) {
	var rules []ratelimit.Rule
	for _, r := range cfg.RateLimit {
		exempt, err := config.ParseNetworks(r.ExemptNetworks)
		if err != nil {
			return nil, &config.Error{Key: "ratelimit.exempt_networks", Detail: err.Error()}
		}
		rules = append(rules, ratelimit.Rule{
			Name: r.Name, Per: r.Per, Reads: r.Reads, Key: r.Key, Unique: r.Unique, Count: r.Count, State: r.State,
			Limit: r.Limit, Period: time.Duration(r.Period),
			Limits: r.Limits, LimitsFile: r.LimitsFile, Accepted: r.Accepted, Header: r.Header,
			Strict: r.Mode == "strict", Action: r.Action, Delay: time.Duration(r.Delay), Text: r.Text, Warn: r.Warn,
			Exempt: exempt, ExemptKeys: r.ExemptKeys, Memory: r.Memory,
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

// mtaCollector returns the metrics of rate limits and lists.
func mtaCollector(m *mta) prometheus.Collector {
	var s metric.Set
	requests := s.Counter("bulkhead_ratelimit_requests_total", "Requests that the rate limits looked at.", "result")
	keys := s.Gauge("bulkhead_ratelimit_keys", "Keys of a rate limit.", "rule")
	bytes := s.Gauge("bulkhead_ratelimit_bytes", "Memory of a rate limit.", "rule")
	evicted := s.Counter("bulkhead_ratelimit_evicted_total", "Keys that gave way because the memory was spent.", "rule")
	entries := s.Gauge("bulkhead_list_entries", "Entries of a list.", "list")
	wrong := s.Gauge("bulkhead_list_error", "Expected error of a list, for one element.", "list")
	updated := s.Gauge("bulkhead_list_updated_seconds", "When a list was built or changed, Unix time.", "list")
	unread := s.Gauge("bulkhead_list_unread",
		"1 if the file of a list cannot be read: the node goes on with what it had, or knows nothing of the list.", "list")
	reloads := s.Counter("bulkhead_list_reloads_total", "List files that were taken over, or could not be.", "result")
	return s.Collector(func(ch chan<- prometheus.Metric) {
		stats := &m.limits.Stats
		requests(ch, float64(stats.Requests.Load()), "all")
		requests(ch, float64(stats.Refused.Load()), "refused")
		requests(ch, float64(stats.Warned.Load()), "warned")
		requests(ch, float64(stats.Faults.Load()), "fault")
		for _, u := range m.limits.Usage() {
			keys(ch, float64(u.Keys), u.Rule.Name)
			bytes(ch, float64(u.Bytes), u.Rule.Name)
			evicted(ch, float64(u.Evicted), u.Rule.Name)
		}
		for _, h := range m.lists.Handles() {
			unread(ch, metric.One(h.Fault() != nil), h.Name())
			if l := h.List(); l != nil {
				entries(ch, float64(l.Count()), h.Name())
				wrong(ch, l.ErrorRate(), h.Name())
				updated(ch, float64(h.Updated().Unix()), h.Name())
			}
		}
		reloads(ch, float64(m.lists.Reloads.Load()), "taken")
		reloads(ch, float64(m.lists.Faults.Load()), "refused")
	})
}
