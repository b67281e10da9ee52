package bus

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
)

// HubFolder is the folder, in the mesh folder, of the storage of a hub's broker.
const HubFolder = "broker"

// maxStore is the total storage limit of a hub's broker. Its streams have limits of their own. A
// total below the former limit of a stream would hide the stream, and its limit could no longer be
// lowered.
const maxStore = 1 << 60

const (
	maxBrokerMemory = 64 << 20 // memory of a hub's streams; their messages are stored on disk
)

// A Identity is the identity of a node.
type Identity interface {
	wire.Signer
	// Proof returns the statement by which the holder of an older key chose this one, or nil.
	Proof() *wire.Succession
	// Certificate returns a certificate signed by the node's own key.
	Certificate(now time.Time) (tls.Certificate, error)
}

// A Gate decides which keys a broker admits. Its methods may be called concurrently.
type Gate interface {
	// Known reports whether the holder of a key is a peer, or by the proof the successor of one.
	Known(key wire.Public, proof string) bool
	// Invited reports whether there is an invitation with that ID.
	Invited(id string) bool
	// RefuseStranger counts a refusal, and reports whether it is the first for its reason.
	RefuseStranger(reason, detail string) (first bool)
}

// Options are the settings of connections to brokers.
type Options struct {
	Dir      string   // folder of a broker's storage
	Identity Identity // of the node
	KeyID    uint64   // ID of the network's secret
	Name     string   // of the node, for people

	Access natsdial.Access // to an external server; without credentials, the node presents its own key
	Domain string          // JetStream domain of an external server

	Heartbeat   time.Duration
	StreamAge   time.Duration // how long the broker keeps deltas
	StreamBytes int64         // and how many bytes of them
	Replicas    int           // of the streams, in a cluster

	// Refused is called with the key of a hub when that refuses the node. It must not block.
	Refused func(hub wire.Public)

	Now func() time.Time
	Log *slog.Logger
}

// A Broker is the broker of a hub, in this process.
type Broker struct {
	opts  *Options
	ns    *server.Server
	heads *gatherer

	closing context.Context
	close   func()
	mending sync.WaitGroup
}

// Connect returns a bus on the broker.
func (k *Broker) Connect() (*Client, error) {
	return (&Client{create: true, owner: true}).dial(k.opts, []string{k.ns.Addr().String()}, natsdial.Access{},
		SignInOf(k.opts.Identity), nats.InProcessServer(k.ns))
}

// Close stops the broker.
func (k *Broker) Close() {
	k.close()
	k.mending.Wait()
	k.heads.close()
	k.ns.Shutdown()
}

// DialHub connects to a hub whose key the gate admits.
func DialHub(o *Options, address string, g Gate) (*Client, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("mesh: hub %.80q is not host:port", address)
	}
	holder := new(atomic.Pointer[wire.Public])
	b := &Client{keyOfHub: holder}
	return b.dial(o, []string{"tls://" + address}, natsdial.Access{}, SignInOf(o.Identity), nats.Secure(&tls.Config{
		MinVersion: tls.VersionTLS13,
		// A hub is identified by its key and not by its name: see hubIsPeer.
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			key, err := HubIsPeer(g, c)
			if err == nil {
				holder.Store(&key)
			}
			return err
		},
	}))
}

// DialExternal connects to the NATS servers of another operator.
func DialExternal(o *Options, servers []string) (*Client, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("mesh: mode external needs the URL of a NATS server")
	}
	for option, err := range o.Access.Check(o.Now()) {
		o.Log.Error("credentials for the NATS servers cannot be used", "option", option, "err", err,
			"consequence", "the servers may not let this node in", "hint", "mend the file; it is read again at each try")
	}
	b := &Client{create: true, foreign: true}
	if o.Access.Credentials != "" {
		return b.dial(o, servers, o.Access)
	}
	return b.dial(o, servers, o.Access, SignInOf(o.Identity))
}

// SignInOf proves the node's key to a broker. It includes the proof of a change of keys, because the
// broker may be a peer that knows only the old key.
func SignInOf(id Identity) nats.Option { return SignIn(id, id.Proof().Text()) }

