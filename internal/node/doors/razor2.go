package doors

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/door"
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

// openRazor2 opens the door for Razor 2 clients.
func (s *Set) openRazor2(ctx context.Context, address string) (*opened, error) {
	cfg := s.opts.Config()
	front := &razor2.Server{
		Failures:      s.opts.Failures,
		Clearinghouse: s.houseFor("razor2"), Accounts: &protocolAccounts{s.opts.Accounts, "razor2"},
		Read:  s.opts.Messages.Read,
		Names: cfg.Razor2.Names, Confidence: cfg.Razor2.Confidence, Serial: cfg.Razor2.Serial,
		MaxHosts: cfg.Razor2.MaxHosts, ExemptHosts: cfg.Razor2.ExemptHosts,
		Registrations: door.Rate{PerSecond: cfg.Razor2.Register / 60, Burst: max(int(2*cfg.Razor2.Register), 1)},
		MaxConns:      s.connections(), Log: s.opts.Log.With("door", "razor2"),
	}
	// The server takes zero as the default; in the file it means none.
	if cfg.Razor2.Confidence == 0 {
		front.Confidence = -1
	}
	if cfg.Razor2.MaxHosts == 0 {
		front.MaxHosts = -1
	}
	front.Memory = s.opts.Memory
	front.Rate, front.Exempt = s.doorRate(cfg.Limits)
	o, err := openStream(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics = razor2Metrics(&front.Stats)
	return o, nil
}

// openRazorHelper opens the door for rspamd's razor module.
func (s *Set) openRazorHelper(ctx context.Context, address string) (*opened, error) {
	front := &razor2.Helper{Clearinghouse: s.houseFor("razor_helper"), Read: s.opts.Messages.Read}
	s.limitMails(&front.MailServer, "razor_helper")
	return openStream(ctx, address, front)
}

// limitMails sets the bounds and the log of a door that reads mails.
func (s *Set) limitMails(m *door.MailServer, name string) {
	cfg := s.opts.Config()
	m.MaxMail, m.MaxConns, m.Memory = cfg.HTTP.MaxBody, s.connections(), s.opts.Memory
	m.Rate, m.Exempt = s.doorRate(cfg.Limits)
	m.Log = s.opts.Log.With("door", name)
}

func razor2Metrics(s *razor2.Stats) []prometheus.Collector {
	return doorEvents("razor2", map[string]*atomic.Int64{
		"check": &s.Checks, "listed": &s.Listed, "report": &s.Reports, "revoke": &s.Revokes, "login": &s.Logins,
		"bad_login": &s.BadLogins, "registered": &s.Registered, "malformed": &s.Malformed, "limited": &s.Limited,
		"fault": &s.Faults,
	})
}
