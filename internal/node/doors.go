package node

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// doors lists every front door of this build, one line each: its key in [listen], its clients, how
// it is opened, and how its part of a configuration is checked.
func (n *Node) doors() []frontDoor {
	return []frontDoor{
		{"http", "API and pages", n.openHTTP, checkHTTP},
		{"razor2", "Razor 2 clients", n.openRazor2, nil},
		{"razor_helper", "rspamd's razor module", n.openRazorHelper, nil},
		{"pyzor", "Pyzor clients", n.openPyzor, nil},
		{"pyzor_helper", "rspamd's pyzor module", n.openPyzorHelper, nil},
		{"dcc", "DCC clients", n.openDCC, nil},
		{"dccifd", "SpamAssassin, rspamd and Exim, as dccifd", n.openDccifd, checkDccifd},
		{"fuzzy", "rspamd's fuzzy_check", n.openFuzzy, checkFuzzy},
		{"milter", "Postfix and Sendmail", n.openMilter, checkMilter},
		{"policy", "Postfix policy delegation", n.openPolicy, nil},
		{"dnsbl", "lists through DNS", n.openDNSBL, checkDNSBL},
	}
}

// startDoors binds every enabled door. With [Options.Spare], a door whose port is in use stays
// closed, except the HTTP door.
func (n *Node) startDoors(ctx context.Context, st *stage) error {
	n.registry.MustRegister(newMemoryCollector(n.core))
	addresses := make(map[string]string)
	for _, d := range n.cfg.Load().Listen.Doors() {
		addresses[d.Key] = d.Address
	}
	for _, d := range n.doors() {
		address := addresses[d.key]
		if address == "" {
			continue
		}
		o, err := d.open(ctx, address)
		if err != nil && n.spare && d.key != "http" && errors.Is(err, syscall.EADDRINUSE) {
			n.log.Warn("front door not opened: another program has its port", "door", d.key, "address", address)
			continue
		}
		if err != nil {
			return fmt.Errorf("listen.%s: %w", d.key, err)
		}
		n.opened = append(n.opened, o)
		// It cannot fail, because names are constant.
		n.registry.MustRegister(append(o.metrics, newDoorCollector(d.key, o, n.counted[d.key]))...)
		st.tasks = append(st.tasks, task{name: "door " + d.key, run: o.serve, abandon: o.abandon})
		n.core.doors = append(n.core.doors, admin.Door{Name: d.key, Address: o.address})
	}
	if len(st.tasks) == 0 {
		return &config.Error{Key: "listen", Detail: "no front door is enabled"}
	}
	st.tasks = append(st.tasks, task{name: "rates of doors", run: n.watchDoors})
	return nil
}
