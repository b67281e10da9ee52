package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
)

const (
	imagesAge    = 14 * 24 * time.Hour // how long the broker keeps images
	imagesShare  = 4                   // limit of the images' bytes, as a multiple of the deltas' limit
	BrokerWait   = 10 * time.Second    // longest wait for one answer of the broker
	reconnect    = 500 * time.Millisecond
	connectWait  = 5 * time.Second // for one attempt
	pingInterval = 10 * time.Second
	// On a link of 2 kB/s an answer waits for minutes behind a few messages. TCP finds a dead link sooner:
	// see package natsdial.
	maxPings      = 30              // unanswered
	stallWait     = 5 * time.Minute // in which a link takes what one write has
	flushWait     = 2 * time.Second
	keptErrors    = 8 // errors that are not logged again
	refusalStands = 10 * time.Second
	lookEvery     = reconnect / 4       // between two looks at a connection that was never made
	entryEvery    = 4 * reconnect       // between two calls of [natsdial.Entry] for it
	unlimited     = -1                  // messages
	maxUnread     = 32 << 20            // bytes of one subscription that may wait for the receiver
	maxAhead      = 2 * wire.MaxMessage // bytes of stored messages in flight; more than the largest message
)

// A Client is one connection to a NATS server or cluster.
type Client struct {
	Opts    *Options
	Server  string // printable address, without passwords
	Names   names
	create  bool // the node may create the streams
	foreign bool // the server belongs to another operator
	owner   bool // the streams are this node's alone, and get the configured limits
	Conn    *nats.Conn
	Ups     chan struct{}
	link    natsdial.Options // how it signs in
	// keyOfHub is the key of the hub at the other end, once it is known; nil: the other end is no hub.
	keyOfHub *atomic.Pointer[wire.Public]

	mu        sync.Mutex
	handle    func(wire.Arrival)   // takes heads; nil: none are heard
	heads     []*nats.Subscription // of heads; none while the hub sends bundles
	Last      error
	logged    []string  // texts of the errors that were logged last
	refusedAt time.Time // when the server last did not admit the node; zero since it has
	denied    string    // what the server last reported as denied
	deniedAt  time.Time
	trouble   string        // the server's present problem
	answered  time.Duration // how long the server's last answer took
}

// names are the subjects and streams of a network.
type names struct{ Net string }

// NewNames returns the subjects and streams of the network whose secret has the given ID.
func NewNames(keyID uint64) names { return names{wire.NetworkName(keyID)} }

func (n names) Subject(t wire.Topic) string {
	s := "bh." + n.Net + "." + string(rune(t.Kind)) + "." + t.Origin.String()
	if t.Key != "" {
		s += "." + t.Key
	}
	return s
}

// HeadsOfAll matches the heads of all networks, and headsOf the heads of one node in any network.
const HeadsOfAll = "bh.*.h.*"

func (n names) HeadsOf(h wire.Hint) string { return "bh.*.h." + h.String() }

// Parse returns the topic of a subject of the network.
func (n names) Parse(subject string) (t wire.Topic, ok bool) {
	rest, ok := strings.CutPrefix(subject, "bh."+n.Net+".")
	kind, rest, _ := strings.Cut(rest, ".")
	text, key, _ := strings.Cut(rest, ".")
	origin, valid := wire.ParseHint(text)
	if !ok || !valid || len(kind) != 1 {
		return wire.Topic{}, false
	}
	return wire.Topic{Kind: wire.Kind(kind[0]), Origin: origin, Key: key}, true
}

func (n names) All(k wire.Kind) string { return "bh." + n.Net + "." + string(rune(k)) + ".*" }

// asksFor matches the asks addressed to a node, and asksOf the asks sent by a node.
func (n names) asksFor(h wire.Hint) string {
	return n.Subject(wire.Topic{Kind: wire.KindAsk, Origin: h}) + ".*"
}

func (n names) asksOf(h wire.Hint) string { return n.All(wire.KindAsk) + "." + h.String() }

func (n names) imagesOf(h wire.Hint) string {
	return n.Subject(wire.Topic{Kind: wire.KindImage, Origin: h}) + ".*"
}

