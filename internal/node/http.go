package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/web"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// stopTimeout is the longest time that clients may take to finish after SIGTERM.
const stopTimeout = 20 * time.Second

// openHTTP opens the door of the API, the metrics and the pages.
func (n *Node) openHTTP(ctx context.Context, address string) (*opened, error) {
	cfg := n.cfg.Load()
	access, err := accessOf(cfg)
	if err != nil {
		return nil, err
	}
	pair, err := readCertificate(cfg)
	if err != nil {
		return nil, err
	}
	var house *api.Server
	page := web.New(statusPage{n}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		house.ServeHTTP(w, r)
	}))
	house, err = api.New(api.Options{
		Registry:      n.registry,
		Clearinghouse: n.houseFor("http"), History: n.remembersMail(), Whitelist: n.spared, Config: n, Audit: n.audit,
		Read: n.read, Senders: signature.Senders, Accounts: n.book, Users: n.book, Peers: &n.peers, Pairing: &n.peers,
		Node:       n.core,
		RateLimits: mtaAPI{n.mta}, Lists: mtaAPI{n.mta},
		Sizes:    func(of admin.SizeQuestion) (admin.Sizes, error) { return Sizes(n.cfg.Load(), of) },
		Verdicts: n.verdicts, Ready: n.ready, Advance: n.advancer(), Examine: n.examine, Page: page, Access: access,
		Memory: n.messages, Version: n.version, Failures: n.failures, Log: n.log,
	})
	if err != nil {
		return nil, err
	}
	l, err := door.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	front := &http.Server{
		Handler:           house,
		ReadHeaderTimeout: min(10*time.Second, time.Duration(cfg.HTTP.ReadTimeout)),
		ReadTimeout:       time.Duration(cfg.HTTP.ReadTimeout),
		WriteTimeout:      2 * time.Duration(cfg.HTTP.ReadTimeout),
		IdleTimeout:       time.Duration(cfg.HTTP.IdleTimeout),
		MaxHeaderBytes:    64 << 10,
		ConnState:         follow,
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	serve, scheme := front.Serve, "http://"
	front.RegisterOnShutdown(page.Close)
	var https certificate // empty while HTTP is plain
	if pair != nil {
		https.pair.Store(pair)
		scheme, front.TLSConfig = "https://", https.config()
		serve = func(l net.Listener) error { return front.ServeTLS(l, "", "") }
	}
	prepare := func(p *proposal) (func() error, error) {
		access, err1 := accessOf(p.Config)
		pair, err2 := readCertificate(p.Config)
		return func() error {
			house.SetAccess(access)
			https.pair.Store(pair)
			return nil
		}, errors.Join(err1, err2)
	}
	return &opened{address: scheme + l.Addr().String(), abandon: l.Close, prepare: prepare,
		times: []*door.Times{house.Times()}, serve: func(ctx context.Context) error {
			return serveHTTP(ctx, front, func() error {
				return serve(newCappedListener(l, cfg.Limits.Connections, door.DefaultConnsPerIP))
			})
		}}, nil
}

// checkHTTP checks the certificate.
func checkHTTP(p *proposal) error {
	_, err := readCertificate(p.Config)
	return err
}

// serveHTTP serves until ctx ends, and then waits for current requests.
func serveHTTP(ctx context.Context, front *http.Server, serve func() error) error {
	done := make(chan error, 1)
	go func() { done <- serve() }()
	select {
	case err := <-done:
		return fmt.Errorf("listen.http: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := front.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		err = front.Close()
	}
	if end := <-done; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
