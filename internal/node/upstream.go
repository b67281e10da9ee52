package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/edge"
)

// upstreamDial limits the time for a connection to an upstream: a dead machine must leave time for its standby.
const upstreamDial = time.Second

// spoolFile is the file of the reports that wait for the upstream, in the data folder.
const spoolFile = "spool.db"

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
	edge  *edge.Edge  // nil: the node asks its own engine
	token *bearer     // nil: there is no upstream
	spool *edge.Spool // nil: reports are refused while the upstream takes none
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
	addresses := append([]string{u.URL}, u.URLs...)
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8,
		IdleConnTimeout: time.Minute, DialContext: (&net.Dialer{Timeout: upstreamDial}).DialContext}
	var nodes []edge.Upstream
	for _, address := range addresses {
		at, err := url.Parse(address)
		if err == nil && at.Scheme == "http" && secret != "" && !isLocal(at.Hostname()) {
			n.log.Warn("token is sent to the upstream without encryption", "url", address, "hint", "use https")
		}
		nodes = append(nodes, upstreamOf(address, transport, token))
	}
	if u.Spool > 0 {
		if n.upstream.spool, err = edge.OpenSpool(filepath.Join(n.dir, spoolFile), u.Spool, n.log); err != nil {
			return err
		}
	}
	n.upstream.edge = edge.New(edge.Options{
		Upstream: edge.Several(nodes...), Spool: n.upstream.spool, Timeout: time.Duration(u.Timeout),
		Cache: time.Duration(u.Cache), Network: fingerprint(n.secret()), Now: clock.Now,
		Log: n.log.With("upstream", strings.Join(addresses, " ")),
	})
	n.upstream.token = token
	st.tasks = append(st.tasks, task{name: "upstream", run: n.upstream.edge.Watch},
		task{name: "spool of reports", run: n.upstream.edge.Deliver})
	n.front.house = n.remembering(n.upstream.edge)
	n.registry.MustRegister(newUpstreamCollector(n.upstream.edge, n.upstream.spool))
	n.log.Info("queries and reports of this edge go to the upstream", "upstream", u.URL)
	st.close = func(context.Context) error {
		transport.CloseIdleConnections()
		if n.upstream.spool == nil {
			return nil
		}
		return n.upstream.spool.Close()
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

// upstreamOf returns the client of a node. It keeps its connections open.
func upstreamOf(address string, transport *http.Transport, token *bearer) *admin.Client {
	return &admin.Client{Client: client.Client{Server: address, HTTP: &http.Client{
		Transport: &carrier{transport, token},
		// A redirect does not come from a node, and must not get the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}}
}

// An upstreamCollector collects the metrics of an edge.
type upstreamCollector struct {
	edge             *edge.Edge
	spool            *edge.Spool // nil for none
	up, other, total *prometheus.Desc
	waiting, bytes   *prometheus.Desc
}

func newUpstreamCollector(e *edge.Edge, s *edge.Spool) *upstreamCollector {
	return &upstreamCollector{
		edge: e, spool: s,
		waiting: prometheus.NewDesc("bulkhead_upstream_spool_reports",
			"Reports that wait on disk for the upstream.", nil, nil),
		bytes: prometheus.NewDesc("bulkhead_upstream_spool_bytes", "Bytes of these reports.", nil, nil),
		up: prometheus.NewDesc("bulkhead_upstream_up", "1 if the upstream answered when it was last asked, or else 0.",
			nil, nil),
		other: prometheus.NewDesc("bulkhead_upstream_other_network",
			"1 if the upstream has another network secret, so that near copies are not recognised, or else 0.", nil, nil),
		total: prometheus.NewDesc("bulkhead_upstream_total",
			"Requests to the upstream (request), checks answered without one (cached), checks that it did not answer "+
				"and that were answered \"unknown\" (fail_open), reports refused for now for the same reason (temporary), "+
				"kept on disk (spooled), delivered later (delivered), or refused for good then (dropped).",
			[]string{"what"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *upstreamCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.up
	ch <- c.other
	ch <- c.total
	ch <- c.waiting
	ch <- c.bytes
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
	if c.spool != nil {
		n, bytes := c.spool.Len()
		ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(n))
		ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(bytes))
	}
	gauge(c.other, c.edge.OtherNetwork())
	s := &c.edge.Stats
	for what, v := range map[string]*atomic.Int64{"request": &s.Requests, "cached": &s.Cached, "fail_open": &s.FailOpen,
		"temporary": &s.Temporary, "spooled": &s.Spooled, "delivered": &s.Delivered, "dropped": &s.Dropped} {
		ch <- prometheus.MustNewConstMetric(c.total, prometheus.CounterValue, float64(v.Load()), what)
	}
}
