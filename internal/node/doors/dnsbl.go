package doors

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/dnsbl"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/live"
)

// zonesOf returns the configured zones with their lists, after a server has checked them.
func zonesOf(cfg *config.Config, list func(string) *lists.Handle, live dnsbl.List) ([]dnsbl.Zone, error) {
	var zones []dnsbl.Zone
	for _, z := range cfg.DNSBL.Zones {
		out := dnsbl.Zone{Name: z.Name, Form: dnsbl.Form(z.Form), TTL: time.Duration(z.TTL), Host: z.Host}
		if z.Live {
			if cfg.IsEdge() { // a datagram would wait for another machine
				return nil, &config.Error{Key: "dnsbl.zone",
					Detail: fmt.Sprintf("zone %q: an edge has no live zone: its upstream may have one", z.Name)}
			}
			out.List = live
		}
		for _, p := range z.Parts() {
			part, err := partOf(&z, p, list)
			if err != nil {
				return nil, err
			}
			out.Parts = append(out.Parts, part)
		}
		if z.Text != "" {
			v, err := lists.ParseValue("::" + z.Text)
			if err != nil {
				return nil, &config.Error{Key: "dnsbl.zone.text", Detail: err.Error()}
			}
			out.Text = v.Text
		}
		if z.Code != "" {
			code, err := netip.ParseAddr(z.Code)
			if err != nil {
				return nil, &config.Error{Key: "dnsbl.zone.code", Detail: err.Error()}
			}
			out.Code = code
		}
		zones = append(zones, out)
	}
	if err := new(dnsbl.Server).SetZones(zones); err != nil {
		return nil, &config.Error{Key: "dnsbl.zone", Detail: err.Error()}
	}
	return zones, nil
}

// partOf returns one list of a zone.
func partOf(z *config.DNSBLZone, p config.ZonePart, list func(string) *lists.Handle) (dnsbl.Part, error) {
	h := list(p.List)
	if h == nil { // the zone's check reports it
		return dnsbl.Part{}, nil
	}
	if h.Known() && (z.Form == "hash") != (h.Hash() != "") {
		return dnsbl.Part{}, &config.Error{Key: "dnsbl.zone",
			Detail: fmt.Sprintf("zone %q: form %q does not fit list %q of hash %q", z.Name, z.Form, p.List, h.Hash())}
	}
	out := dnsbl.Part{List: h, Known: h.Known}
	if p.Value != "" {
		v, err := lists.ParseValue(p.Value)
		if err != nil {
			return dnsbl.Part{}, &config.Error{Key: "dnsbl.zone.lists",
				Detail: fmt.Sprintf("zone %q: list %q: %v", z.Name, p.List, err)}
		}
		out.Code, out.Text = v.Code, v.Text
	}
	return out, nil
}

// checkDNSBL checks zones.
func checkDNSBL(p *proposal) error {
	_, err := zonesOf(p.Config, p.list, live.List{})
	return err
}

// openDNSBL opens the door for DNS queries, over UDP and TCP.
func (s *Set) openDNSBL(ctx context.Context, address string) (*opened, error) {
	cfg := s.opts.Config()
	current := live.List{Judge: s.opts.Judge, Log: s.opts.Log.With("door", "dnsbl")}
	zones, err := zonesOf(cfg, s.opts.Lists.Handle, current)
	if err != nil {
		return nil, err
	}
	rate, exempt := s.doorRate(cfg.Limits)
	front := &dnsbl.Server{Zones: zones, MaxConns: s.connections(), Memory: s.opts.Memory, Rate: rate, Exempt: exempt,
		Log: s.opts.Log.With("door", "dnsbl")}
	if err := front.Prepare(); err != nil { // before a reload sets other zones
		return nil, err
	}
	o, err := openPort(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics = dnsblMetrics(&front.Stats)
	o.prepare = func(p *proposal) (func() error, error) {
		zones, err := zonesOf(p.Config, p.list, current)
		return func() error { return front.SetZones(zones) }, err
	}
	return o, nil
}

func dnsblMetrics(s *dnsbl.Stats) []prometheus.Collector {
	return []prometheus.Collector{
		newFamily("bulkhead_dnsbl_answers_total", "Answers of the DNS door.", "answer", map[string]*atomic.Int64{
			"all": &s.Queries, "hit": &s.Hits, "miss": &s.Misses, "refused": &s.Refused, "broken": &s.Broken,
			"slipped": &s.Slipped, "failed": &s.Failed,
		}),
	}
}
