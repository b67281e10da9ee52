package node

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
	"github.com/bulkhead-mail/bulkhead/pyzor"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

// protocolAccounts gives a protocol whose handshake needs shared secrets the
// accounts of the node: [razor2.Accounts] and [pyzor.Accounts].
type protocolAccounts struct {
	*accounts
	protocol string // key of Account.Sealed
}

// Secret implements [razor2.Accounts] and [pyzor.Accounts].
func (a *protocolAccounts) Secret(_ context.Context, name string) ([]byte, bool, error) {
	account, ok := a.book().Get(name)
	if !ok || len(account.Sealed[a.protocol]) == 0 {
		return nil, false, nil
	}
	if account.Closed {
		return nil, false, fmt.Errorf("%w: account %q is closed", bulkhead.ErrForbidden, name)
	}
	secret, err := a.core.sealer.Open(name, a.protocol, account.Sealed[a.protocol])
	if err != nil {
		return nil, false, err
	}
	return secret, true, nil
}

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
	return a.core.engine.PutAccount(ctx, trust.Account{
		Name: name, Role: trust.Member, Weight: a.book().Policy().StartWeight(from), Created: time.Now().UTC(),
		From: from, Sealed: map[string][]byte{a.protocol: sealed},
	})
}

// openRazor2 opens the door for Razor 2 clients.
func (s *Node) openRazor2(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	front := &razor2.Server{
		House: s.engine, Accounts: &protocolAccounts{s.book, razor2Protocol}, Read: s.read,
		Names: cfg.Razor2.Names, Confidence: cfg.Razor2.Confidence, Serial: cfg.Razor2.Serial,
		MaxHosts: cfg.Razor2.MaxHosts, ExemptHosts: cfg.Razor2.ExemptHosts,
		Registrations: listen.Rate{PerSecond: cfg.Razor2.Register / 60, Burst: max(int(2*cfg.Razor2.Register), 1)},
		MaxConns:      cfg.Limits.Connections, Log: s.log.With("door", "razor2"),
	}
	// Zero means the default to the server, and none in the file.
	if cfg.Razor2.Confidence == 0 {
		front.Confidence = -1
	}
	if cfg.Razor2.MaxHosts == 0 {
		front.MaxHosts = -1
	}
	front.Rate, front.Exempt = s.doorRate(cfg.Limits)
	o, err := openStream(ctx, address, front.Serve)
	if err != nil {
		return nil, err
	}
	s.doorStats.add("razor2", razor2Events(&front.Stats))
	return o, nil
}

// mailServer returns what the helpers of rspamd's modules have in common.
func (s *Node) mailServer(door string) *listen.MailServer {
	cfg := s.cfg.Load()
	m := &listen.MailServer{MaxMail: cfg.HTTP.MaxBody, MaxConns: cfg.Limits.Connections, Log: s.log.With("door", door)}
	m.Rate, m.Exempt = s.doorRate(cfg.Limits)
	return m
}

// clearedMail is cleared for doors that know nothing but the mail.
func (n *core) clearedMail(ctx context.Context, mail []byte) (bool, error) {
	return n.cleared(ctx, mail, "", netip.Addr{}, true)
}

// openRazorHelper opens the door for rspamd's razor module.
func (s *Node) openRazorHelper(ctx context.Context, address string) (*opened, error) {
	front := &razor2.Helper{House: s.engine, Cleared: s.clearedMail, MailServer: s.mailServer("razor_helper")}
	return openStream(ctx, address, front.Serve)
}

// operations returns names of operations as what the server takes; not nil.
func operations(names []string) []pyzor.Op {
	ops := make([]pyzor.Op, 0, len(names))
	for _, name := range names {
		ops = append(ops, pyzor.Op(name))
	}
	return ops
}

// openPyzor opens the door for Pyzor clients.
func (s *Node) openPyzor(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	front := &pyzor.Server{
		House: s.engine, Accounts: &protocolAccounts{s.book, pyzorProtocol},
		Anonymous: operations(cfg.Pyzor.Anonymous), Users: operations(cfg.Pyzor.Users),
		Log: s.log.With("door", "pyzor"),
	}
	front.Rate, front.Exempt = s.doorRate(cfg.Limits)
	o, err := openPackets(ctx, address, front.Serve)
	if err != nil {
		return nil, err
	}
	s.doorStats.add("pyzor", pyzorEvents(&front.Stats))
	return o, nil
}

// openPyzorHelper opens the door for rspamd's pyzor module.
func (s *Node) openPyzorHelper(ctx context.Context, address string) (*opened, error) {
	front := &pyzor.Helper{House: s.engine, Cleared: s.clearedMail, MailServer: s.mailServer("pyzor_helper")}
	return openStream(ctx, address, front.Serve)
}