// SignIn proves a key to a broker and presents a token.
func SignIn(id wire.Signer, token string) nats.Option {
	return func(o *nats.Options) error {
		o.Nkey = id.Public().ID()
		o.SignatureCB = func(nonce []byte) ([]byte, error) {
			// The broker chooses the signed text here. Text that could be part of a message of this
			// node contains bytes that no nonce does.
			for _, c := range nonce {
				if c <= ' ' || c >= 0x7f {
					return nil, errors.New("the broker requests a signature of something other than a nonce")
				}
			}
			return id.Sign(nonce), nil
		}
		o.Token = token
		return nil
	}
}

// HubIsPeer checks that the server of a TLS connection holds the key of a peer.
func HubIsPeer(g Gate, c tls.ConnectionState) (key wire.Public, err error) {
	key, err = keyOf(c)
	if err != nil {
		return key, err
	}
	proof := ""
	if names := c.PeerCertificates[0].Subject.Organization; len(names) == 1 {
		proof = names[0]
	}
	if !g.Known(key, proof) {
		return key, fmt.Errorf("the hub has the key %s, which is not on the list of peers", key.ID())
	}
	return key, nil
}

// keyOf returns the key of the node that is the server of a TLS connection.
func keyOf(c tls.ConnectionState) (key wire.Public, err error) {
	if len(c.PeerCertificates) == 0 {
		return key, errors.New("the hub sent no certificate")
	}
	raw, ok := c.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok || len(raw) != len(key) {
		return key, errors.New("the hub's certificate does not belong to a node")
	}
	return wire.Public(raw), nil
}

// StartBroker starts the broker of a hub at the address listen, with the peers that the gate admits.
func StartBroker(o *Options, listen string, g Gate) (*Broker, error) {
	host, text, _ := net.SplitHostPort(listen) // of anything else it returns no port
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("mesh: listen %.80q is not host:port", listen)
	}
	dir := filepath.Join(o.Dir, HubFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	cert, err := o.Identity.Certificate(o.Now())
	if err != nil {
		return nil, err
	}
	opts := &server.Options{
		ServerName: "bulkhead-" + o.Identity.Public().Hint().String(),
		Host:       host, Port: cmp.Or(int(port), server.RANDOM_PORT), NoSigs: true, MaxPayload: wire.MaxMessage,
		JetStream: true, StoreDir: dir, JetStreamMaxMemory: maxBrokerMemory, JetStreamMaxStore: maxStore,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}},
		TLSTimeout:        connectWait.Seconds(),
		AlwaysEnableNonce: true, CustomClientAuthentication: Doorkeeper{o, g},
		PingInterval: pingInterval, MaxPingsOut: maxPings, WriteDeadline: stallWait,
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("mesh: broker: %v", err)
	}
	broken := make(chan struct{}, 1)
	ns.SetLoggerV2(&hubLog{o.Log.With("part", "broker"), broken}, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(BrokerWait) {
		ns.Shutdown()
		return nil, fmt.Errorf("mesh: broker does not listen on %s", listen)
	}
	heads, err := newGatherer(o, ns)
	if err != nil {
		ns.Shutdown()
		return nil, err
	}
	k := &Broker{opts: o, ns: ns, heads: heads}
	k.closing, k.close = context.WithCancel(context.Background())
	k.mending.Go(func() { k.mend(broken) })
	return k, nil
}

// restartBeats is the number of heartbeats after which a broker whose storage failed tries again.
const restartBeats = 4

