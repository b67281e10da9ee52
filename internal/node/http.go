package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/api"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

// stopTimeout is the longest that clients may take to finish after SIGTERM.
const stopTimeout = 20 * time.Second

// openHTTP opens the door of the API, the metrics and the status page.
func (s *Node) openHTTP(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	access, err := accessOf(cfg)
	if err != nil {
		return nil, err
	}
	pair, err := readCertificate(cfg)
	if err != nil {
		return nil, err
	}
	page, err := web.New(statusPage{s})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := errors.Join(registry.Register(newMTACollector(s.mta)), registry.Register(s.doorStats)); err != nil {
		return nil, err
	}
	s.api, err = api.New(api.Options{
		Registry:      registry,
		Clearinghouse: s.engine, Read: s.read, Accounts: s.book, Users: s.book, Peers: &s.peers, Node: s.core,
		RateLimits: mtaAPI{s.mta}, Lists: mtaAPI{s.mta},
		Ready: s.ready, Page: page, Access: access, Version: s.version, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	l, err := listen.Stream(ctx, address)
	if err != nil {
		return nil, err
	}
	front := &http.Server{
		Handler:           s.api,
		ReadHeaderTimeout: min(10*time.Second, time.Duration(cfg.HTTP.ReadTimeout)),
		ReadTimeout:       time.Duration(cfg.HTTP.ReadTimeout),
		WriteTimeout:      2 * time.Duration(cfg.HTTP.ReadTimeout),
		IdleTimeout:       time.Duration(cfg.HTTP.IdleTimeout),
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	serve, scheme := front.Serve, "http://"
	if pair != nil {
		s.https.pair.Store(pair)
		scheme, front.TLSConfig = "https://", s.https.config()
		serve = func(l net.Listener) error { return front.ServeTLS(l, "", "") }
	}
	return &opened{address: scheme + l.Addr().String(), abandon: l.Close, serve: func(ctx context.Context) error {
		return serveHTTP(ctx, front, func() error { return serve(newCappedListener(l, cfg.Limits.Connections, listen.DefaultConnsPerIP)) })
	}}, nil
}

// serveHTTP serves until ctx ends, and then waits for the requests that were
// begun.
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
