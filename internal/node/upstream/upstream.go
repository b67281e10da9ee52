// Package upstream connects an edge to the node that it asks, or to the shards of a site: tokens, the map, the spool,
// and what is shown of them.
package upstream

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/edge"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/shard/bucket"
)

// Files of the data folder of an edge.
const (
	SpoolFile = "spool.db"    // reports that wait for the upstream
	MapFile   = "shards.json" // the last map of the shards
)

const (
	// dialTimeout limits the time for a connection to a node: a dead machine must leave time for its standby.
	dialTimeout = time.Second
	// natsTimeout limits the time for a connection to a server of the map.
	natsTimeout = 5 * time.Second
)

// Options are the settings of an Upstream.
type Options struct {
	Config  *config.Config
	Dir     string                            // the data folder
	Network string                            // fingerprint of the network's secret
	Read    func(path string) (string, error) // reads a file with a secret
	Every   time.Duration                     // between two readings of the map of the shards; 0: 2 s
	Log     *slog.Logger
}

// An Upstream is what an edge has its counts at. A node that has its own counts has a nil Upstream.
type Upstream struct {
	o         Options
	edge      *edge.Edge
	spool     *edge.Spool // nil: reports are refused while the upstream takes none
	transport *http.Transport
	tokens    *tokens
	bucket    *bucket.Bucket   // nil: there is one upstream
	follower  *bucket.Follower // likewise
}

// Open connects an edge. The caller closes it.
func Open(o Options) (_ *Upstream, err error) {
	cfg := &o.Config.Upstream
	u := &Upstream{o: o, tokens: newTokens(o.Read), transport: &http.Transport{Proxy: http.ProxyFromEnvironment,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext}}
	opts := edge.Options{Timeout: time.Duration(cfg.Timeout), Cache: time.Duration(cfg.Cache), Network: o.Network,
		Now: clock.Now, Log: o.Log}
	if s := &o.Config.Shards; len(s.Servers) > 0 {
		u.bucket, err = bucket.Open(bucket.Options{Servers: s.Servers, Site: s.Site, Wait: natsTimeout,
			Access: natsdial.Access{Credentials: s.Credentials, CA: s.CA}})
		if err != nil {
			return nil, &config.Error{Key: "shards.servers", Detail: err.Error()}
		}
		u.follower = bucket.Follow(u.bucket, filepath.Join(o.Dir, MapFile), o.Every, o.Log)
		opts.Open, opts.Default, opts.Domain = u.shard, s.Default, s.Domain
	} else {
		token, err := u.tokens.open("", &o.Config.Shards, cfg)
		if err != nil {
			return nil, &config.Error{Key: "upstream.token_file", Detail: err.Error()}
		}
		addresses := append([]string{cfg.URL}, cfg.URLs...)
		opts.Upstream = u.nodes(addresses, token)
		opts.Log = o.Log.With("upstream", strings.Join(addresses, " "))
	}
	if cfg.Spool > 0 {
		if u.spool, err = edge.OpenSpool(filepath.Join(o.Dir, SpoolFile), cfg.Spool, o.Log); err != nil {
			return nil, err
		}
		opts.Spool = u.spool
	}
	u.edge = edge.New(opts)
	if u.follower != nil {
		if m := u.follower.State().Map; m != nil {
			u.edge.Use(m)
		}
	}
	return u, nil
}

// Edge returns the clearinghouse of the edge's doors; nil if there is no upstream.
func (u *Upstream) Edge() *edge.Edge {
	if u == nil {
		return nil
	}
	return u.edge
}

// Follow reads the map of the shards again and again, and makes the edge use it, until ctx ends.
func (u *Upstream) Follow(ctx context.Context) error {
	if u.follower == nil {
		<-ctx.Done()
		return nil
	}
	u.follower.Run(ctx, u.edge.Use)
	return nil
}

// Close ends all connections, and closes the spool.
func (u *Upstream) Close(context.Context) error {
	u.transport.CloseIdleConnections()
	if u.bucket != nil {
		u.bucket.Close()
	}
	if u.spool == nil {
		return nil
	}
	return u.spool.Close()
}

// shard returns the nodes of a shard.
func (u *Upstream) shard(s shard.Shard) edge.Upstream {
	token, err := u.tokens.open(s.Name, &u.o.Config.Shards, &u.o.Config.Upstream)
	if err != nil {
		u.o.Log.Error("the token for a shard cannot be read", "shard", s.Name, "err", err,
			"consequence", "the shard refuses this edge", "hint", "mend the file, and reload the configuration")
	}
	return u.nodes(s.URLs, token)
}

// nodes returns the clients of a node and its standbys.
func (u *Upstream) nodes(addresses []string, token *bearer) edge.Upstream {
	var nodes []edge.Upstream
	for _, address := range addresses {
		at, err := url.Parse(address)
		if err == nil && at.Scheme == "http" && *token.Load() != "" && !isLocal(at.Hostname()) {
			u.o.Log.Warn("token is sent to the upstream without encryption", "url", address, "hint", "use https")
		}
		nodes = append(nodes, nodeAt(address, u.transport, token))
	}
	return edge.Several(nodes...)
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// nodeAt returns the client of a node. It keeps its connections open.
func nodeAt(address string, transport *http.Transport, token *bearer) *admin.Client {
	return &admin.Client{Client: client.Client{Server: address, HTTP: &http.Client{
		Transport: &carrier{transport, token},
		// A redirect does not come from a node, and must not get the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}}
}

// State describes the map of the shards; nil if there is none.
func (u *Upstream) State() *admin.Shards {
	if u == nil || u.follower == nil {
		return nil
	}
	f := u.follower.State()
	out := &admin.Shards{Site: u.o.Config.Shards.Site, Read: f.Read.UTC(), Shards: []admin.Shard{}}
	if f.Problem != nil {
		out.Problem = f.Problem.Error()
	}
	if f.Map == nil {
		return out
	}
	out.Version, out.Changed, out.By, out.Change = f.Map.Version, f.Map.Note.At, f.Map.Note.By, f.Map.Note.What
	known := make(map[string]edge.ShardState)
	for _, s := range u.edge.Shards() {
		known[s.Name] = s
	}
	for _, s := range f.Map.Shards {
		k := known[s.Name]
		out.Shards = append(out.Shards, admin.Shard{Name: s.Name, URLs: s.URLs, Slots: len(f.Map.SlotsOf(s.Name)),
			Default: k.Rest, Up: k.Up, Waiting: k.Waiting})
	}
	return out
}
