package member

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// This is the exchange of a joining node and its inviter. The request is sealed with a key derived
// from the invitation's secret. The reply is sealed with a key derived from that secret and a
// Diffie-Hellman exchange. A broker in between learns nothing, and neither does a later finder of
// the line. docs/specs/invitation.md#the-exchange.

// PairRequest is a node's request to join.
type PairRequest struct {
	Key       string    `json:"key"`
	Name      string    `json:"name,omitempty"`
	Clock     time.Time `json:"clock"`
	Exchange  []byte    `json:"exchange"`  // X25519, for the reply alone
	Signature []byte    `json:"signature"` // by Key, over the ID and Exchange
}

// PairText returns the text that a joining node signs.
func PairText(id string, exchange []byte) []byte {
	return append([]byte("bulkhead mesh join v1\x00"+id+"\x00"), exchange...)
}

// Outcomes of a request.
const (
	PairAccepted = "accepted"
	PairWaiting  = "waiting"
	PairRefused  = "refused"
)

// pairReply is the answer.
type pairReply struct {
	State  string    `json:"state"`
	Why    string    `json:"why,omitempty"` // of a refusal
	Clock  time.Time `json:"clock"`
	Name   string    `json:"name,omitempty"`   // of the inviter
	Secret []byte    `json:"secret,omitempty"` // of the network, for an accepted node
}

// A Member is a node of a group.
type Member struct {
	Key  string `json:"key"`
	Name string `json:"name,omitempty"`
}

// pairEnvelope is the form in which the reply is sent.
type pairEnvelope struct {
	Why      string `json:"why,omitempty"`      // refusal of a request that could not be opened
	Exchange []byte `json:"exchange,omitempty"` // X25519
	Box      []byte `json:"box,omitempty"`
}

// MaxPair bounds the sealed requests and replies between nodes.
const MaxPair = 256 << 10 // bytes of a request or a reply

// errSealed reports that a box does not open: it was sealed with another secret, or changed on its
// way.
var errSealed = errors.New("mesh: sealed with another secret, or changed on its way")

// PairKey derives the key that seals a request or a reply from the secret of an invitation.
func PairKey(secret [SecretBytes]byte, shared []byte, what string) []byte {
	key, err := hkdf.Key(sha256.New, append(secret[:], shared...), nil, "bulkhead mesh join v1 "+what,
		chacha20poly1305.KeySize)
	if err != nil {
		panic(err) // the hash is unsafe, or the length too large
	}
	return key
}

// Seal encrypts plain for the recipient to. The key has the length of a ChaCha20-Poly1305 key.
func Seal(key, plain []byte, to string) []byte {
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		panic(err) // the key has the right size
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	rand.Read(nonce)
	return aead.Seal(nonce, nonce, plain, []byte(to))
}

func unseal(key, box []byte, to string) ([]byte, error) {
	aead, err := chacha20poly1305.NewX(key)
	if err != nil || len(box) < aead.NonceSize() {
		return nil, errSealed
	}
	plain, err := aead.Open(nil, box[:aead.NonceSize()], box[aead.NonceSize():], []byte(to))
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}

// SealRequest returns a sealed request, and the private half of its exchange.
func SealRequest(v *Invitation, id *Identity, name string,
	now time.Time) (box []byte, private *ecdh.PrivateKey, err error) {
	if private, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("mesh: %w", err)
	}
	q := PairRequest{Key: id.ID(), Name: name, Clock: now.UTC(), Exchange: private.PublicKey().Bytes()}
	q.Signature = id.Sign(PairText(v.ID(), q.Exchange))
	data, err := json.Marshal(q)
	if err != nil {
		return nil, nil, fmt.Errorf("mesh: %w", err)
	}
	return Seal(PairKey(v.Secret, nil, "request"), data, v.ID()), private, nil
}

// OpenRequest opens and checks a request for an invitation with the given secret.
func OpenRequest(secret [SecretBytes]byte, id string, box []byte) (q PairRequest, key wire.Public, err error) {
	if len(box) > MaxPair {
		return q, key, errSealed
	}
	data, err := unseal(PairKey(secret, nil, "request"), box, id)
	if err != nil {
		return q, key, err
	}
	if err = json.Unmarshal(data, &q); err != nil {
		return q, key, fmt.Errorf("mesh: request to join: %w", err)
	}
	if key, err = wire.ParsePublic(q.Key); err != nil {
		return q, key, err
	}
	if !ed25519.Verify(key[:], PairText(id, q.Exchange), q.Signature) {
		return q, key, errors.New("mesh: request to join: the signature is not of the key it names")
	}
	return q, key, CheckPeer(q.Name, 0)
}

// answerTo returns the public key that answers a node's public key of a key exchange, and what both nodes share.
func answerTo(theirs []byte) (exchange, shared []byte, err error) {
	key, err := ecdh.X25519().NewPublicKey(theirs)
	if err != nil {
		return nil, nil, err
	}
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	shared, err = private.ECDH(key)
	return private.PublicKey().Bytes(), shared, err
}

// sealReply seals the answer to a request.
func sealReply(secret [SecretBytes]byte, id string, q *PairRequest, r *pairReply) ([]byte, error) {
	exchange, shared, err := answerTo(q.Exchange)
	if err != nil {
		return nil, fmt.Errorf("mesh: request to join: %w", err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	return json.Marshal(pairEnvelope{Exchange: exchange,
		Box: Seal(PairKey(secret, shared, "reply"), data, id+" "+q.Key)})
}

// openReply opens the answer to a request of key.
func openReply(v *Invitation, private *ecdh.PrivateKey, key string, data []byte) (r pairReply, err error) {
	if len(data) > MaxPair {
		return r, errSealed
	}
	var e pairEnvelope
	if err := json.Unmarshal(data, &e); err != nil {
		return r, fmt.Errorf("mesh: answer to a request to join: %w", err)
	}
	if e.Why != "" {
		// This answer is unsigned. It can only keep the node from joining, as silence could.
		return pairReply{State: PairRefused, Why: e.Why}, nil
	}
	theirs, err := ecdh.X25519().NewPublicKey(e.Exchange)
	if err != nil {
		return r, errSealed
	}
	shared, err := private.ECDH(theirs)
	if err != nil {
		return r, errSealed
	}
	plain, err := unseal(PairKey(v.Secret, shared, "reply"), e.Box, v.ID()+" "+key)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(plain, &r); err != nil {
		return r, fmt.Errorf("mesh: answer to a request to join: %w", err)
	}
	if r.State == PairAccepted && (len(r.Secret) != len(filter.Secret{}) || filter.Secret(r.Secret).ID() != v.Network) {
		return r, fmt.Errorf("mesh: the secret that came is not that of network %s, to which the invitation is",
			v.NetworkName())
	}
	return r, nil
}
