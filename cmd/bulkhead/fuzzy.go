package main

import (
	"context"
	"errors"

	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
)

// openFuzzy opens the door for rspamd's fuzzy_check: UDP, and TCP on the same
// port for clients that are configured to use it.
func (s *server) openFuzzy(ctx context.Context, address string) (*opened, error) {
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
	limits := s.cfg.Load().Limits
	front := &fuzzy.Server{
		House: s.engine, Log: s.log.With("door", "fuzzy"),
		Rate: listen.Rate{PerSecond: limits.Rate, Burst: limits.Burst},
	}
	if !limits.Loopback {
		front.Exempt = listen.Loopback()
	}
	return &opened{address: bound, serve: func(ctx context.Context) error {
		return both(ctx,
			func(ctx context.Context) error { return front.ServePackets(ctx, conns) },
			func(ctx context.Context) error { return front.ServeStream(ctx, l) })
	}}, nil
}

// both runs two servers until both have ended; the end of one ends the other.
func both(ctx context.Context, a, b func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		defer stop()
		done <- a(ctx)
	}()
	err := b(ctx)
	stop()
	return errors.Join(err, <-done)
}