// mend begins the broker's storage anew a while after it has failed, until the broker is closed. After one failed
// write, on a full disk for example, the server stores nothing more in a stream.
func (k *Broker) mend(broken <-chan struct{}) {
	for {
		select {
		case <-k.closing.Done():
			return
		case <-broken:
		}
		k.opts.Log.Error("the hub cannot store messages", "consequence",
			"nodes that are away ask their peers for what they miss", "hint",
			"look at the disk and the folder "+filepath.Join(k.opts.Dir, HubFolder)+"; the hub tries again by itself")
		for begun := false; !begun; {
			select {
			case <-k.closing.Done():
				return
			case <-time.After(restartBeats * k.opts.Heartbeat):
			}
			select { // errors of the storage that ends now
			case <-broken:
			default:
			}
			err := k.ns.ShutdownJetStream()
			if err == nil {
				err = k.ns.EnableJetStream(&server.JetStreamConfig{StoreDir: filepath.Join(k.opts.Dir, HubFolder),
					MaxMemory: maxBrokerMemory, MaxStore: maxStore})
			}
			begun = err == nil
		}
		k.opts.Log.Info("the hub's storage has begun anew")
	}
}

// ShowOut closes the connections of a node to the hub.
func (k *Broker) ShowOut(id string) {
	list, err := k.ns.Connz(&server.ConnzOptions{Username: true, User: id})
	if err != nil {
		return // it fails only for a mistaken request
	}
	for _, c := range list.Conns {
		// Disconnecting fails only for a client that has already left.
		_ = k.ns.DisconnectClientByID(c.Cid)
	}
}

// A Doorkeeper admits peers to the hub's broker, each to its own subjects only.
type Doorkeeper struct {
	Opts *Options
	Gate Gate
}

// Check implements server.Authentication.
func (d Doorkeeper) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	key, err := wire.ParsePublic(o.Nkey)
	if err != nil {
		return false
	}
	sig, err := base64.RawURLEncoding.DecodeString(o.Sig)
	if err != nil || !ed25519.Verify(key[:], c.GetNonce(), sig) {
		return false
	}
	if key == d.Opts.Identity.Public() {
		c.RegisterUser(&server.User{Username: o.Nkey})
		return true
	}
	if id, ok := strings.CutPrefix(o.Token, TokenInvitation); ok && d.Gate.Invited(id) {
		// It may ask to join, and nothing else.
		c.RegisterUser(&server.User{Username: o.Nkey, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{PairSubject(id, key.Hint())}},
			Subscribe: &server.SubjectPermission{Allow: []string{Inbox(key.Hint()) + ".>"}},
		}})
		return true
	}
	if !d.Gate.Known(key, o.Token) {
		if d.Gate.RefuseStranger(ReasonDoor, o.Nkey) {
			d.Opts.Log.Warn("hub refused a connection whose key is not on the list of peers", "key", o.Nkey,
				"from", c.RemoteAddress(), "consequence", "others are counted and not logged")
		}
		return false
	}
	c.RegisterUser(&server.User{Username: o.Nkey, Permissions: d.Permissions(key.Hint())})
	return true
}

// Permissions returns the subjects that a peer may publish to and subscribe to.
func (d Doorkeeper) Permissions(h wire.Hint) *server.Permissions {
	publish, subscribe := NewNames(d.Opts.KeyID).Grants(h, JetStreamAPI(""))
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: append(publish, wire.GroupPrefix+h.String(),
			wire.SecretPrefix+h.String())},
		Subscribe: &server.SubjectPermission{Allow: append(subscribe, BundleSubject)},
	}
}

// ReasonDoor counts refused connections to a hub.
const ReasonDoor = "connection refused"

// A hubLog passes the broker's log on. Notices and errors have level debug: they are about clients,
// which can cause any number of them. A failure of the storage is reported to broken.
type hubLog struct {
	log    *slog.Logger
	broken chan<- struct{}
}

func (l *hubLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *hubLog) Warnf(format string, v ...any)   { l.note(l.log.Warn, format, v) }
func (l *hubLog) Fatalf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l *hubLog) Errorf(format string, v ...any)  { l.note(l.log.Debug, format, v) }
func (l *hubLog) Debugf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *hubLog) Tracef(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }

func (l *hubLog) note(write func(string, ...any), format string, v []any) {
	text := fmt.Sprintf(format, v...)
	write(text)
	// The server reports neither by any other way.
	if strings.Contains(text, "Critical write error") || strings.Contains(text, "disabling JetStream") ||
		strings.Contains(text, "will be DISABLED") {
		select {
		case l.broken <- struct{}{}:
		default:
		}
	}
}
