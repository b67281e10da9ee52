package doors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

const (
	// stopTimeout is the longest time that clients may take to finish after SIGTERM.
	stopTimeout = 20 * time.Second
	// headerTimeout and maxHeader limit the header of a request, in time and bytes.
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
)

// httpServer returns a server with the time limits of the configuration. An answer may take twice as long as a request.
func (s *Set) httpServer(cfg *config.Config, handler http.Handler) *http.Server {
	read := time.Duration(cfg.HTTP.ReadTimeout)
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: min(headerTimeout, read),
		ReadTimeout:       read,
		WriteTimeout:      read + read,
		IdleTimeout:       time.Duration(cfg.HTTP.IdleTimeout),
		MaxHeaderBytes:    maxHeader,
		ConnState:         follow,
		ConnContext:       s.withPeer,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
	}
}

// openHTTP opens the door of the API, the metrics and the pages.
func (s *Set) openHTTP(ctx context.Context, address string) (*opened, error) {
	cfg := s.opts.Config()
	access, err := accessOf(cfg)
	if err != nil {
		return nil, err
	}
	pair, err := readCertificate(cfg)
	if err != nil {
		return nil, err
	}
	var house *api.Server
	page := web.New(s.opts.Status, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		house.ServeHTTP(w, r)
	}))
	opts := s.opts.API
	opts.Clearinghouse, opts.Page, opts.Access = s.houseFor("http"), page, access
	opts.LocalAdmin = s.opts.LocalAdmin
	house, err = api.New(opts)
	if err != nil {
		return nil, err
	}
	l, err := door.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	front := s.httpServer(cfg, house)
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
	local := s.listenLocal(ctx)
	abandon := func() error {
		if local != nil {
			return errors.Join(l.Close(), local.Close())
		}
		return l.Close()
	}
	return &opened{address: scheme + l.Addr().String(), abandon: abandon, prepare: prepare,
		times: []*door.Times{house.Times()}, serve: func(ctx context.Context) error {
			if local != nil { // with places of its own, so that strangers cannot take those of administrators
				go front.Serve(newCappedListener(local, localPlaces, 0))
			}
			return serveHTTP(ctx, front, stopTimeout, func() error {
				capped := newCappedListener(l, s.connections(), door.DefaultConnsPerIP)
				if pair != nil {
					capped.refuser.Answer = nil // it would have to be encrypted
				}
				return serve(capped)
			})
		}}, nil
}

// listenLocal opens the socket for programs of this machine, nil if there is none. The node runs
// without it if it cannot be opened.
func (s *Set) listenLocal(ctx context.Context) net.Listener {
	path := s.opts.Socket
	if path == "" {
		return nil
	}
	l, err := door.Listen(ctx, "unix:"+path)
	if err == nil {
		// Every user may connect; the credentials of each decide on the rights.
		if err = os.Chmod(path, 0o666); err == nil {
			return l
		}
		err = errors.Join(err, l.Close())
	}
	s.opts.Log.Warn("socket for programs of this machine cannot be opened", "path", path, "err", err,
		"consequence", "commands on this machine ask over TCP, and administrators need a token")
	return nil
}

// checkHTTP checks the certificate.
func checkHTTP(p *proposal) error {
	_, err := readCertificate(p.Config)
	return err
}

// serveHTTP serves until ctx ends, and then waits for current requests, but no longer than a time.
func serveHTTP(ctx context.Context, front *http.Server, within time.Duration, serve func() error) error {
	done := make(chan error, 1)
	go func() { done <- serve() }()
	select {
	case err := <-done:
		return fmt.Errorf("listen.http: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
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

// accessOf returns the rights of HTTP clients. The configuration has been validated, so its texts
// parse.
func accessOf(cfg *config.Config) (api.Access, error) {
	a := api.Access{
		MaxBody: cfg.HTTP.MaxBody, MaxSignatures: cfg.Limits.MaxSignatures, MaxBatch: cfg.Limits.MaxBatch,
		Rate:          door.Rate{PerSecond: cfg.Limits.Rate, Burst: cfg.Limits.Burst},
		LimitLoopback: cfg.Limits.Loopback,
	}
	var err1, err2, err3 error
	a.AnonymousCheck, err1 = api.ParseWho(cfg.HTTP.AnonymousCheck)
	a.AnonymousReport, err2 = api.ParseWho(cfg.HTTP.AnonymousReport)
	if len(cfg.HTTP.TrustedProxies) > 0 {
		a.TrustedProxies, err3 = config.ParseNetworks(cfg.HTTP.TrustedProxies)
	}
	return a, errors.Join(err1, err2, err3)
}
