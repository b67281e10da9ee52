package mesh

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A Mesh is a node's part in a network of nodes. Its methods may be called concurrently.
type Mesh struct {
	*Book
	*Pairing
	*Secrets

	opts     *Options
	groups   *Groups
	state    *State
	sender   *sender
	receiver *receiver
	buses    []bus
	broker   *broker // of this process; nil if there is none
}

// Open starts nothing yet, except the broker of a hub. It reads the files in opts.Dir, sets the
// origins that the engine counts, makes the engine record its adds from now on, and connects. An
// unreachable broker is no error: the mesh waits for it.
func Open(ctx context.Context, opts Options) (*Mesh, error) {
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
func prepare(ctx context.Context, opts Options) (*Mesh, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	m := &Mesh{opts: &opts}
	var err error
	if m.Book, err = OpenBook(&opts, watcher{m}); err != nil {
		return nil, err
	}
	if m.state, err = OpenState(&opts); err != nil {
		return nil, err
	}
	if m.Pairing, err = OpenPairing(&opts, m.Book); err != nil {
		return nil, err
	}
	if m.Secrets, err = OpenSecrets(&opts, m.Book); err != nil {
		return nil, err
	}
	m.groups = &Groups{opts: &opts, book: m.Book}
	m.sender = newSender(&opts, m.Book, m.state)
	if err := m.sender.start(ctx); err != nil {
		return nil, err
	}
	if err := m.Book.tellEngine(ctx); err != nil {
		return nil, err
	}
	if err := m.Book.forgetRefused(ctx); err != nil {
		return nil, err
	}
	if err := m.sender.record(ctx); err != nil {
		return nil, err
	}
	m.receiver = newReceiver(&opts, m.Book, m.state, m.Secrets, m.sender)
	return m, m.receiver.loadHeard()
}

// busOptions returns the settings of the connections to brokers.
func (m *Mesh) busOptions() *busOptions {
	o := m.opts
	return &busOptions{Dir: o.Dir, Identity: o.Identity, KeyID: o.KeyID, Name: o.Name, Credentials: o.Credentials,
		CA: o.CA, Cert: o.Cert, Key: o.Key, Domain: o.Domain, Heartbeat: o.Heartbeat, StreamAge: o.StreamAge,
		StreamBytes: o.StreamBytes, Replicas: o.Replicas, Now: o.Now, Log: o.Log}
}

// Announcements returns the changes of the secret of m; nil for a nil mesh. It makes m a [Taker].
func (m *Mesh) Announcements() *Secrets {
	if m == nil {
		return nil
	}
	return m.Secrets
}

// A watcher connects the peer list with the other parts of a mesh.
type watcher struct{ m *Mesh }

// Added implements [Watcher].
func (w watcher) Added(h wire.Hint) {
	w.m.receiver.call(func(ctx context.Context) { w.m.receiver.welcome(ctx, h) })
}

// Dropped implements [Watcher].
func (w watcher) Dropped(id string, h wire.Hint) error {
	if w.m.broker != nil {
		w.m.broker.showOut(id)
	}
	w.m.receiver.call(func(context.Context) { w.m.receiver.forget(h) })
	return w.m.leftRotation(id)
}

// Between implements [Watcher].
func (w watcher) Between(f func(ctx context.Context)) { w.m.receiver.call(f) }

// use makes all parts of the mesh use a bus.
func (m *Mesh) use(b bus) {
	m.buses = append(m.buses, b)
	m.sender.use(b)
	m.receiver.use(b)
	h, ok := b.(*natsBus)
	if ok && !h.owner {
		m.groups.hubs = append(m.groups.hubs, h)
	}
	if ok && h.keyOfHub != nil {
		m.Secrets.hubs = append(m.Secrets.hubs, h)
	}
}

// Run shares until ctx ends. It is called once.
func (m *Mesh) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, b := range m.buses {
		handle := func(a wire.Arrival) { m.receiver.deliver(ctx, b, a, false) }
		if err := b.listen(m.opts.Identity.Hint(), m.opts.Role != Publish, handle); err != nil {
			return fmt.Errorf("mesh: %w", err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { m.sender.run(ctx) })
	wg.Go(func() { m.receiver.run(ctx) })
	for _, b := range m.buses {
		wg.Go(func() { m.watch(ctx, b) })
		if b, ok := b.(*natsBus); ok {
			wg.Go(func() { b.watch(ctx) })
		}
	}
	wg.Go(func() { m.groups.followGroups(ctx) })
	wg.Go(func() { m.followSecret(ctx) })
	wg.Go(func() { m.awaitRotation(ctx) })
	wg.Go(func() { m.announceRegularly(ctx) })
	wg.Wait()
	return nil
}

// watch catches up whenever a bus reconnects.
func (m *Mesh) watch(ctx context.Context, b bus) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.up():
		}
		m.sender.Greet()
		if m.opts.Role != Publish {
			m.receiver.catchUp(ctx, b)
		}
	}
}

// Close closes the connections and stops the broker of a hub. Run must have returned.
func (m *Mesh) Close() error {
	var errs []error
	errs = append(errs, m.state.Close(!m.sender.healing.Load()), m.receiver.saveHeard())
	for _, b := range m.buses {
		errs = append(errs, b.close())
	}
	if m.broker != nil {
		m.broker.close()
	}
	return errors.Join(errs...)
}
