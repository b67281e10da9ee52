package node

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

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

// openPyzor opens the door for Pyzor clients.
func (n *Node) openPyzor(ctx context.Context, address string) (*opened, error) {
	cfg := n.cfg.Load()
	front := &pyzor.Server{
		Failures:      n.failures,
		Clearinghouse: n.houseFor("pyzor"), Accounts: &protocolAccounts{n.book, pyzorProtocol},
		Anonymous: operations(cfg.Pyzor.Anonymous), Users: operations(cfg.Pyzor.Users),
		Listed: cfg.Pyzor.Listed, Log: n.log.With("door", "pyzor"),
	}
	front.Rate, front.Exempt = n.doorRate(cfg.Limits)
	front.Memory = n.messages
	o, err := openPackets(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics = pyzorMetrics(&front.Stats)
	return o, nil
}

// openPyzorHelper opens the door for rspamd's pyzor module.
func (n *Node) openPyzorHelper(ctx context.Context, address string) (*opened, error) {
	cfg := n.cfg.Load()
	front := &pyzor.Helper{
		Clearinghouse: n.houseFor("pyzor_helper"), Read: n.read, Listed: cfg.Pyzor.Listed, MaxMail: cfg.HTTP.MaxBody,
		MaxConns: cfg.Limits.Connections, Memory: n.messages,
		Log: n.log.With("door", "pyzor_helper"),
	}
	front.Rate, front.Exempt = n.doorRate(cfg.Limits)
	return openStream(ctx, address, front)
}

func pyzorMetrics(s *pyzor.Stats) []prometheus.Collector {
	return doorEvents("pyzor", map[string]*atomic.Int64{
		"ping": &s.Pings, "check": &s.Checks, "info": &s.Infos, "report": &s.Reports, "whitelist": &s.Whitelists,
		"strange": &s.Strange, "refused": &s.Refused, "unanswered": &s.Unanswered, "busy": &s.Busy, "fault": &s.Faults,
	})
}
