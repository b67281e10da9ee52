package doors

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

func keptTypes(names []string) []dccsum.Type {
	kept := []dccsum.Type{}
	for t := dccsum.TypeIP; t <= dccsum.TypeFuz2; t++ {
		for _, name := range names {
			if t.String() == name {
				kept = append(kept, t)
			}
		}
	}
	return kept
}

// whiteFile returns a function that returns the whitelist in a file; nil for no file.
func whiteFile(path string, server bool, log *slog.Logger) func() *dcc.Whitelist {
	if path == "" {
		return nil
	}
	files := dcc.NewWhiteFiles(filepath.Dir(path), server, log)
	return func() *dcc.Whitelist { return files.Get(filepath.Base(path)) }
}

// openDCC opens the door for DCC clients.
func (s *Set) openDCC(ctx context.Context, address string) (*opened, error) {
	cfg := s.opts.Config()
	log := s.opts.Log.With("door", "dcc")
	anonymous, err := config.ParseNetworks(cfg.DCC.Anonymous)
	if err != nil {
		return nil, err
	}
	clients := newDCCClients(&protocolAccounts{s.opts.Accounts, "dcc"}, cfg.DCC.Clients)
	front := &dcc.Server{
		Failures:      s.opts.Failures,
		Clearinghouse: s.houseFor("dcc"), ServerID: uint32(cfg.DCC.ServerID), Brand: cfg.DCC.Brand,
		Account:       clients.account,
		AnonymousFrom: anonymous, Keep: keptTypes(cfg.DCC.Keep), Whitelist: whiteFile(cfg.DCC.Whitelist, true, log),
		AnonymousRate:  door.Rate{PerSecond: cfg.DCC.AnonymousRate, Burst: int(10 * cfg.DCC.AnonymousRate)},
		AnonymousTotal: door.Rate{PerSecond: cfg.DCC.AnonymousTotal, Burst: int(10 * cfg.DCC.AnonymousTotal)},
		Log:            log, Memory: s.opts.Memory,
	}
	front.Rate, front.Exempt = s.doorRate(cfg.Limits)
	o, err := openPackets(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics = dccMetrics(&front.Stats)
	return o, nil
}

func dccMetrics(s *dcc.Stats) []prometheus.Collector {
	return doorEvents("dcc", map[string]*atomic.Int64{
		"nop": &s.NOPs, "query": &s.Queries, "report": &s.Reports, "retransmission": &s.Repeated, "spam": &s.Spam,
		"delete": &s.Deletes, "admin": &s.Admin, "anonymous": &s.Anonymous, "bad_password": &s.BadPassword,
		"malformed": &s.Malformed, "limited": &s.Limited, "fault": &s.Faults,
	})
}
