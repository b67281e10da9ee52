package mesh

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

const (
	imagesAge    = 14 * 24 * time.Hour // how long the broker keeps images
	imagesShare  = 4                   // limit of the images' bytes, as a multiple of the deltas' limit
	brokerWait   = 10 * time.Second    // longest wait for one answer of the broker
	reconnect    = 500 * time.Millisecond
	connectWait  = 5 * time.Second // for one attempt
	pingInterval = 10 * time.Second
	maxPings     = 2 // unanswered
	flushWait    = 2 * time.Second
	maxUnread    = 32 << 20            // bytes of one subscription that may wait for the receiver
	maxAhead     = 2 * wire.MaxMessage // bytes of stored messages in flight; more than the largest message
)

// A natsBus is one connection to a NATS server or cluster.
type natsBus struct {
	opts    *busOptions
	server  string // printable address, without passwords
	names   names
	create  bool // the node may create the streams
	foreign bool // the server belongs to another operator
	owner   bool // the streams are this node's alone, and get the configured limits
	conn    *nats.Conn
	ups     chan struct{}
	// keyOfHub is the key of the hub at the other end, once it is known; nil: the other end is no hub.
	keyOfHub *atomic.Pointer[wire.Public]

	mu       sync.Mutex
	last     error
	denied   string // what the server last reported as denied
	deniedAt time.Time
	trouble  string        // the server's present problem
	answered time.Duration // how long the server's last answer took
}

// names are the subjects and streams of a network.
type names struct{ net string }

func newNames(keyID uint64) names { return names{wire.NetworkName(keyID)} }

func (n names) subject(t wire.Topic) string {
	s := "bh." + n.net + "." + string(rune(t.Kind)) + "." + t.Origin.String()
	if t.Key != "" {
		s += "." + t.Key
	}
	return s
}

// headsOfAll matches the heads of all networks, and headsOf the heads of one node in any network.
const headsOfAll = "bh.*.h.*"

func (n names) headsOf(h wire.Hint) string { return "bh.*.h." + h.String() }

// parse returns the topic of a subject of the network.
func (n names) parse(subject string) (t wire.Topic, ok bool) {
	rest, ok := strings.CutPrefix(subject, "bh."+n.net+".")
	if !ok || len(rest) < 2 || rest[1] != '.' {
		return wire.Topic{}, false
	}
	origin, key, _ := strings.Cut(rest[2:], ".")
	t = wire.Topic{Kind: wire.Kind(rest[0]), Key: key}
	t.Origin, ok = wire.ParseHint(origin)
	return t, ok
}

func (n names) all(k wire.Kind) string { return "bh." + n.net + "." + string(rune(k)) + ".*" }

// asksFor matches the asks addressed to a node, and asksOf the asks sent by a node.
func (n names) asksFor(h wire.Hint) string {
	return n.subject(wire.Topic{Kind: wire.KindAsk, Origin: h}) + ".*"
}

func (n names) asksOf(h wire.Hint) string { return n.all(wire.KindAsk) + "." + h.String() }

func (n names) imagesOf(h wire.Hint) string {
	return n.subject(wire.Topic{Kind: wire.KindImage, Origin: h}) + ".*"
}

func (n names) deltaStream() string { return "BH_" + n.net + "_D" }
func (n names) imageStream() string { return "BH_" + n.net + "_I" }

