package mesh

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// connect starts the broker of a hub and connects to all brokers.
func (m *Mesh) connect(ctx context.Context) error {
	o := m.opts
	to := m.busOptions()
	switch o.Mode {
	case member.Hub:
		if err := m.serve(ctx, to); err != nil {
			return err
		}
		return m.join(to)
	case member.Join:
		if len(o.Servers) == 0 {
			return fmt.Errorf("mesh: mode join needs the address of a hub")
		}
		return m.join(to)
	case member.External:
		b, err := bus.DialExternal(to, o.Servers)
		if err != nil {
			return err
		}
		m.use(b)
		return m.keepGroup()
	}
	return fmt.Errorf("mesh: mode %.20q is none of %q, %q, %q", o.Mode, member.Hub, member.Join, member.External)
}

// A keeping is whether a keeper answers its members at NATS servers of another operator.
type keeping struct {
	mu   sync.Mutex
	done bool
}

// AddMember is [member.Book.AddMember], and makes a keeper answer its members.
func (m *Mesh) AddMember(ctx context.Context, id, name, group string, keeper bool, weight float64) error {
	if err := m.Book.AddMember(ctx, id, name, group, keeper, weight); err != nil {
		return err
	}
	return m.keepGroup()
}

// keepGroup answers the members of this node's group at NATS servers of another operator. Only a keeper
// subscribes to their questions: the servers may let no other node do so.
func (m *Mesh) keepGroup() error {
	m.keeping.mu.Lock()
	defer m.keeping.mu.Unlock()
	if m.opts.Mode != member.External || m.keeping.done || !m.Keeps() {
		return nil
	}
	for _, c := range m.clients() {
		if err := c.Serve(wire.GroupPrefix, m.groups.ServeGroup); err != nil {
			return err
		}
	}
	m.keeping.done = true
	return nil
}

// serve starts the broker of a hub, and answers the requests that arrive there.
func (m *Mesh) serve(ctx context.Context, o *bus.Options) (err error) {
	if m.broker, err = bus.StartBroker(o, m.opts.Listen, m); err != nil {
		return err
	}
	b, err := m.broker.Connect()
	if err != nil {
		return err
	}
	m.use(b)
	pair := func(id string, from wire.Hint, box []byte) []byte {
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), bus.BrokerWait)
		defer cancel()
		return m.Pair(wait, id, from, box)
	}
	return errors.Join(b.ServePairing(pair), b.Serve(wire.GroupPrefix, m.groups.ServeGroup),
		b.Serve(wire.SecretPrefix, m.ServeSecret))
}

// join connects to hubs. Each hub has its own connection, and every message goes to all hubs, so
// that one hub carries messages that another loses.
func (m *Mesh) join(o *bus.Options) error {
	for _, address := range m.opts.Servers {
		b, err := bus.DialHub(o, address, m)
		if err != nil {
			return err
		}
		m.use(b)
	}
	return nil
}
