package bus

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
)

// A node is an identity with a certificate.
type node struct{ signer }

func newNode(t *testing.T) node {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return node{signer{key}}
}

func (node) Proof() *wire.Succession { return nil }

func (n node) Certificate(now time.Time) (tls.Certificate, error) {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, n.key.Public(), n.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: n.key}, err
}

func (n node) hint() wire.Hint { return n.Public().Hint() }

// A gate admits the keys and invitations that it has. It may be used concurrently.
type gate struct {
	mu       sync.Mutex
	keys     []wire.Public
	invited  string
	refusals int
}

func (g *gate) Known(key wire.Public, _ string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.keys, key)
}

func (g *gate) Invited(id string) bool { return id == g.invited }

func (g *gate) RefuseStranger(string, string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusals++
	return g.refusals == 1
}

// A site is a hub with its own client, and the nodes that it admits.
type site struct {
	*testing.T
	id     node
	gate   *gate
	broker *Broker
	own    *Client
	log    *logtest.Log
}

const network = 7

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, id: newNode(t), gate: &gate{invited: "some"}, log: new(logtest.Log)}
	var err error
	if s.broker, err = StartBroker(s.options(s.id, network), "127.0.0.1:0", s.gate); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.broker.Close)
	if s.own, err = s.broker.Connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.own.Close() })
	await.True(t, "the hub's own connection", s.own.Connected)
	if _, err := s.own.Streams(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) address() string { return s.broker.ns.Addr().String() }

func (s *site) options(id node, keyID uint64) *Options {
	return &Options{Dir: s.TempDir(), Identity: id, KeyID: keyID, Heartbeat: 100 * time.Millisecond, StreamAge: time.Hour,
		StreamBytes: 1 << 24, Replicas: 1, Refused: func(wire.Public) {}, Now: time.Now,
		Log: s.log.Logger()}
}

// member connects a node that the hub admits.
func (s *site) member(id node, keyID uint64) *Client {
	s.Helper()
	s.gate.mu.Lock()
	s.gate.keys = append(s.gate.keys, id.Public())
	s.gate.mu.Unlock()
	c := s.dial(id, keyID, &gate{keys: []wire.Public{s.id.Public()}})
	await.True(s.T, "a member's connection", c.Connected)
	return c
}

func (s *site) dial(id node, keyID uint64, hubs *gate) *Client {
	s.Helper()
	c, err := DialHub(s.options(id, keyID), s.address(), hubs)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close() })
	return c
}

// An ear collects what a client hears. It may be used concurrently.
type ear struct {
	mu  sync.Mutex
	all []string
}

func (e *ear) hear(a wire.Arrival) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprintf("%c of %v to %q: %q%s", rune(a.Topic.Kind), a.Topic.Origin, a.Topic.Key, a.Data,
		strings.Replace(a.Network, wire.NetworkName(8), " of another network", 1)))
}

// texts returns how often each text was heard, without the sums of heads.
func (e *ear) texts() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[string]int)
	for _, text := range e.all {
		if !strings.HasSuffix(text, `: ""`) {
			out[text]++
		}
	}
	return out
}

