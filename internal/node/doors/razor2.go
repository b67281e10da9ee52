package doors

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

// Register implements [razor2.Accounts].
func (a *protocolAccounts) Register(ctx context.Context, name string, secret []byte, from netip.Addr) error {
	taken, err := a.accounts.Register(ctx, a.protocol, name, secret, from)
	if taken {
		return fmt.Errorf("%w: %q", razor2.ErrTaken, name)
	}
	return err
}

// registrations is how many accounts one client may register: at most a number a minute, and twice as many at once.
func registrations(perMinute float64) door.Rate {
	return door.Rate{PerSecond: perMinute / 60, Burst: max(int(2*perMinute), 1)}
}

// orNone returns a number of the configuration for a server that takes zero as the default. In the file it means none.
func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func (s *Set) newRazor2(cfg *config.Config) *razor2.Server {
	rate, exempt := s.doorRate(cfg.Limits)
	return &razor2.Server{
		Failures:      s.opts.Failures,
		Clearinghouse: s.houseFor("razor2"), Accounts: &protocolAccounts{s.opts.Accounts, "razor2"},
		Read:  s.opts.Messages.Read,
		Names: cfg.Razor2.Names, Confidence: orNone(cfg.Razor2.Confidence), Serial: cfg.Razor2.Serial,
		MaxHosts: orNone(cfg.Razor2.MaxHosts), ExemptHosts: cfg.Razor2.ExemptHosts,
		Registrations: registrations(cfg.Razor2.Register), Rate: rate, Exempt: exempt, Memory: s.opts.Memory,
		MaxConns: s.connections(), Log: s.opts.Log.With("door", "razor2"),
	}
}

// openRazor2 opens the door for Razor 2 clients.
func (s *Set) openRazor2(ctx context.Context, address string) (*opened, error) {
	front := s.newRazor2(s.opts.Config())
	o, err := openStream(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics = razor2Metrics(&front.Stats)
	return o, nil
}

// openRazorHelper opens the door for rspamd's razor module.
func (s *Set) openRazorHelper(ctx context.Context, address string) (*opened, error) {
	return openStream(ctx, address, &razor2.Helper{MailServer: s.mailServer(s.opts.Config(), "razor_helper"),
		Clearinghouse: s.houseFor("razor_helper"), Read: s.opts.Messages.Read})
}

// mailServer returns the bounds and the log of a door that reads mails.
func (s *Set) mailServer(cfg *config.Config, name string) door.MailServer {
	rate, exempt := s.doorRate(cfg.Limits)
	return door.MailServer{MaxMail: cfg.HTTP.MaxBody, MaxConns: s.connections(), Memory: s.opts.Memory, Rate: rate,
		Exempt: exempt, Log: s.opts.Log.With("door", name)}
}

func razor2Metrics(s *razor2.Stats) []prometheus.Collector {
	return doorEvents("razor2", map[string]*atomic.Int64{
		"check": &s.Checks, "listed": &s.Listed, "report": &s.Reports, "revoke": &s.Revokes, "login": &s.Logins,
		"bad_login": &s.BadLogins, "registered": &s.Registered, "malformed": &s.Malformed, "limited": &s.Limited,
		"fault": &s.Faults,
	})
}
