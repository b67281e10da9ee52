package doors

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// keptTypes returns the types of checksums with the given names; the result is not nil.
func keptTypes(names []string) []dccsum.Type {
	kept := []dccsum.Type{}
	for t := dccsum.TypeIP; t <= dccsum.TypeFuz2; t++ {
		if slices.Contains(names, t.String()) {
			kept = append(kept, t)
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

// anonymousBurst is for how many seconds' worth of requests anonymous clients may send at once.
const anonymousBurst = 10

func anonymousRate(perSecond float64) door.Rate {
	return door.Rate{PerSecond: perSecond, Burst: int(anonymousBurst * perSecond)}
}

// newDCC returns the server for DCC clients.
func (s *Set) newDCC(cfg *config.Config) (*dcc.Server, error) {
	log := s.opts.Log.With("door", "dcc")
	anonymous, err := config.ParseNetworks(cfg.DCC.Anonymous)
	rate, exempt := s.doorRate(cfg.Limits)
	clients := newDCCClients(&protocolAccounts{s.opts.Accounts, "dcc"}, cfg.DCC.Clients)
	return &dcc.Server{
		Failures:      s.opts.Failures,
		Clearinghouse: s.houseFor("dcc"), ServerID: uint32(cfg.DCC.ServerID), Brand: cfg.DCC.Brand,
		Account:       clients.account,
		AnonymousFrom: anonymous, Keep: keptTypes(cfg.DCC.Keep), Whitelist: whiteFile(cfg.DCC.Whitelist, true, log),
		AnonymousRate:  anonymousRate(cfg.DCC.AnonymousRate),
		AnonymousTotal: anonymousRate(cfg.DCC.AnonymousTotal),
		Rate:           rate, Exempt: exempt, Log: log, Memory: s.opts.Memory,
	}, err
}

// openDCC opens the door for DCC clients.
func (s *Set) openDCC(ctx context.Context, address string) (*opened, error) {
	front, err := s.newDCC(s.opts.Config())
	if err != nil {
		return nil, err
	}
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
