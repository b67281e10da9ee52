package node

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/edge"
)

// edgeCapacity is the size of an edge's books, in signatures: nothing is counted there.
const edgeCapacity = 1000

// asEdge returns cfg, with the smallest books if it is an edge's. The engine of an edge keeps the
// accounts of its own doors.
func asEdge(cfg *config.Config) *config.Config {
	if cfg.Upstream.URL == "" {
		return cfg
	}
	small := *cfg
	small.Tally.Capacity, small.Blocklist.Capacity = edgeCapacity, edgeCapacity
	return &small
}

// An upstream is the remote node that an edge asks.
type upstream struct {
	edge  *edge.Edge // nil: the node asks its own engine
	token *bearer    // nil: there is no upstream
}

// startUpstream makes the doors of an edge use a remote node in place of the engine.
func (n *Node) startUpstream(_ context.Context, st *stage) error {
	u := n.cfg.Load().Upstream
	if u.URL == "" {
		return nil
	}
	secret, err := readToken(&u)
	if err != nil {
		return err
	}
	token := new(bearer)
	token.Store(&secret)
	up := upstreamOf(&u, token)
	if at, err := url.Parse(u.URL); err == nil && at.Scheme == "http" && secret != "" && !isLocal(at.Hostname()) {
		n.log.Warn("token is sent to the upstream without encryption", "url", u.URL, "hint", "use https")
	}
	n.upstream.edge = edge.New(edge.Options{
		Upstream: up, Timeout: time.Duration(u.Timeout), Cache: time.Duration(u.Cache),
		Network: fingerprint(n.secret()), Now: clock.Now, Log: n.log.With("upstream", u.URL),
	})
	n.upstream.token = token
	st.tasks = append(st.tasks, task{name: "upstream", run: n.upstream.edge.Watch})
	n.front.house = n.remembering(n.upstream.edge)
	n.registry.MustRegister(newUpstreamCollector(n.upstream.edge))
	n.log.Info("edge: queries and reports go to the upstream", "upstream", u.URL)
	st.close = func(context.Context) error {
		up.HTTP.CloseIdleConnections()
		return nil
	}
	return nil
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// A bearer is the token that an edge sends to its upstream.
type bearer struct{ atomic.Pointer[string] }

// prepare reads the token again: it may be changed on the upstream while both run.
func (b *bearer) prepare(cfg *config.Config) (takeOver func() error, err error) {
	token, err := readToken(&cfg.Upstream)
	return func() error {
		b.Store(&token)
		return nil
	}, err
}

// readToken returns the content of the token file, "" if none is configured.
func readToken(u *config.Upstream) (string, error) {
	if u.TokenFile == "" {
		return "", nil
	}
	token, err := ReadSecret(u.TokenFile)
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty", u.TokenFile)
	}
	if err != nil {
		return "", &config.Error{Key: "upstream.token_file", Detail: err.Error()}
	}
	return token, nil
}

// A carrier sends requests with the current token.
type carrier struct {
	*http.Transport
	token *bearer
}

// RoundTrip implements [http.RoundTripper].
func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := *c.token.Load(); token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return c.Transport.RoundTrip(r)
}

// upstreamOf returns the client of an upstream. It keeps its connections open.
func upstreamOf(u *config.Upstream, token *bearer) *admin.Client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8,
		IdleConnTimeout: time.Minute}
	return &admin.Client{Client: client.Client{Server: u.URL, HTTP: &http.Client{
		Transport: &carrier{transport, token},
		// A redirect does not come from a node, and must not get the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}}
}

// An upstreamCollector collects the metrics of an edge.
type upstreamCollector struct {
	edge             *edge.Edge
	up, other, total *prometheus.Desc
}

func newUpstreamCollector(e *edge.Edge) *upstreamCollector {
	return &upstreamCollector{
		edge: e,
		up: prometheus.NewDesc("bulkhead_upstream_up", "1 if the upstream answered when it was last asked, or else 0.",
			nil, nil),
		other: prometheus.NewDesc("bulkhead_upstream_other_network",
			"1 if the upstream has another network secret, so that near copies are not recognised, or else 0.", nil, nil),
		total: prometheus.NewDesc("bulkhead_upstream_total",
			"Requests to the upstream (request), checks answered without one (cached), checks that it did not answer "+
				"and that were answered \"unknown\" (fail_open), reports refused for now for the same reason (temporary).",
			[]string{"what"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *upstreamCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.up
	ch <- c.other
	ch <- c.total
}

// Collect implements [prometheus.Collector].
func (c *upstreamCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, on bool) {
		v := 0.0
		if on {
			v = 1
		}
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	gauge(c.up, c.edge.Up())
	gauge(c.other, c.edge.OtherNetwork())
	s := &c.edge.Stats
	for what, v := range map[string]*atomic.Int64{"request": &s.Requests, "cached": &s.Cached, "fail_open": &s.FailOpen,
		"temporary": &s.Temporary} {
		ch <- prometheus.MustNewConstMetric(c.total, prometheus.CounterValue, float64(v.Load()), what)
	}
}
