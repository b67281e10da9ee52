package main

import (
	"context"
	"errors"

	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
)

// openFuzzy opens the door for rspamd's fuzzy_check: UDP, and TCP on the same
// port for clients that are configured to use it.
func (s *server) openFuzzy(ctx context.Context, address string) (*opened, error) {
	front, err := s.newFuzzy()
	if err != nil {
		return nil, err
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
	s.doorStats.add("fuzzy", fuzzyEvents(&front.Stats))
	return &opened{address: bound, serve: func(ctx context.Context) error {
		return both(ctx,
			func(ctx context.Context) error { return front.ServePackets(ctx, conns) },
			func(ctx context.Context) error { return front.ServeStream(ctx, l) })
	}}, nil
}

func (s *server) newFuzzy() (*fuzzy.Server, error) {
	cfg := s.cfg.Load()
	front := &fuzzy.Server{
		House: s.engine, Log: s.log.With("door", "fuzzy"), EncryptedOnly: cfg.Fuzzy.EncryptedOnly, ReadOnly: cfg.Fuzzy.ReadOnly,
		SpamFlags: append([]uint8{}, cfg.Fuzzy.SpamFlags...), HamFlags: append([]uint8{}, cfg.Fuzzy.HamFlags...),
	}
	front.Rate, front.Exempt = doorLimits(cfg.Limits)
	var err1, err2 error
	front.UpdateFrom, err1 = prefixes(cfg.Fuzzy.UpdateFrom)
	front.Blocked, err2 = prefixes(cfg.Fuzzy.Blocked)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for _, k := range cfg.Fuzzy.Keys {
		pair, err := fuzzy.ParseSecret(k.Secret)
		if err != nil {
			return nil, &config.Error{Key: "fuzzy.keys", Detail: err.Error()}
		}
		expires, err := k.ExpiresAt()
		if err != nil {
			return nil, &config.Error{Key: "fuzzy.keys", Detail: err.Error()}
		}
		front.Keys = append(front.Keys, &fuzzy.Key{
			KeyPair: pair, Name: k.Name, Account: k.Account, Update: k.Update, Expires: expires, Hidden: k.Hidden,
			Rate: listen.Rate{PerSecond: k.Rate, Burst: k.Burst},
		})
	}
	return front, nil
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
