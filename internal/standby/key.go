package standby

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// keyBytes is the length of a public key.
const keyBytes = ed25519.PublicKeySize

// A Key is the key by which the other node of a pair knows this one.
type Key struct {
	private ed25519.PrivateKey
	cert    tls.Certificate
}

// OpenKey reads the key of the node in the data folder dir, or makes it.
func OpenKey(dir string) (*Key, error) {
	path := filepath.Join(dir, Folder, KeyFile)
	text, err := os.ReadFile(path)
	var seed []byte
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := wholefile.MakeFolder(filepath.Dir(path)); err != nil {
			return nil, err
		}
		seed = make([]byte, ed25519.SeedSize)
		rand.Read(seed)
		if err := wholefile.Replace(path, wholefile.Bytes([]byte(hex.EncodeToString(seed)+"\n"))); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("standby: %w", err)
	default:
		if seed, err = hex.DecodeString(strings.TrimSpace(string(text))); err != nil || len(seed) != ed25519.SeedSize {
			return nil, fmt.Errorf("standby: %w: %s: want %d hexadecimal digits; pair the nodes anew to replace it",
				bulkhead.ErrMalformed, path, 2*ed25519.SeedSize)
		}
	}
	return newKey(ed25519.NewKeyFromSeed(seed))
}

func newKey(private ed25519.PrivateKey) (*Key, error) {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bulkhead standby"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, fmt.Errorf("standby: certificate: %w", err)
	}
	return &Key{private, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}}, nil
}

// Public returns the public key in hexadecimal.
func (k *Key) Public() string { return hex.EncodeToString(k.private.Public().(ed25519.PublicKey)) }

// config returns the TLS settings of a connection on which the other side must have an admitted key. Names,
// dates and issuers of certificates mean nothing; the handshake proves the possession of the key.
func (k *Key) config(admit func(public string) bool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{k.cert}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, SessionTicketsDisabled: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			public, err := publicOf(&c)
			if err != nil {
				return err
			}
			if !admit(public) {
				return fmt.Errorf("standby: %w: the key %.16s is not the other node's", bulkhead.ErrUnauthorised, public)
			}
			return nil
		},
	}
}

// publicOf returns the public key of the other side in hexadecimal.
func publicOf(c *tls.ConnectionState) (string, error) {
	if len(c.PeerCertificates) == 0 {
		return "", fmt.Errorf("standby: %w: no certificate", bulkhead.ErrUnauthorised)
	}
	public, ok := c.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return "", fmt.Errorf("standby: %w: not an Ed25519 key", bulkhead.ErrUnauthorised)
	}
	return hex.EncodeToString(public), nil
}

// dialTimeout limits the time for a connection and its handshake.
const dialTimeout = 3 * time.Second

// dial connects to the node with the given public key.
func (k *Key) dial(ctx context.Context, address, public string) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := tls.Dialer{NetDialer: new(net.Dialer), Config: k.config(func(p string) bool { return p == public })}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("standby: %w", err)
	}
	return conn.(*tls.Conn), nil
}
