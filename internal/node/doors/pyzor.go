package doors

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/pyzor"
)

// operations converts names of operations for the server; the result is not nil.
func operations(names []string) []pyzor.Op {
	ops := make([]pyzor.Op, 0, len(names))
	for _, name := range names {
		ops = append(ops, pyzor.Op(name))
	}
	return ops
}

func (s *Set) newPyzor(cfg *config.Config) *pyzor.Server {
	rate, exempt := s.doorRate(cfg.Limits)
	return &pyzor.Server{
		Failures:      s.opts.Failures,
		Clearinghouse: s.houseFor("pyzor"), Accounts: &protocolAccounts{s.opts.Accounts, "pyzor"},
		Anonymous: operations(cfg.Pyzor.Anonymous), Users: operations(cfg.Pyzor.Users),
		Listed: cfg.Pyzor.Listed, Rate: rate, Exempt: exempt, Memory: s.opts.Memory, Log: s.opts.Log.With("door", "pyzor"),
	}
}

// openPyzor opens the door for Pyzor clients.
func (s *Set) openPyzor(ctx context.Context, address string) (*opened, error) {
	front := s.newPyzor(s.opts.Config())
	o, err := openPackets(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics = pyzorMetrics(&front.Stats)
	return o, nil
}

// openPyzorHelper opens the door for rspamd's pyzor module.
func (s *Set) openPyzorHelper(ctx context.Context, address string) (*opened, error) {
	cfg := s.opts.Config()
	return openStream(ctx, address, &pyzor.Helper{MailServer: s.mailServer(cfg, "pyzor_helper"),
		Clearinghouse: s.houseFor("pyzor_helper"), Read: s.opts.Messages.Read, Listed: cfg.Pyzor.Listed})
}

func pyzorMetrics(s *pyzor.Stats) []prometheus.Collector {
	return doorEvents("pyzor", map[string]*atomic.Int64{
		"ping": &s.Pings, "check": &s.Checks, "info": &s.Infos, "report": &s.Reports, "whitelist": &s.Whitelists,
		"strange": &s.Strange, "refused": &s.Refused, "unanswered": &s.Unanswered, "busy": &s.Busy, "fault": &s.Faults,
	})
}
