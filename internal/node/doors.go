package node

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/bulkhead-mail/bulkhead/api"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// doors is every front door of this build, one line each.
func (s *Node) doors() []door {
	return []door{
		{"http", "API and status page", s.openHTTP},
		{"razor2", "Razor 2 clients", s.openRazor2},
		{"razor_helper", "rspamd's razor module", s.openRazorHelper},
		{"pyzor", "Pyzor clients", s.openPyzor},
		{"pyzor_helper", "rspamd's pyzor module", s.openPyzorHelper},
		{"dcc", "DCC clients", s.openDCC},
		{"dccifd", "SpamAssassin, rspamd and Exim, as dccifd", s.openDccifd},
		{"fuzzy", "rspamd's fuzzy_check", s.openFuzzy},
		{"milter", "Postfix and Sendmail", s.openMilter},
		{"policy", "Postfix policy delegation", s.openPolicy},
		{"dnsbl", "lists through DNS", s.openDNSBL},
	}
}

// startDoors binds every door that is on. A door whose port is taken stays shut if
// the node may do without, except the HTTP one.
func (s *Node) startDoors(ctx context.Context, st *stage) error {
	addresses := make(map[string]string)
	for _, d := range s.cfg.Load().Listen.Doors() {
		addresses[d.Key] = d.Address
	}
	for _, d := range s.doors() {
		address := addresses[d.key]
		if address == "" {
			continue
		}
		o, err := d.open(ctx, address)
		if err != nil && s.spare && d.key != "http" && errors.Is(err, syscall.EADDRINUSE) {
			s.log.Warn("front door stays shut: another program has its port", "door", d.key, "address", address)
			continue
		}
		if err != nil {
			return fmt.Errorf("listen.%s: %w", d.key, err)
		}
		st.tasks = append(st.tasks, task{name: "door " + d.key, run: o.serve, abandon: o.abandon})
		s.core.doors = append(s.core.doors, api.Door{Name: d.key, Address: o.address})
	}
	if len(st.tasks) == 0 {
		return &config.Error{Key: "listen", Detail: "no front door is on"}
	}
	return nil
}
