package mesh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

const hubFolder = "broker"

// maxStore is the total storage limit of a hub's broker. Its streams have limits of their own. A
// total below the former limit of a stream would hide the stream, and its limit could no longer be
// lowered.
const maxStore = 1 << 60

const (
	maxBrokerMemory = 64 << 20             // memory of a hub's streams; their messages are stored on disk
	clockSkew       = 24 * time.Hour       // tolerance for the clocks of peers that receive a new certificate
	certificateLife = 20 * 365 * clockSkew // longer than any process runs
	serialBytes     = 15                   // random bytes in a certificate's serial number
)

// NoCredentials is the value of [Options.Credentials] with which a node presents no key to an
// external server: the server requires none, or the URL has a name and password.
const NoCredentials = "none"

// connect starts the broker of a hub and connects to all brokers.
func (m *Mesh) connect(ctx context.Context) error {
	o := m.opts
	switch o.Mode {
	case Hub:
		ns, err := m.startHub()
		if err != nil {
			return err
		}
		m.hub = func() {
			ns.Shutdown()
			ns.WaitForShutdown()
		}
		m.showOut = func(id string) { showOut(ns, id) }
		b, err := dial(o, ns.Addr().String(), true, m.signIn(), nats.InProcessServer(ns))
		if err != nil {
			return err
		}
		b.owner = true
		m.use(b)
		err = b.servePairing(func(id string, from wire.Hint, box []byte) []byte {
			wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), brokerWait)
			defer cancel()
			return m.pair(wait, id, from, box)
		})
		if err == nil {
			err = errors.Join(b.serve(groupPrefix, m.groups.tellGroup), b.serve(secretPrefix, m.tellSecret))
		}
		if err != nil {
			return fmt.Errorf("mesh: %w", err)
		}
		return m.join(o.Servers)
	case Join:
		if len(o.Servers) == 0 {
			return fmt.Errorf("mesh: mode join needs the address of a hub")
		}
		return m.join(o.Servers)
	case External:
		return m.external()
	}
	return fmt.Errorf("mesh: mode %.20q is none of %q, %q, %q", o.Mode, Hub, Join, External)
}

// join connects to hubs. Each hub has its own connection, and every message goes to all hubs, so
// that one hub carries messages that another loses.
func (m *Mesh) join(servers []string) error {
	for _, address := range servers {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("mesh: hub %.80q is not host:port", address)
		}
		holder := new(atomic.Pointer[wire.Public])
		b, err := dial(m.opts, "tls://"+address, false, m.signIn(), nats.Secure(&tls.Config{
			MinVersion: tls.VersionTLS13,
			// A hub is identified by its key and not by its name: see hubIsPeer.
			InsecureSkipVerify: true,
			VerifyConnection: func(c tls.ConnectionState) error {
				key, err := m.hubIsPeer(c)
				if err == nil {
					holder.Store(&key)
				}
				return err
			},
		}))
		if err != nil {
			return err
		}
		b.keyOfHub = holder
		m.use(b)
	}
	return nil
}

