package member

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// KeyFile is the file of the mesh folder with the node's private key. Peers know the node by the
// public half.
const KeyFile = "node.key"

// PeersFile is the file of a node's peers.
const PeersFile = "peers.json"

// Files of the mesh folder.
const (
	SuccessorFile = "successor.json"
	StateFile     = "state.json"
)

// An Identity is the key pair of a node. It does not change once opened, and may be used
// concurrently.
type Identity struct {
	private ed25519.PrivateKey
	key     wire.Public
	// Proof shows that the holder of an older key chose this one; nil if the key was never changed.
	proof *wire.Succession
}

// ID returns the public key in its printed form, as peers add it to their lists.
func (i *Identity) ID() string { return i.key.ID() }

// Public returns the public key.
func (i *Identity) Public() wire.Public { return i.key }

// Hint returns the start of the public key, by which messages name the node.
func (i *Identity) Hint() wire.Hint { return i.key.Hint() }

// Sign returns the signature of text with the private key.
func (i *Identity) Sign(text []byte) []byte { return ed25519.Sign(i.private, text) }

// Predecessor returns the key that this one replaced, or "".
func (i *Identity) Predecessor() string {
	if i.proof == nil {
		return ""
	}
	return i.proof.Old.ID()
}

// Proof returns the statement by which the holder of an older key chose this one; nil if the key was
// never changed.
func (i *Identity) Proof() *wire.Succession { return i.proof }

// Certificate returns a certificate signed by the node's own key. A peer that knows the key needs
// no authority.
func (i *Identity) Certificate(now time.Time) (tls.Certificate, error) {
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

const (
	clockSkew       = 24 * time.Hour       // tolerance for the clocks of peers that receive a new certificate
	certificateLife = 20 * 365 * clockSkew // longer than any process runs
	serialBytes     = 15                   // random bytes in a certificate's serial number
)

// OpenIdentity returns the identity stored in dir, the mesh folder of one node. It makes one if
// there is none.
func OpenIdentity(dir string) (*Identity, error) {
	path := filepath.Join(dir, KeyFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newIdentity(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("mesh: %s: mode %04o lets others read it; use chmod 0600 %s", path, info.Mode().Perm(), path)
	}
	prefix, seed, err := nkeys.DecodeSeed([]byte(strings.TrimSpace(string(text))))
	if err != nil || prefix != nkeys.PrefixByteUser || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("mesh: %s is not the private key of a node: put it back from a backup", path)
	}
	id := identityOf(seed)
	data, err := os.ReadFile(filepath.Join(dir, SuccessorFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return id, nil
	case err != nil:
		return nil, fmt.Errorf("mesh: %w", err)
	}
	var proof SuccessionJSON
	if err := json.Unmarshal(data, &proof); err != nil {
		return nil, fmt.Errorf("mesh: %s: %w", SuccessorFile, err)
	}
	if proof.New != id.ID() {
		return id, nil // the change of keys was interrupted: the old key is in force
	}
	old, err := wire.ParsePublic(proof.Old)
	if err != nil || len(proof.Signature) != ed25519.SignatureSize {
		return nil, fmt.Errorf("mesh: %s is damaged", SuccessorFile)
	}
	id.proof = &wire.Succession{Old: old, Signature: [64]byte(proof.Signature)}
	return id, nil
}

func identityOf(seed []byte) *Identity {
	id := &Identity{private: ed25519.NewKeyFromSeed(seed)}
	copy(id.key[:], id.private.Public().(ed25519.PublicKey))
	return id
}

func newIdentity(dir string) (*Identity, error) {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	return identityOf(seed), writeSeed(dir, seed)
}

func writeSeed(dir string, seed []byte) error {
	text, err := nkeys.EncodeSeed(nkeys.PrefixByteUser, seed)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return WriteFile(filepath.Join(dir, KeyFile), append(text, '\n'))
}

// SuccessionJSON is the file of the proof that an older key chose the present one.
type SuccessionJSON struct {
	Old       string `json:"old"`
	New       string `json:"new"`
	Signature []byte `json:"signature"`
}

// RotateIdentity makes a new key pair in dir, signed with the old key. The node must not be
// running. Peers that know the old key replace it when the node next sends them a head. A key that
// the node has never run with is not replaced: no peer knows it, and peers that know its
// predecessor would not accept its successor.
func RotateIdentity(dir string) (old, to *Identity, err error) {
	if old, err = OpenIdentity(dir); err != nil {
		return nil, nil, err
	}
	s, err := LoadState(dir)
	if err != nil {
		return nil, nil, err
	}
	if old.proof != nil && s.Key != old.ID() {
		return nil, nil, fmt.Errorf(
			"mesh: the node has not run with its key %s yet, so its peers know only the previous key: start it first", old.ID())
	}
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	to = identityOf(seed)
	to.proof = &wire.Succession{Old: old.key}
	copy(to.proof.Signature[:], old.Sign(wire.SuccessionText(to.key)))
	data, err := json.Marshal(SuccessionJSON{old.ID(), to.ID(), to.proof.Signature[:]})
	if err != nil {
		return nil, nil, fmt.Errorf("mesh: %w", err)
	}
	// Write the proof first: without it, peers would not recognise the new key.
	if err := WriteFile(filepath.Join(dir, SuccessorFile), data); err != nil {
		return nil, nil, err
	}
	return old, to, writeSeed(dir, seed)
}

// WriteFile writes a file with mode 0600, and makes its folder if needed.
func WriteFile(path string, data []byte) error {
	err := wholefile.MakeFolder(filepath.Dir(path))
	if err == nil {
		err = wholefile.Replace(path, wholefile.Bytes(data))
	}
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return nil
}