// dial begins to connect; the bus is up once it has reached a server.
func dial(o *busOptions, server string, create bool, options ...nats.Option) (*natsBus, error) {
	b := &natsBus{opts: o, server: redacted(server), names: newNames(o.KeyID), create: create, ups: make(chan struct{}, 1)}
	name := o.Name
	if name == "" {
		name = o.Identity.Public().ID()
	}
	options = append([]nats.Option{
		nats.Name(name), nats.NoEcho(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(reconnect), nats.ReconnectBufSize(-1), nats.Timeout(connectWait),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPings),
		nats.CustomInboxPrefix(inbox(o.Identity.Public().Hint())),
		nats.ConnectHandler(func(*nats.Conn) { b.cameUp() }),
		nats.ReconnectHandler(func(*nats.Conn) { b.cameUp() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { b.lost(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { b.failed(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { b.failed(err) }),
	}, options...)
	conn, err := nats.Connect(server, options...)
	if err != nil {
		return nil, fmt.Errorf("mesh: broker %s: %w", b.server, cleared(err))
	}
	b.conn = conn
	return b, nil
}

// redacted returns a list of URLs without the passwords in them. A user without a password is a
// token, and is hidden.
func redacted(servers string) string {
	list := strings.Split(servers, ",")
	for i, s := range list {
		u, err := url.Parse(s)
		if err != nil || u.User == nil {
			continue
		}
		if _, ok := u.User.Password(); !ok {
			u.User = url.User("xxxxx")
		}
		list[i] = u.Redacted()
	}
	return strings.Join(list, ",")
}

func inbox(h wire.Hint) string { return "_INBOX_" + h.String() }

// cleared keeps the text of an error of the NATS library, and drops its type.
func cleared(err error) error { return errors.New(err.Error()) }

// watchEntry records why no server has admitted the node yet, until one does. The library reports
// that only for a connection that was established before.
func (b *natsBus) watchEntry(ctx context.Context) {
	last := ""
	for !b.conn.IsConnected() {
		if err := b.conn.LastError(); err != nil && err.Error() != last {
			last = err.Error()
			b.failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reconnect / 4):
		}
	}
}

func (b *natsBus) failed(err error) {
	// A broker may deny heads of other networks, and an older hub does not know the subject of
	// secrets.
	if err == nil || strings.Contains(err.Error(), headsOfAll) ||
		strings.Contains(err.Error(), wire.SecretPrefix+b.opts.Identity.Public().Hint().String()) {
		return
	}
	b.mu.Lock()
	first := b.last == nil || b.last.Error() != err.Error()
	b.last = err
	b.deny(err)
	b.mu.Unlock()
	if first {
		b.opts.Log.Warn("broker", "server", b.server, "err", err)
	}
}

// lost records that a connection has ended. The next connection reports its denials anew.
func (b *natsBus) lost(err error) {
	b.mu.Lock()
	b.denied = ""
	b.mu.Unlock()
	b.failed(err)
}

// cameUp notifies the mesh that the bus has connected. It runs on a goroutine of the library, one
// call at a time.
func (b *natsBus) cameUp() {
	b.mu.Lock()
	b.last = nil
	b.mu.Unlock()
	select {
	case b.ups <- struct{}{}:
	default:
	}
}

func (b *natsBus) up() <-chan struct{} { return b.ups }

func (b *natsBus) publish(t wire.Topic, msg []byte) error {
	// No acknowledgement is requested: the versions reveal any message that the broker loses.
	err := b.conn.Publish(b.names.subject(t), msg)
	if errors.Is(err, nats.ErrMaxPayload) {
		return wire.ErrTooLarge
	}
	if err != nil {
		return cleared(err)
	}
	return nil
}

func (b *natsBus) listen(self wire.Hint, all bool, handle func(wire.Arrival)) error {
	subjects := []string{b.names.asksFor(self)}
	if all {
		subjects = append(subjects, b.names.all(wire.KindDelta), b.names.all(wire.KindHead))
	}
	for _, s := range subjects {
		if _, err := b.subscribe(s, handle); err != nil {
			return err
		}
	}
	if !all {
		return nil
	}
	_, err := b.conn.Subscribe(headsOfAll, func(m *nats.Msg) {
		parts := strings.SplitN(m.Subject, ".", 3)
		if len(parts) < 3 || parts[1] == b.names.net {
			return
		}
		if t, ok := (names{parts[1]}).parse(m.Subject); ok {
			handle(wire.Arrival{Topic: t, Network: parts[1], Data: m.Data})
		}
	})
	if err != nil {
		return fmt.Errorf("broker %s: %w", b.server, cleared(err))
	}
	return nil
}

func (b *natsBus) subscribe(subject string, handle func(wire.Arrival)) (func(), error) {
	sub, err := b.conn.Subscribe(subject, func(m *nats.Msg) {
		if t, ok := b.names.parse(m.Subject); ok {
			handle(wire.Arrival{Topic: t, Data: m.Data})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("broker %s: %w", b.server, cleared(err))
	}
	if err := sub.SetPendingLimits(-1, maxUnread); err != nil {
		return nil, fmt.Errorf("broker %s: %w", b.server, cleared(err))
	}
	return func() { sub.Unsubscribe() }, nil // a closed connection has no subscriptions
}

func (b *natsBus) listenImages(origin wire.Hint, handle func(wire.Arrival)) (func(), error) {
	return b.subscribe(b.names.imagesOf(origin), handle)
}

func (b *natsBus) proves() bool { return b.owner }

// jetStreamAPI returns the prefix of the subjects for requests to the JetStream of a domain; "" is
// the server's own.
func jetStreamAPI(domain string) string {
	if domain == "" {
		return jetstream.DefaultAPIPrefix
	}
	return "$JS." + domain + ".API."
}

// streams returns the broker's JetStream, after making the streams if needed.
func (b *natsBus) streams(ctx context.Context) (jetstream.JetStream, error) {
	js, err := jetstream.NewWithAPIPrefix(b.conn, jetStreamAPI(b.opts.Domain))
	if err != nil {
		return nil, err
	}
	if !b.create {
		return js, nil
	}
	deltas := jetstream.StreamConfig{
		Name: b.names.deltaStream(), Subjects: []string{b.names.all(wire.KindDelta)}, NoAck: true, MaxMsgSize: wire.MaxMessage,
		MaxAge: b.opts.StreamAge, MaxBytes: b.opts.StreamBytes, Storage: jetstream.FileStorage, Replicas: b.opts.Replicas,
	}
	images := jetstream.StreamConfig{
		Name: b.names.imageStream(), Subjects: []string{b.names.all(wire.KindImage) + ".*"}, NoAck: true, MaxMsgsPerSubject: 1,
		MaxMsgSize: wire.MaxMessage,
		MaxAge:     imagesAge, MaxBytes: imagesShare * b.opts.StreamBytes, Storage: jetstream.FileStorage,
		Replicas: b.opts.Replicas,
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

func (b *natsBus) storedDeltas(ctx context.Context, origin *wire.Hint, since time.Time, handle func(wire.Arrival) bool) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	if !since.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	if origin != nil {
		cfg.FilterSubjects = []string{b.names.subject(wire.Topic{Kind: wire.KindDelta, Origin: *origin})}
	}
	return b.read(ctx, b.names.deltaStream(), cfg, handle)
}

func (b *natsBus) storedImages(ctx context.Context, origin wire.Hint, handle func(wire.Arrival) bool) error {
	return b.read(ctx, b.names.imageStream(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{b.names.imagesOf(origin)},
	}, handle)
}

// read passes the messages that a stream has stored at present to handle.
func (b *natsBus) read(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
	handle func(wire.Arrival) bool) error {
	setup, cancel := context.WithTimeout(ctx, brokerWait)
	defer cancel()
	js, err := b.streams(setup)
	if err != nil {
		return fmt.Errorf("mesh: broker %s: %v", b.server, err)
	}
	consumer, err := js.OrderedConsumer(setup, stream, cfg)
	if err != nil {
		return fmt.Errorf("mesh: broker %s: %v", b.server, err)
	}
	info, err := consumer.Info(setup)
	if err != nil {
		return fmt.Errorf("mesh: broker %s: %v", b.server, err)
	}
	if info.NumPending == 0 {
		return nil
	}
	// Limit bytes and not messages. A broker closes a connection with more data in flight than it
	// allows, 64 MiB by default, and everything would be read again.
	messages, err := consumer.Messages(jetstream.PullMaxBytes(maxAhead))
	if err != nil {
		return fmt.Errorf("mesh: broker %s: %v", b.server, err)
	}
	defer messages.Stop()
	stopped := context.AfterFunc(ctx, messages.Stop)
	defer stopped()
	for {
		msg, err := messages.Next()
		if err != nil {
			return fmt.Errorf("mesh: broker %s: %v", b.server, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("mesh: broker %s: %v", b.server, err)
		}
		t, ok := b.names.parse(msg.Subject())
		if ok && !handle(wire.Arrival{Topic: t, Data: msg.Data(), Stored: meta.Timestamp}) || meta.NumPending == 0 {
			return nil
		}
	}
}

// request sends a request to the owner of a broker, and returns the answer.
func (b *natsBus) request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerWait)
	defer cancel()
	reply, err := b.conn.RequestWithContext(ctx, subject, data)
	if err != nil {
		return nil, cleared(err)
	}
	return reply.Data, nil
}

// serve answers requests of peers to this node's broker, under a prefix and the start of their key.
// A nil reply sends no answer.
func (b *natsBus) serve(prefix string, tell func(from wire.Hint, data []byte) []byte) error {
	_, err := b.conn.Subscribe(prefix+"*", func(msg *nats.Msg) {
		from, ok := wire.Topic{Kind: wire.KindAsk, Key: strings.TrimPrefix(msg.Subject, prefix)}.Sender()
		if !ok || !strings.HasPrefix(msg.Reply, inbox(from)+".") {
			return
		}
		if data := tell(from, msg.Data); data != nil {
			_ = msg.Respond(data) // a peer that misses the reply asks again
		}
	})
	if err != nil {
		return fmt.Errorf("broker %s: %w", b.server, cleared(err))
	}
	return nil
}

// holder returns the key of the hub at the other end; ok is false if it is not known yet.
func (b *natsBus) holder() (key wire.Public, ok bool) {
	if p := b.keyOfHub.Load(); p != nil {
		return *p, true
	}
	return key, false
}

func (b *natsBus) connected() bool { return b.conn.IsConnected() }

func (b *natsBus) name() string { return b.server }

func (b *natsBus) status() BusStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	stats := b.conn.Stats()
	s := BusStatus{Server: b.server, Connected: b.conn.IsConnected(), BytesIn: stats.InBytes, BytesOut: stats.OutBytes,
		Trouble: b.trouble, Answer: b.answered}
	if u := b.conn.ConnectedUrlRedacted(); u != "" && !strings.Contains(b.server, u) {
		s.Server = u
	}
	if b.last != nil {
		s.Error = b.last.Error()
	}
	return s
}

func (b *natsBus) close() error {
	// Published messages may still wait in the buffer.
	if b.conn.IsConnected() {
		b.conn.FlushTimeout(flushWait)
	}
	b.conn.Close()
	return nil
}
