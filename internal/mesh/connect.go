package mesh

import (
	"context"
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// connect starts the broker of a hub and connects to all brokers.
func (m *Mesh) connect(ctx context.Context) error {
	o := m.opts
	to := m.busOptions()
	switch o.Mode {
	case Hub:
		if err := m.serve(ctx, to); err != nil {
			return err
		}
		return m.join(to)
	case Join:
		if len(o.Servers) == 0 {
			return fmt.Errorf("mesh: mode join needs the address of a hub")
		}
		return m.join(to)
	case External:
		b, err := connectExternal(to, o.Servers)
		if err != nil {
			return err
		}
		m.use(b)
		return nil
	}
	return fmt.Errorf("mesh: mode %.20q is none of %q, %q, %q", o.Mode, Hub, Join, External)
}

// serve starts the broker of a hub, and answers the requests that arrive there.
func (m *Mesh) serve(ctx context.Context, o *busOptions) (err error) {
	if m.broker, err = startBroker(o, m.opts.Listen, m); err != nil {
		return err
	}
	b, err := m.broker.connect()
	if err != nil {
		return err
	}
	m.use(b)
	err = b.servePairing(func(id string, from wire.Hint, box []byte) []byte {
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), brokerWait)
		defer cancel()
		return m.pair(wait, id, from, box)
	})
	if err == nil {
		err = errors.Join(b.serve(wire.GroupPrefix, m.groups.tellGroup), b.serve(wire.SecretPrefix, m.tellSecret))
	}
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return nil
}

// join connects to hubs. Each hub has its own connection, and every message goes to all hubs, so
// that one hub carries messages that another loses.
func (m *Mesh) join(o *busOptions) error {
	for _, address := range m.opts.Servers {
		b, err := connectHub(o, address, m)
		if err != nil {
			return err
		}
		m.use(b)
	}
	return nil
}