func (n names) DeltaStream() string { return "BH_" + n.Net + "_D" }
func (n names) ImageStream() string { return "BH_" + n.Net + "_I" }

// dial begins to connect a client; the bus is up once it has reached a server. The library may call the
// client before dial returns.
func (b *Client) dial(o *Options, servers []string, access natsdial.Access, further ...nats.Option) (*Client, error) {
	b.Opts, b.Server = o, natsdial.Redacted(strings.Join(servers, ","))
	b.Names, b.Ups = NewNames(o.KeyID), make(chan struct{}, 1)
	b.link = natsdial.Options{Servers: servers, Name: cmp.Or(o.Name, o.Identity.Public().ID()), Access: access,
		Wait: connectWait, Retry: reconnect, Ping: pingInterval, Pings: maxPings, Further: further}
	whole := b.link
	whole.Further = append(slices.Clone(further), nats.NoEcho(), nats.FlusherTimeout(stallWait),
		nats.CustomInboxPrefix(Inbox(o.Identity.Public().Hint())),
		nats.ConnectHandler(func(*nats.Conn) { b.CameUp() }),
		nats.ReconnectHandler(func(*nats.Conn) { b.CameUp() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { b.lost(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { b.Failed(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { b.Failed(err) }))
	conn, err := natsdial.Connect(whole)
	if err != nil {
		return nil, fmt.Errorf("mesh: broker %s: %w", b.Server, natsdial.Cleared(err))
	}
	b.Conn = conn
	return b, nil
}

// Inbox returns the prefix of the subjects of the answers to a node.
func Inbox(h wire.Hint) string { return "_INBOX_" + h.String() }

// watchEntries records why no server admits the node, whenever its connection has ended, until ctx ends.
func (b *Client) watchEntries(ctx context.Context) {
	lost := b.Conn.StatusChanged(nats.RECONNECTING)
	defer b.Conn.RemoveStatusListener(lost)
	for {
		b.watchEntry(ctx)
		select {
		case <-ctx.Done():
			return
		case <-lost:
		}
	}
}

// watchEntry records why no server admits the node, until one does. The library itself reports none of the
// reasons before the first connection, and no failure of TLS at all.
func (b *Client) watchEntry(ctx context.Context) {
	var entries <-chan time.Time // of several servers, because the library's last error hides those before
	if len(b.link.Servers) > 1 {
		entries = time.Tick(entryEvery)
	}
	for err := b.Conn.LastError(); !b.Conn.IsConnected(); {
		b.Failed(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
			err = b.Conn.LastError()
		case <-entries:
			err = natsdial.Entry(b.link)
		}
	}
}

// changing matches what differs in one error at each attempt to connect: the time, and the local port.
var changing = regexp.MustCompile(`current time [^ ]+|:[0-9]+->`)

// Failed records an error of the connection, if there is one, and logs it unless it is one of the last errors
// that were logged. A refusal stands for a while beside the errors of servers that are down.
func (b *Client) Failed(err error) {
	// A broker may deny heads of other networks, and an older hub does not know the subject of
	// secrets, or bundles of heads.
	if err == nil || strings.Contains(err.Error(), HeadsOfAll) || strings.Contains(err.Error(), `"`+BundleSubject+`"`) ||
		strings.Contains(err.Error(), wire.SecretPrefix+b.Opts.Identity.Public().Hint().String()) {
		return
	}
	b.mu.Lock()
	refusal, now := natsdial.IsRefusal(err), time.Now()
	if refusal || now.Sub(b.refusedAt) > refusalStands {
		b.Last = err
	}
	text := changing.ReplaceAllString(err.Error(), "")
	first := !slices.Contains(b.logged, text)
	if first {
		b.logged = append(b.logged[max(0, len(b.logged)-keptErrors+1):], text)
	}
	b.deny(err)
	turned := refusal && b.refusedAt.IsZero()
	if refusal {
		b.refusedAt = now
	}
	b.mu.Unlock()
	if key, ok := b.Holder(); ok && turned {
		b.Opts.Refused(key)
	}
	if first {
		b.Opts.Log.Warn("broker", "server", b.Server, "err", err)
	}
}

// lost records that a connection has ended. The next connection reports its denials anew.
func (b *Client) lost(err error) {
	b.mu.Lock()
	b.denied = ""
	b.mu.Unlock()
	b.Failed(err)
}

// CameUp notifies the mesh that the bus has connected. It runs on a goroutine of the library, one
// call at a time.
func (b *Client) CameUp() {
	b.mu.Lock()
	b.Last, b.logged, b.refusedAt = nil, nil, time.Time{}
	b.hearHeads() // it may be another hub, without bundles
	b.mu.Unlock()
	select {
	case b.Ups <- struct{}{}:
	default:
	}
}

// Up receives a value whenever the client has connected or reconnected.
func (b *Client) Up() <-chan struct{} { return b.Ups }

// Publish sends a message, or returns an error if the client is disconnected. A message above the
// broker's limit fails with [wire.ErrTooLarge].
func (b *Client) Publish(t wire.Topic, msg []byte) error {
	// No acknowledgement is requested: the versions reveal any message that the broker loses.
	err := b.Conn.Publish(b.Names.Subject(t), msg)
	if errors.Is(err, nats.ErrMaxPayload) {
		return wire.ErrTooLarge
	}
	if err != nil {
		return natsdial.Cleared(err)
	}
	return nil
}

// Listen calls handle for every ask addressed to self and, for all, for every delta and head, also
// for the heads of other networks. The node's own messages are included. A hub sends heads in bundles:
// from the first one on, the client does not hear the heads themselves.
func (b *Client) Listen(self wire.Hint, all bool, handle func(wire.Arrival)) error {
	subjects := []string{b.Names.asksFor(self)}
	if all {
		subjects = append(subjects, b.Names.All(wire.KindDelta))
	}
	for _, s := range subjects {
		if _, err := b.subscribe(s, b.own(handle)); err != nil {
			return err
		}
	}
	if !all {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handle = handle
	b.hearHeads()
	if !b.IsHub() {
		return nil
	}
	_, err := b.subscribe(BundleSubject, func(m *nats.Msg) { b.unbundle(m.Data, handle) })
	return err
}

// hearHeads subscribes to the heads of all nodes. The caller holds mu.
func (b *Client) hearHeads() {
	if b.handle == nil || len(b.heads) > 0 {
		return
	}
	// A broker may deny the heads of other networks, so the heads of this one have a subscription of their own.
	for _, subject := range []string{HeadsOfAll, b.Names.All(wire.KindHead)} {
		sub, _ := b.subscribe(subject, func(m *nats.Msg) { // fails only on a closed connection, which hears nothing
			own := strings.HasPrefix(m.Subject, "bh."+b.Names.Net+".")
			if network, t, ok := headSubject(m.Subject); ok && own != (m.Sub.Subject == HeadsOfAll) {
				b.handle(b.arrival(network, t, m.Data))
			}
		})
		b.heads = append(b.heads, sub)
	}
}

// arrival returns a head as it is handed over.
func (b *Client) arrival(network uint64, t wire.Topic, data []byte) wire.Arrival {
	a := wire.Arrival{Topic: t, Data: data}
	if network != b.Opts.KeyID {
		a.Network = wire.NetworkName(network)
	}
	return a
}

// unbundle hands over the heads of a hub's bundle.
func (b *Client) unbundle(data []byte, handle func(wire.Arrival)) {
	list, err := wire.ParseBundle(data)
	if err != nil {
		b.Failed(err)
		return
	}
	b.mu.Lock()
	for _, sub := range b.heads {
		_ = sub.Unsubscribe() // fails only on a closed connection
	}
	b.heads = nil
	b.mu.Unlock()
	for _, h := range list {
		a := b.arrival(h.Network, wire.Topic{Kind: wire.KindHead, Origin: h.Origin}, h.Data)
		if a.Still = h.Still; len(h.Data) > 0 || a.Network == "" {
			handle(a)
		}
	}
}

// subscribe calls handle for the messages of a subject. An error means that the connection is closed.
func (b *Client) subscribe(subject string, handle nats.MsgHandler) (*nats.Subscription, error) {
	sub, err := b.Conn.Subscribe(subject, handle)
	if err != nil {
		return nil, fmt.Errorf("mesh: broker %s: %w", b.Server, natsdial.Cleared(err))
	}
	return sub, sub.SetPendingLimits(unlimited, maxUnread)
}

// own returns a handler of the messages of this network.
func (b *Client) own(handle func(wire.Arrival)) nats.MsgHandler {
	return func(m *nats.Msg) {
		if t, ok := b.Names.Parse(m.Subject); ok {
			handle(wire.Arrival{Topic: t, Data: m.Data})
		}
	}
}

// ListenImages calls handle for the images of an origin, until the returned function is called.
func (b *Client) ListenImages(origin wire.Hint, handle func(wire.Arrival)) (func(), error) {
	sub, err := b.subscribe(b.Names.imagesOf(origin), b.own(handle))
	return func() { sub.Unsubscribe() }, err // a closed connection has no subscriptions
}

// Proves reports whether the broker is this node's own, so that no other node can publish under its
// topics.
func (b *Client) Proves() bool { return b.owner }

// JetStreamAPI returns the prefix of the subjects for requests to the JetStream of a domain; "" is
// the server's own.
func JetStreamAPI(domain string) string {
	if domain == "" {
		return jetstream.DefaultAPIPrefix
	}
	return "$JS." + domain + ".API."
}

// Streams returns the broker's JetStream, after making the streams if needed.
func (b *Client) Streams(ctx context.Context) (jetstream.JetStream, error) {
	js, err := jetstream.NewWithAPIPrefix(b.Conn, JetStreamAPI(b.Opts.Domain))
	if err != nil || !b.create {
		return js, err
	}
	deltas := jetstream.StreamConfig{
		Name: b.Names.DeltaStream(), Subjects: []string{b.Names.All(wire.KindDelta)}, NoAck: true,
		MaxMsgSize: wire.MaxMessage,
		MaxAge:     b.Opts.StreamAge, MaxBytes: b.Opts.StreamBytes, Storage: jetstream.FileStorage, Replicas: b.Opts.Replicas,
	}
	images := jetstream.StreamConfig{
		Name: b.Names.ImageStream(), Subjects: []string{b.Names.All(wire.KindImage) + ".*"}, NoAck: true,
		MaxMsgsPerSubject: 1,
		MaxMsgSize:        wire.MaxMessage,
		MaxAge:            imagesAge, MaxBytes: imagesShare * b.Opts.StreamBytes, Storage: jetstream.FileStorage,
		Replicas: b.Opts.Replicas,
	}
	for _, cfg := range []jetstream.StreamConfig{deltas, images} {
		stream, err := js.Stream(ctx, cfg.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			_, err = js.CreateStream(ctx, cfg)
		case err == nil && b.owner &&
			(stream.CachedInfo().Config.MaxBytes != cfg.MaxBytes || stream.CachedInfo().Config.MaxAge != cfg.MaxAge):
			_, err = js.UpdateStream(ctx, cfg)
		}
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
	}
	return js, nil
}

// StoredDeltas calls handle for the stored deltas since a time, of one origin or of all, in their
// order. It returns at the end, or when handle returns false.
func (b *Client) StoredDeltas(ctx context.Context, origin *wire.Hint, since time.Time,
	handle func(wire.Arrival) bool) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	if !since.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	if origin != nil {
		cfg.FilterSubjects = []string{b.Names.Subject(wire.Topic{Kind: wire.KindDelta, Origin: *origin})}
	}
	return b.read(ctx, b.Names.DeltaStream(), cfg, handle)
}

// StoredImages calls handle for the stored images of an origin. It returns at the end, or when handle
// returns false.
func (b *Client) StoredImages(ctx context.Context, origin wire.Hint, handle func(wire.Arrival) bool) error {
	return b.read(ctx, b.Names.ImageStream(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{b.Names.imagesOf(origin)},
	}, handle)
}

// read passes the messages that a stream has stored at present to handle.
func (b *Client) read(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
	handle func(wire.Arrival) bool) error {
	if err := b.readStream(ctx, stream, cfg, handle); err != nil {
		return fmt.Errorf("mesh: broker %s: %v", b.Server, err)
	}
	return nil
}

func (b *Client) readStream(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
	handle func(wire.Arrival) bool) error {
	setup, cancel := context.WithTimeout(ctx, BrokerWait)
	defer cancel()
	js, err := b.Streams(setup)
	if err != nil {
		return err
	}
	consumer, err := js.OrderedConsumer(setup, stream, cfg)
	if err != nil {
		return err
	}
	if consumer.CachedInfo().NumPending == 0 {
		return nil
	}
	// Limit bytes and not messages. A broker closes a connection with more data in flight than it
	// allows, 64 MiB by default, and everything would be read again.
	messages, err := consumer.Messages(jetstream.PullMaxBytes(maxAhead))
	if err != nil {
		return err
	}
	defer messages.Stop()
	stopped := context.AfterFunc(ctx, messages.Stop)
	defer stopped()
	for {
		msg, err := messages.Next()
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		t, ok := b.Names.Parse(msg.Subject())
		if ok && !handle(wire.Arrival{Topic: t, Data: msg.Data(), Stored: meta.Timestamp}) || meta.NumPending == 0 {
			return nil
		}
	}
}

// Request sends a request to the owner of a broker, and returns the answer.
func (b *Client) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, BrokerWait)
	defer cancel()
	reply, err := b.Conn.RequestWithContext(ctx, subject, data)
	if err != nil {
		return nil, natsdial.Cleared(err)
	}
	return reply.Data, nil
}

// Serve answers requests of peers to this node's broker, under a prefix and the start of their key.
// A nil reply sends no answer.
func (b *Client) Serve(prefix string, reply func(from wire.Hint, data []byte) []byte) error {
	return b.answer(prefix+"*", func(_ []string, from wire.Hint, data []byte) []byte { return reply(from, data) })
}

// answer answers requests to the subjects of a pattern, whose last part is the start of the key of the node that
// asks. reply gets all parts. The answer goes to the inbox of that node alone: the broker lets no other node hear
// there.
func (b *Client) answer(pattern string, reply func(part []string, from wire.Hint, data []byte) []byte) error {
	_, err := b.subscribe(pattern, func(msg *nats.Msg) {
		part := strings.Split(msg.Subject, ".")
		from, ok := wire.ParseHint(part[len(part)-1])
		if !ok || !strings.HasPrefix(msg.Reply, Inbox(from)+".") {
			return
		}
		if data := reply(part, from, msg.Data); data != nil {
			_ = msg.Respond(data) // a node that misses the reply asks again
		}
	})
	return err
}

// IsHub reports whether the other end is a hub.
func (b *Client) IsHub() bool { return b.keyOfHub != nil }

// Holder returns the key of the hub at the other end; ok is false if it is not known yet, or the other end is no
// hub.
func (b *Client) Holder() (key wire.Public, ok bool) {
	if b.keyOfHub == nil {
		return key, false
	}
	p := b.keyOfHub.Load()
	if p == nil {
		return key, false
	}
	return *p, true
}

// RefusedBy returns the key of the hub that refuses the node; ok is false if the other end is no hub, or
// admits the node.
func (b *Client) RefusedBy() (key wire.Public, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refusedAt.IsZero() {
		return key, false
	}
	return b.Holder()
}

// Connected reports whether the client is connected.
func (b *Client) Connected() bool { return b.Conn.IsConnected() }

// Name returns the configured address, without a password.
func (b *Client) Name() string { return b.Server }

// Status returns the state of the connection.
func (b *Client) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	stats := b.Conn.Stats()
	s := Status{Server: b.Server, Connected: b.Conn.IsConnected(), BytesIn: stats.InBytes, BytesOut: stats.OutBytes,
		Trouble: b.trouble, Answer: b.answered}
	if u := b.Conn.ConnectedUrlRedacted(); !strings.Contains(b.Server, u) { // another one of a cluster
		s.Server = u
	}
	if b.Last != nil {
		s.Error = b.Last.Error()
	}
	return s
}

// Close sends what is buffered, for a moment at most, and closes the connection.
func (b *Client) Close() error {
	// Published messages may still wait in the buffer.
	if b.Conn.IsConnected() {
		b.Conn.FlushTimeout(flushWait)
	}
	b.Conn.Close()
	return nil
}
