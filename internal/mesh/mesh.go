package mesh

import (
	"context"
	"errors"
	"sync"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/origin"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/replica"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
)

// A transport is what a mesh needs of a bus, besides what its rooms need.
type transport interface {
	wire.Transport
	// Listen calls handle for every delta and head, for every ask addressed to self, and for heads
	// of other networks, as far as the broker lets the node receive them. The node's own messages
	// are included. It is called once, before the other methods.
	Listen(self wire.Hint, all bool, handle func(wire.Arrival)) error
	// Up receives a value whenever the bus has connected or reconnected.
	Up() <-chan struct{}
	Status() bus.Status
	Close() error
}

// A Mesh is a node's part in a network of nodes. Its methods may be called concurrently.
type Mesh struct {
	*member.Book
	*member.Pairing
	*member.Secrets

	opts     *member.Options
	groups   *member.Groups
	state    *member.State
	origin   *origin.Sender
	replicas *replica.Receiver
	buses    []transport
	broker   *bus.Broker // of this process; nil if there is none
	keeping  keeping
}

// Open starts nothing yet, except the broker of a hub. It reads the files in opts.Dir, sets the
// origins that the engine counts, makes the engine record its adds from now on, and connects. An
// unreachable broker is no error: the mesh waits for it.
func Open(ctx context.Context, opts member.Options) (*Mesh, error) {
	m, err := prepare(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := m.connect(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// prepare makes a mesh without a bus.
func prepare(ctx context.Context, opts member.Options) (*Mesh, error) {
	if err := opts.Complete(); err != nil {
		return nil, err
	}
	m := &Mesh{opts: &opts}
	var err error
	if m.Book, err = member.OpenBook(&opts, watcher{m}); err != nil {
		return nil, err
	}
	if m.state, err = member.OpenState(&opts); err != nil {
		return nil, err
	}
	if m.Pairing, err = member.OpenPairing(&opts, m.Book); err != nil {
		return nil, err
	}
	if m.Secrets, err = member.OpenSecrets(&opts, m.Book); err != nil {
		return nil, err
	}
	m.groups = member.NewGroups(&opts, m.Book)
	m.origin = origin.New(&opts, m.Book, m.state)
	if err := m.origin.Start(ctx); err != nil {
		return nil, err
	}
	if err := m.Book.SetOrigins(ctx); err != nil {
		return nil, err
	}
	if err := m.Book.DropRefused(ctx); err != nil {
		return nil, err
	}
	if err := m.origin.Record(ctx); err != nil {
		return nil, err
	}
	m.replicas = replica.New(&opts, m.Book, m.state, m.Secrets, m.origin)
	m.openLessons()
	return m, m.replicas.Load()
}

// busOptions returns the settings of the connections to brokers.
func (m *Mesh) busOptions() *bus.Options {
	o := m.opts
	return &bus.Options{Dir: o.Dir, Identity: o.Identity, KeyID: o.KeyID, Name: o.Name,
		Access: natsdial.Access{Credentials: o.Credentials, CA: o.CA, Cert: o.Cert, Key: o.Key},
		Domain: o.Domain, Heartbeat: o.Heartbeat, StreamAge: o.StreamAge,
		StreamBytes: o.StreamBytes, Replicas: o.Replicas, Refused: m.refused, Now: o.Now, Log: o.Log}
}

// refused logs that a hub refuses this node, which it has admitted before.
func (m *Mesh) refused(hub wire.Public) {
	if m.state.WasAdmitted(hub.ID()) {
		p, _ := m.Find(hub.Hint())
		m.opts.Log.Error("expelled by "+p.Label(), "key", hub.ID(),
			"consequence", "nothing is shared through this hub",
			"hint", "to come back, ask for an invitation and run \"bulkhead join\"; to end it, run \"bulkhead leave\"")
	}
}

// Announcements returns the changes of the secret of m; nil for a nil mesh. It makes m a [member.Taker].
func (m *Mesh) Announcements() *member.Secrets {
	if m == nil {
		return nil
	}
	return m.Secrets
}

// A watcher connects the peer list with the other parts of a mesh.
type watcher struct{ m *Mesh }

// Added implements [member.Watcher].
func (w watcher) Added(h wire.Hint) {
	w.m.replicas.Do(func(ctx context.Context) { w.m.replicas.Welcome(ctx, h) })
}

// Dropped implements [member.Watcher].
func (w watcher) Dropped(id string, h wire.Hint) error {
	if w.m.broker != nil {
		w.m.broker.ShowOut(id)
	}
	w.m.replicas.Do(func(context.Context) { w.m.replicas.Forget(h) })
	return w.m.LeftRotation(id)
}

// Between implements [member.Watcher].
func (w watcher) Between(f func(ctx context.Context)) { w.m.replicas.Do(f) }

// use makes all parts of the mesh use a bus.
func (m *Mesh) use(b transport) {
	m.buses = append(m.buses, b)
	m.origin.Use(b)
	m.replicas.Use(b)
	h, ok := b.(*bus.Client)
	if ok && !h.Proves() {
		m.groups.UseHub(h)
	}
	if ok && h.IsHub() {
		m.Secrets.UseHub(h)
	}
}

// clients returns the buses that are connections to NATS servers.
func (m *Mesh) clients() (list []*bus.Client) {
	for _, b := range m.buses {
		if c, ok := b.(*bus.Client); ok {
			list = append(list, c)
		}
	}
	return list
}

// Run shares until ctx ends. It is called once.
func (m *Mesh) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, b := range m.buses {
		handle := func(a wire.Arrival) { m.replicas.Deliver(ctx, b, a, false) }
		if err := b.Listen(m.opts.Identity.Hint(), m.opts.Role != member.Publish, handle); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { m.origin.Run(ctx) })
	wg.Go(func() { m.replicas.Run(ctx) })
	for _, b := range m.buses {
		wg.Go(func() { m.watch(ctx, b) })
	}
	for _, c := range m.clients() {
		wg.Go(func() { c.Watch(ctx) })
	}
	wg.Go(func() { m.learnTogether(ctx) })
	wg.Go(func() { m.groups.FollowGroups(ctx) })
	wg.Go(func() { m.FollowSecret(ctx) })
	wg.Go(func() { m.AwaitRotation(ctx) })
	wg.Go(func() { m.AnnounceRegularly(ctx) })
	wg.Wait()
	return nil
}

// watch catches up whenever a bus reconnects.
func (m *Mesh) watch(ctx context.Context, b transport) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.Up():
		}
		if c, ok := b.(*bus.Client); ok {
			if hub, ok := c.Holder(); ok {
				_ = m.state.Admit(hub.ID()) // the next change of the state saves it again
			}
		}
		m.origin.Greet()
		if m.opts.Role != member.Publish {
			m.replicas.CatchUp(ctx, b)
		}
	}
}

// Close closes the connections and stops the broker of a hub. Run must have returned.
func (m *Mesh) Close() error {
	var errs []error
	errs = append(errs, m.state.Close(!m.origin.Healing()), m.replicas.Save(), m.closeLessons())
	for _, b := range m.buses {
		errs = append(errs, b.Close())
	}
	if m.broker != nil {
		m.broker.Close()
	}
	return errors.Join(errs...)
}