// TestHub checks which messages reach which nodes at a hub, and that each reaches them once: deltas and heads all
// nodes, asks the node that is asked, images a node that listens for them, and heads of other networks as such.
func TestHub(t *testing.T) {
	s := newSite(t)
	a, b, other := newNode(t), newNode(t), newNode(t)
	ca, cb, co := s.member(a, network), s.member(b, network), s.member(other, 8)
	var hub, all, few, images ear
	for c, listen := range map[*Client]func() error{
		s.own: func() error { return s.own.Listen(s.id.hint(), true, hub.hear) },
		ca:    func() error { return ca.Listen(a.hint(), true, all.hear) },
		cb:    func() error { return cb.Listen(b.hint(), false, few.hear) },
	} {
		if err := listen(); err != nil {
			t.Fatal(err)
		}
		if err := c.Conn.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	// A member that has no bundle yet hears a head itself, and then again in the first bundle.
	await.True(t, "the first bundle", func() bool {
		ca.mu.Lock()
		defer ca.mu.Unlock()
		return len(ca.heads) == 0
	})
	stop, err := ca.ListenImages(b.hint(), images.hear)
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	publish := func(c *Client, topic wire.Topic, data string) {
		t.Helper()
		if err := c.Publish(topic, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(from, to node) wire.Topic {
		return wire.Topic{Kind: wire.KindAsk, Origin: to.hint(), Key: from.hint().String()}
	}
	publish(cb, wire.Topic{Kind: wire.KindDelta, Origin: b.hint()}, "delta")
	publish(cb, wire.Topic{Kind: wire.KindHead, Origin: b.hint()}, "head")
	publish(cb, ask(b, a), "to a")
	publish(cb, ask(b, s.id), "to the hub")
	publish(ca, ask(a, b), "to b")
	publish(cb, wire.Topic{Kind: wire.KindImage, Origin: b.hint(), Key: "x"}, "image")
	publish(co, wire.Topic{Kind: wire.KindHead, Origin: other.hint()}, "foreign")
	publish(co, wire.Topic{Kind: wire.KindDelta, Origin: other.hint()}, "foreign")
	line := func(kind string, origin node, key, data string) string {
		return fmt.Sprintf("%s of %v to %q: %q", kind, origin.hint(), key, data)
	}
	foreign := line("h", other, "", "foreign") + " of another network"
	common := []string{line("d", b, "", "delta"), line("h", b, "", "head"), foreign}
	for name, tt := range map[string]struct {
		*ear
		want []string
	}{
		"the hub":               {&hub, append([]string{line("a", s.id, b.hint().String(), "to the hub")}, common...)},
		"a member":              {&all, append([]string{line("a", a, b.hint().String(), "to a")}, common...)},
		"a member that is sent": {&few, []string{line("a", b, a.hint().String(), "to b")}},
		"images":                {&images, []string{line("i", b, "x", "image")}},
	} {
		await.True(t, name, func() bool { return len(tt.texts()) >= len(tt.want) })
		for _, text := range tt.want {
			if n := tt.texts()[text]; n != 1 {
				t.Errorf("%s hears %s %d times: %v", name, text, n, tt.texts())
			}
		}
		if len(tt.texts()) != len(tt.want) {
			t.Errorf("%s hears %v, want %v", name, tt.texts(), tt.want)
		}
	}
	stop()
	publish(cb, wire.Topic{Kind: wire.KindImage, Origin: b.hint(), Key: "y"}, "image")
	publish(cb, wire.Topic{Kind: wire.KindDelta, Origin: b.hint()}, "after it")
	await.True(t, "a delta", func() bool { return len(all.texts()) == 5 })
	if n := len(images.texts()); n != 1 {
		t.Errorf("%d images, want none after the end", n)
	}
	s.stored(ca, b)
	brief, end := context.WithTimeout(t.Context(), 2*ProbeBeats*ca.Opts.Heartbeat)
	defer end()
	ca.Watch(brief) // a hub is not probed
	if got, want := ca.Status(), "tls://"+s.address(); got.Server != want || !got.Connected || got.Error != "" ||
		got.BytesIn == 0 || got.BytesOut == 0 || got.Answer != 0 {
		t.Errorf("%+v, want the server %s", got, want)
	}
	if !s.own.Proves() || ca.Proves() || !ca.IsHub() || s.own.IsHub() {
		t.Error("a broker proves the senders of messages to its owner alone")
	}
	if key, ok := ca.Holder(); !ok || key != s.id.Public() {
		t.Errorf("the hub is %v, %v", key, ok)
	}
	ca.Close()
	for name, do := range map[string]func() error{
		"publish": func() error { return ca.Publish(wire.Topic{Kind: wire.KindDelta, Origin: a.hint()}, nil) },
		"listen":  func() error { return ca.Listen(a.hint(), false, all.hear) },
		"listen to images": func() error {
			_, err := ca.ListenImages(b.hint(), images.hear)
			return err
		},
		"read deltas": func() error {
			return ca.StoredDeltas(t.Context(), nil, time.Time{}, func(wire.Arrival) bool { return true })
		},
		"request": func() error {
			_, err := ca.Request(t.Context(), wire.GroupPrefix+a.hint().String(), nil)
			return err
		},
		"serve":           func() error { return ca.Serve(wire.GroupPrefix, nil) },
		"serve strangers": func() error { return ca.ServePairing(nil) },
	} {
		if err := do(); err == nil {
			t.Errorf("%s: no error on a closed connection", name)
		}
	}
}

// stored checks what a client reads of the messages that the hub has stored: two deltas and two images of one node,
// and a delta of another network, which is in no stream that it reads.
func (s *site) stored(c *Client, of node) {
	s.Helper()
	ctx := s.Context()
	js, err := s.own.Streams(ctx)
	if err != nil {
		s.Fatal(err)
	}
	for _, name := range []string{s.own.Names.DeltaStream(), s.own.Names.ImageStream()} {
		await.True(s.T, name, func() bool {
			stream, err := js.Stream(ctx, name)
			return err == nil && stream.CachedInfo().State.Msgs == 2
		})
	}
	origin, none := of.hint(), wire.Hint{1}
	read := func(do func(handle func(wire.Arrival) bool) error, stop int) (out string) {
		s.Helper()
		n := 0
		if err := do(func(a wire.Arrival) bool {
			if a.Stored.IsZero() || a.Topic.Origin != origin {
				s.Errorf("%+v", a)
			}
			out += string(a.Data) + ";"
			n++
			return n != stop
		}); err != nil {
			s.Error(err)
		}
		return out
	}
	deltas := func(origin *wire.Hint, since time.Time) func(func(wire.Arrival) bool) error {
		return func(handle func(wire.Arrival) bool) error { return c.StoredDeltas(ctx, origin, since, handle) }
	}
	images := func(origin wire.Hint) func(func(wire.Arrival) bool) error {
		return func(handle func(wire.Arrival) bool) error { return c.StoredImages(ctx, origin, handle) }
	}
	for name, tt := range map[string]struct {
		read func(func(wire.Arrival) bool) error
		stop int
		want string
	}{
		"all deltas":           {deltas(nil, time.Time{}), 0, "delta;after it;"},
		"the first":            {deltas(nil, time.Time{}), 1, "delta;"},
		"deltas of the node":   {deltas(&origin, time.Time{}), 0, "delta;after it;"},
		"deltas of another":    {deltas(&none, time.Time{}), 0, ""},
		"deltas of late":       {deltas(nil, time.Now().Add(-time.Hour)), 0, "delta;after it;"},
		"deltas to come":       {deltas(nil, time.Now().Add(time.Hour)), 0, ""},
		"images of the node":   {images(origin), 0, "image;image;"},
		"one image":            {images(origin), 1, "image;"},
		"images of a stranger": {images(none), 0, ""},
	} {
		if got := read(tt.read, tt.stop); got != tt.want {
			s.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestRequests checks that the owner of a broker answers the node that asks, at that node's own inbox alone.
func TestRequests(t *testing.T) {
	s := newSite(t)
	a, b := newNode(t), newNode(t)
	ca := s.member(a, network)
	answer := func(from wire.Hint, data []byte) []byte {
		if string(data) == "silence" {
			return nil
		}
		return fmt.Appendf(nil, "%v asks %s", from, data)
	}
	if err := s.own.Serve(wire.GroupPrefix, answer); err != nil {
		t.Fatal(err)
	}
	if err := s.own.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	own := wire.GroupPrefix + a.hint().String()
	want := fmt.Sprintf("%v asks this", a.hint())
	if got, err := ca.Request(t.Context(), own, []byte("this")); err != nil || string(got) != want {
		t.Errorf("answered %q, %v; want %q", got, err, want)
	}
	// An answer to another's inbox would make the hub speak for the node that asks.
	any, err := s.broker.Connect() // may ask under every name, and hears every answer
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { any.Close() })
	inbox, err := any.Conn.SubscribeSync("*.astray")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*nats.Msg{
		{Subject: own, Reply: Inbox(b.hint()) + ".astray", Data: []byte("for another")},
		{Subject: own, Reply: Inbox(a.hint()) + "0.astray", Data: []byte("for another")},
		{Subject: own, Reply: Inbox(a.hint()) + ".astray", Data: []byte("silence")},
		{Subject: wire.GroupPrefix + "nobody", Reply: Inbox(wire.Hint{}) + ".astray", Data: []byte("for nobody")},
	} {
		if err := any.Conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := any.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, err := ca.Request(t.Context(), own, []byte("this")); err != nil || string(got) != want {
		t.Errorf("answered %q, %v; want %q", got, err, want)
	}
	if err := any.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := inbox.Pending(); err != nil || n != 0 {
		t.Errorf("%d answers to others, or without content, %v", n, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ca.Request(ended, own, []byte("silence")); err == nil {
		t.Error("an answer to nothing")
	}
}

// TestDoor checks that a hub admits peers and invited nodes alone, that an invited node may ask to join, and that a
// node is shown out, and learns by whom.
func TestDoor(t *testing.T) {
	s := newSite(t)
	impatient, cancel := context.WithCancel(t.Context())
	if err := s.own.ServePairing(func(id string, from wire.Hint, box []byte) []byte {
		if string(box) == "silence" {
			cancel()
			return nil
		}
		return fmt.Appendf(nil, "%s of %v: %s", id, from, box)
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.own.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	guest := newNode(t)
	join := func(id string, inviter node) (string, bool, error) {
		reply, known, err := AskToJoin(t.Context(), guest, s.address(), id, inviter.Public(), []byte("please"))
		return string(reply), known, err
	}
	if reply, known, err := join("some", s.id); err != nil || !known ||
		reply != fmt.Sprintf("some of %v: please", guest.hint()) {
		t.Errorf("invited: %q, %v, %v", reply, known, err)
	}
	if _, known, err := join("none", s.id); err != nil || known {
		t.Errorf("by another invitation: known %v, %v", known, err)
	}
	if _, known, err := join("some", guest); err == nil || known || !strings.Contains(err.Error(), s.id.Public().ID()) {
		t.Errorf("of another inviter: known %v, %v", known, err)
	}
	reply, known, err := AskToJoin(impatient, guest, s.address(), "some", s.id.Public(), []byte("silence"))
	if known || err == nil {
		t.Errorf("without an answer: %q, known %v, %v", reply, known, err)
	}
	s.gate.mu.Lock()
	if s.gate.refusals != 1 {
		t.Errorf("%d nodes were refused, want the one with another invitation", s.gate.refusals)
	}
	s.gate.mu.Unlock()
	if n := s.log.Count("hub refused a connection"); n != 1 {
		t.Errorf("%d refusals are logged, want the first", n)
	}
	peer := newNode(t)
	c := s.member(peer, network)
	refused := make(chan wire.Public, 1)
	c.Opts.Refused = func(hub wire.Public) { refused <- hub }
	s.gate.mu.Lock()
	s.gate.keys = nil
	s.gate.mu.Unlock()
	s.broker.ShowOut(guest.Public().ID())
	if !c.Connected() {
		t.Error("a node is shown out that was not meant")
	}
	s.broker.ShowOut(peer.Public().ID())
	select {
	case hub := <-refused:
		if hub != s.id.Public() {
			t.Errorf("refused by %v", hub)
		}
	case <-time.After(await.Patience):
		t.Fatal("a node that was shown out is not refused")
	}
	if hub, ok := c.RefusedBy(); !ok || hub != s.id.Public() || c.Connected() {
		t.Errorf("refused by %v, %v", hub, ok)
	}
	if n := s.log.Count("hub refused a connection"); n != 1 {
		t.Errorf("%d refusals are logged, want the first alone", n)
	}
	// A node takes no server for a hub whose key is not on its own list.
	stranger := s.dial(peer, network, &gate{})
	go stranger.watchEntry(t.Context())
	await.True(t, "the hub is no peer", func() bool {
		return strings.Contains(stranger.Status().Error, "not on the list of peers")
	})
	if hub, ok := stranger.Holder(); ok {
		t.Errorf("the hub of a stranger is %v", hub)
	}
}

// TestStreams checks that the owner of a broker gives the streams its own limits, with one request for each change, and
// that another node changes no limits.
func TestStreams(t *testing.T) {
	s := newSite(t)
	observer, err := s.broker.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { observer.Close() })
	updates, err := observer.Conn.SubscribeSync("$JS.API.STREAM.UPDATE.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := observer.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	o := s.options(s.id, network)
	another, err := (&Client{create: true}).dial(o, []string{s.address()}, natsdial.Access{}, SignInOf(s.id),
		nats.InProcessServer(s.broker.ns))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { another.Close() })
	await.True(t, "another connection", another.Connected)
	before := 0
	for _, tt := range []struct {
		what string
		*Client
		age     time.Duration
		bytes   int64
		updates int
	}{
		{"as before", s.own, time.Hour, 1 << 24, 0},
		{"fewer bytes", s.own, time.Hour, 1 << 22, 2},
		{"a shorter time", s.own, time.Minute, 1 << 22, 1},
		{"another node", another, time.Hour, 1 << 24, 0},
	} {
		tt.Opts.StreamAge, tt.Opts.StreamBytes = tt.age, tt.bytes
		js, err := tt.Streams(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := observer.Conn.Flush(); err != nil {
			t.Fatal(err)
		}
		n, _, err := updates.Pending()
		if err != nil || n-before != tt.updates {
			t.Errorf("%s: %d updates, %v; want %d", tt.what, n-before, err, tt.updates)
		}
		if before = n; tt.Client != s.own {
			continue
		}
		for name, want := range map[string]jetstream.StreamConfig{
			tt.Names.DeltaStream(): {MaxAge: tt.age, MaxBytes: tt.bytes, MaxMsgsPerSubject: -1},
			tt.Names.ImageStream(): {MaxAge: imagesAge, MaxBytes: imagesShare * tt.bytes, MaxMsgsPerSubject: 1},
		} {
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if got := stream.CachedInfo().Config; got.MaxAge != want.MaxAge || got.MaxBytes != want.MaxBytes ||
				got.MaxMsgsPerSubject != want.MaxMsgsPerSubject || got.MaxMsgSize != wire.MaxMessage {
				t.Errorf("%s: %s keeps %+v, want %+v", tt.what, name, got, want)
			}
		}
	}
	s.own.Close()
	if err := s.own.StoredDeltas(t.Context(), nil, time.Time{}, nil); err == nil {
		t.Error("no error on a closed connection")
	}
}

// TestBroker checks that other users of the machine cannot read a hub's stored messages, that no connection remains
// when the broker has ended, and that a hub without a certificate has no broker.
func TestBroker(t *testing.T) {
	s := newSite(t)
	info, err := os.Stat(filepath.Join(s.broker.opts.Dir, HubFolder))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info, err)
	}
	var log logtest.Log
	with := s.options(s.id, network)
	with.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	k, err := StartBroker(with, "127.0.0.1:0", s.gate)
	if err != nil {
		t.Fatal(err)
	}
	if k.ns.Addr().(*net.TCPAddr).Port == server.DEFAULT_PORT {
		t.Error("port 0 is the standard one")
	}
	if k.Close(); !k.heads.conn.IsClosed() || k.ns.Running() {
		t.Error("the broker is not closed")
	}
	o := s.options(s.id, network)
	o.Identity = member{s.id.signer}
	if !log.Has("part=broker") {
		t.Errorf("the log has nothing from the broker: %s", log.String())
	}
	if k, err := StartBroker(o, "127.0.0.1:0", s.gate); k != nil || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a broker without a certificate: %v", err)
	}
}

// TestLargeMessage checks that a message above the broker's limit is refused for good, and one at the limit is not.
func TestLargeMessage(t *testing.T) {
	s := newSite(t)
	topic := wire.Topic{Kind: wire.KindHead, Origin: s.id.hint()}
	if err := s.own.Publish(topic, make([]byte, wire.MaxMessage)); err != nil {
		t.Error(err)
	}
	if err := s.own.Publish(topic, make([]byte, wire.MaxMessage+1)); err != wire.ErrTooLarge {
		t.Errorf("%v, want %v", err, wire.ErrTooLarge)
	}
}

// TestPlainServer checks that a node hears each head of any network once at a server without bundles. When the server
// is gone, the node knows why it cannot connect.
func TestPlainServer(t *testing.T) {
	ns := plainServer(t)
	s := &site{T: t, log: new(logtest.Log)}
	url := "nats://a:b@" + ns.Addr().String()
	dial := func(id node, keyID uint64) *Client {
		t.Helper()
		o := s.options(id, keyID)
		o.Access.Credentials = natsdial.NoCredentials
		c, err := DialExternal(o, []string{url, url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		await.True(t, "a connection", c.Connected)
		if c.Conn.Opts.Nkey != "" {
			t.Error("the node presents its key beside a password")
		}
		return c
	}
	a, b, other := newNode(t), newNode(t), newNode(t)
	ca, cb, co := dial(a, network), dial(b, network), dial(other, 8)
	var listener ear
	ca.CameUp() // before it listens
	if len(ca.heads) > 0 {
		t.Error("hears heads before it listens")
	}
	if err := ca.Listen(a.hint(), true, listener.hear); err != nil {
		t.Fatal(err)
	}
	bundle := wire.AppendBundle(nil, []wire.BundledHead{{Network: network, Origin: b.hint(), Data: []byte("bundled")}})
	ca.unbundle(bundle, func(wire.Arrival) {}) // as at a hub; the next server may have no bundles
	for range 2 {                              // another connection has the subscriptions of the first
		if ca.CameUp(); len(ca.heads) != 2 {
			t.Errorf("%d subscriptions to heads, want two", len(ca.heads))
		}
	}
	for _, sub := range ca.heads {
		if n, size, err := sub.PendingLimits(); err != nil || n >= 0 || size != maxUnread {
			t.Errorf("%d heads of %d bytes may wait, %v", n, size, err)
		}
	}
	if err := ca.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		*Client
		wire.Topic
		data string
	}{
		{cb, wire.Topic{Kind: wire.KindHead, Origin: b.hint()}, "own"},
		{cb, wire.Topic{Kind: wire.KindDelta, Origin: b.hint()}, "delta"},
		{co, wire.Topic{Kind: wire.KindDelta, Origin: other.hint()}, "no head"},
		{co, wire.Topic{Kind: wire.KindHead, Origin: other.hint()}, "foreign"},
	} {
		if err := m.Publish(m.Topic, []byte(m.data)); err != nil {
			t.Fatal(err)
		}
	}
	// No node sends the first three, and a server of another operator sends no bundles.
	own := "bh." + ca.Names.Net
	for subject, data := range map[string]string{own + ".d.x": "x", own + ".h.x": "x",
		"bh.none.h." + b.hint().String(): "x", BundleSubject: string(bundle)} {
		if err := errors.Join(cb.Conn.Publish(subject, []byte(data)), cb.Conn.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := cb.Publish(wire.Topic{Kind: wire.KindHead, Origin: b.hint()}, []byte("last")); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		fmt.Sprintf(`h of %v to "": "last"`, b.hint()):                           1,
		fmt.Sprintf(`h of %v to "": "own"`, b.hint()):                            1,
		fmt.Sprintf(`d of %v to "": "delta"`, b.hint()):                          1,
		fmt.Sprintf(`h of %v to "": "foreign" of another network`, other.hint()): 1,
	}
	await.True(t, "what was published", func() bool { return len(listener.texts()) == len(want) })
	if err := ca.Conn.Flush(); err != nil { // its answer follows whatever else there is
		t.Fatal(err)
	}
	if got := listener.texts(); !maps.Equal(got, want) {
		t.Errorf("heard %v, want %v", got, want)
	}
	if ca.Proves() || ca.IsHub() {
		t.Error("a server of another operator is a hub")
	}
	named := func() {
		t.Helper()
		if got, want := ca.Status().Server, natsdial.Redacted(url+","+url); got != want {
			t.Errorf("the servers are shown as %s, want %s", got, want)
		}
	}
	named()
	ca.mu.Lock()
	ca.denied = `Subscription to "x"`
	ca.mu.Unlock()
	ns.Shutdown()
	await.True(t, "why no other connection is made", func() bool {
		return strings.Contains(ca.Status().Error, "connection refused")
	})
	ca.mu.Lock()
	if ca.denied != "" {
		t.Errorf("denied by a server that is gone: %s", ca.denied)
	}
	ca.mu.Unlock()
	named()
}

// TestNonce checks that a node signs a nonce for a broker, and nothing that could be a part of its messages.
func TestNonce(t *testing.T) {
	id := newNode(t)
	var o nats.Options
	if err := SignIn(id, "token")(&o); err != nil || o.Token != "token" || o.Nkey != id.Public().ID() {
		t.Fatalf("%v, token %q, key %s", err, o.Token, o.Nkey)
	}
	for c := range 256 {
		text := []byte{'a', byte(c), 'b'}
		sig, err := o.SignatureCB(text)
		if printable := c > ' ' && c <= '~'; printable != (err == nil) {
			t.Errorf("byte %#x: %v", c, err)
		} else if key := id.Public(); printable && !ed25519.Verify(key[:], text, sig) {
			t.Errorf("byte %#x: the signature is of something else", c)
		}
	}
}

// TestAnotherOfCluster checks that a status names the server that the node is connected to, also if that is another one
// than the configured one.
func TestAnotherOfCluster(t *testing.T) {
	cluster := func() server.ClusterOpts {
		return server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: server.RANDOM_PORT}
	}
	first := serverOf(t, server.Options{ServerName: "first", Cluster: cluster()})
	second := serverOf(t, server.Options{ServerName: "second", Cluster: cluster(),
		Routes: server.RoutesFromStr("nats://" + first.ClusterAddr().String())})
	s := &site{T: t, log: new(logtest.Log)}
	o := s.options(newNode(t), network)
	o.Access.Credentials = natsdial.NoCredentials
	c, err := DialExternal(o, []string{"nats://" + first.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for _, ns := range []*server.Server{first, second} {
		want := "nats://" + ns.Addr().String()
		await.True(t, "the node is at "+want, func() bool { return c.Connected() && c.Status().Server == want })
		await.True(t, "the node knows the other server", func() bool { return len(c.Conn.DiscoveredServers()) == 1 })
		first.Shutdown()
	}
}