func (m *Mesh) external() error {
	o := m.opts
	if len(o.Servers) == 0 {
		return fmt.Errorf("mesh: mode external needs the URL of a NATS server")
	}
	var options []nats.Option
	access := Access{Credentials: o.Credentials, CA: o.CA, Cert: o.Cert, Key: o.Key}
	for option, err := range access.Check(o.Now()) {
		o.Log.Error("ALERT: the NATS servers may not let this node in; what it signs in with is read again at each try",
			"option", option, "err", err)
	}
	switch {
	case o.Credentials == "":
		options = append(options, m.signIn())
	case o.Credentials != NoCredentials:
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.CA != "" {
		options = append(options, nats.RootCAs(o.CA))
	}
	if o.Cert != "" {
		options = append(options, nats.ClientCert(o.Cert, o.Key))
	}
	b, err := dial(o, strings.Join(o.Servers, ","), true, options...)
	if err != nil {
		return err
	}
	m.use(b)
	return nil
}

// signIn proves the node's key to a broker. It includes the proof of a change of keys, because the
// broker may be a peer that knows only the old key.
func (m *Mesh) signIn() nats.Option {
	id := m.opts.Identity
	return signIn(id, id.proof.Text())
}

// signIn proves a key to a broker and presents a token.
func signIn(id *Identity, token string) nats.Option {
	return func(o *nats.Options) error {
		o.Nkey = id.ID()
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

// certificate returns a certificate signed by the node's own key. A peer that knows the key needs
// no authority.
func (i *Identity) certificate(now time.Time) (tls.Certificate, error) {
	var serial [serialBytes]byte
	rand.Read(serial[:])
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:]),
		Subject:      pkix.Name{CommonName: i.ID()},
		NotBefore:    now.Add(-clockSkew), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if i.proof != nil {
		template.Subject.Organization = []string{i.proof.Text()}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, i.private.Public(), i.private)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("mesh: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: i.private}, nil
}

// hubIsPeer checks that the server of a TLS connection holds the key of a peer.
func (m *Mesh) hubIsPeer(c tls.ConnectionState) (key wire.Public, err error) {
	if len(c.PeerCertificates) == 0 {
		return key, errors.New("the hub sent no certificate")
	}
	cert := c.PeerCertificates[0]
	raw, ok := cert.PublicKey.(ed25519.PublicKey)
	if !ok || len(raw) != ed25519.PublicKeySize {
		return key, errors.New("the hub's certificate is not that of a node")
	}
	key = wire.Public(raw)
	proof := ""
	if len(cert.Subject.Organization) == 1 {
		proof = cert.Subject.Organization[0]
	}
	if !m.known(key, proof) {
		return key, fmt.Errorf("the hub has the key %s, which is not on the list of peers", key.ID())
	}
	return key, nil
}

// startHub starts the broker of this process.
func (m *Mesh) startHub() (*server.Server, error) {
	o := m.opts
	host, text, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("mesh: listen %.80q is not host:port", o.Listen)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("mesh: listen %.80q is not host:port", o.Listen)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	dir := filepath.Join(o.Dir, hubFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	cert, err := o.Identity.certificate(o.Now())
	if err != nil {
		return nil, err
	}
	opts := &server.Options{
		ServerName: "bulkhead-" + o.Identity.Hint().String(),
		Host:       host, Port: int(port), NoSigs: true, MaxPayload: wire.MaxMessage,
		JetStream: true, StoreDir: dir, JetStreamMaxMemory: maxBrokerMemory, JetStreamMaxStore: maxStore,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}},
		TLSTimeout:        connectWait.Seconds(),
		AlwaysEnableNonce: true, CustomClientAuthentication: doorkeeper{m},
		PingInterval: pingInterval, MaxPingsOut: maxPings,
	}
	if port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("mesh: broker: %v", err)
	}
	ns.SetLoggerV2(&hubLog{o.Log.With("part", "broker")}, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(brokerWait) {
		ns.Shutdown()
		return nil, fmt.Errorf("mesh: broker does not listen on %s", o.Listen)
	}
	return ns, nil
}

// showOut closes the connections of a node to the hub.
func showOut(ns *server.Server, id string) {
	list, err := ns.Connz(&server.ConnzOptions{Username: true, User: id})
	if err != nil {
		return // it is shutting down
	}
	for _, c := range list.Conns {
		// Disconnecting fails only for a client that has already left.
		_ = ns.DisconnectClientByID(c.Cid)
	}
}

// A doorkeeper admits peers to the hub's broker, each to its own subjects only.
type doorkeeper struct{ m *Mesh }

// Check implements server.Authentication.
func (d doorkeeper) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	key, err := wire.ParsePublic(o.Nkey)
	if err != nil {
		return false
	}
	sig, err := base64.RawURLEncoding.DecodeString(o.Sig)
	if err != nil || !ed25519.Verify(key[:], c.GetNonce(), sig) {
		return false
	}
	if key == d.m.opts.Identity.Public() {
		c.RegisterUser(&server.User{Username: o.Nkey})
		return true
	}
	if id, ok := strings.CutPrefix(o.Token, tokenInvitation); ok && d.m.invited(id) {
		// It may ask to join, and nothing else.
		c.RegisterUser(&server.User{Username: o.Nkey, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{pairSubject(id, key.Hint())}},
			Subscribe: &server.SubjectPermission{Allow: []string{inbox(key.Hint()) + ".>"}},
		}})
		return true
	}
	if !d.m.known(key, o.Token) {
		if d.m.refuseStranger(reasonDoor, o.Nkey) {
			d.m.opts.Log.Warn("hub: connection refused, its key is not on the list of peers; others are only counted",
				"key", o.Nkey, "from", c.RemoteAddress())
		}
		return false
	}
	c.RegisterUser(&server.User{Username: o.Nkey, Permissions: d.permissions(key.Hint())})
	return true
}

func (d doorkeeper) permissions(h wire.Hint) *server.Permissions {
	publish, subscribe := newNames(d.m.opts.KeyID).grants(h, jetStreamAPI(""))
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: append(publish, groupSubject(h), secretSubject(h))},
		Subscribe: &server.SubjectPermission{Allow: subscribe},
	}
}

// reasonDoor counts refused connections to a hub.
const reasonDoor = "connection refused"

// A hubLog passes the broker's log on. Notices and errors have level debug: they are about clients,
// which can cause any number of them.
type hubLog struct{ log *slog.Logger }

func (l *hubLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *hubLog) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l *hubLog) Fatalf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l *hubLog) Errorf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *hubLog) Debugf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *hubLog) Tracef(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
