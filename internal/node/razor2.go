package node

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

// Register implements [razor2.Accounts].
func (a *protocolAccounts) Register(ctx context.Context, name string, secret []byte, from netip.Addr) error {
	if err := trust.CheckName(name); err != nil {
		return err
	}
	sealed, err := a.core.sealer.Seal(name, a.protocol, secret)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, taken := a.book().Get(name); taken {
		return fmt.Errorf("%w: %q", razor2.ErrTaken, name)
	}
	evict, err := a.book().Room(from, clock.Now())
	if err != nil {
		return err
	}
	if evict != "" {
		if err := a.core.engine.RemoveAccount(ctx, evict); err != nil {
			return err
		}
	}
	return a.core.engine.PutAccount(ctx, trust.Account{
		Name: name, Role: trust.Member, Weight: a.book().Policy().StartWeight(from), Created: clock.Now().UTC(),
		From: from, Sealed: map[string][]byte{a.protocol: sealed},
	})
}

// openRazor2 opens the door for Razor 2 clients.
func (n *Node) openRazor2(ctx context.Context, address string) (*opened, error) {
	cfg := n.cfg.Load()
	front := &razor2.Server{
		Failures:      n.failures,
		Clearinghouse: n.houseFor("razor2"), Accounts: &protocolAccounts{n.book, razor2Protocol}, Read: n.read,
		Names: cfg.Razor2.Names, Confidence: cfg.Razor2.Confidence, Serial: cfg.Razor2.Serial,
		MaxHosts: cfg.Razor2.MaxHosts, ExemptHosts: cfg.Razor2.ExemptHosts,
		Registrations: door.Rate{PerSecond: cfg.Razor2.Register / 60, Burst: max(int(2*cfg.Razor2.Register), 1)},
		MaxConns:      cfg.Limits.Connections, Log: n.log.With("door", "razor2"),
	}
	// The server takes zero as the default; in the file it means none.
	if cfg.Razor2.Confidence == 0 {
		front.Confidence = -1
	}
	if cfg.Razor2.MaxHosts == 0 {
		front.MaxHosts = -1
	}
	front.Memory = n.messages
	front.Rate, front.Exempt = n.doorRate(cfg.Limits)
	o, err := openStream(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics = razor2Metrics(&front.Stats)
	return o, nil
}

// openRazorHelper opens the door for rspamd's razor module.
func (n *Node) openRazorHelper(ctx context.Context, address string) (*opened, error) {
	cfg := n.cfg.Load()
	front := &razor2.Helper{
		Clearinghouse: n.houseFor("razor_helper"), Read: n.read, MaxMail: cfg.HTTP.MaxBody,
		MaxConns: cfg.Limits.Connections, Memory: n.messages,
		Log: n.log.With("door", "razor_helper"),
	}
	front.Rate, front.Exempt = n.doorRate(cfg.Limits)
	return openStream(ctx, address, front)
}

func razor2Metrics(s *razor2.Stats) []prometheus.Collector {
	return doorEvents("razor2", map[string]*atomic.Int64{
		"check": &s.Checks, "listed": &s.Listed, "report": &s.Reports, "revoke": &s.Revokes, "login": &s.Logins,
		"bad_login": &s.BadLogins, "registered": &s.Registered, "malformed": &s.Malformed, "limited": &s.Limited,
		"fault": &s.Faults,
	})
}
