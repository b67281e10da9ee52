package mesh

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

// pairRequest is a node's request to join.
type pairRequest struct {
	Key       string    `json:"key"`
	Name      string    `json:"name,omitempty"`
	Clock     time.Time `json:"clock"`
	Exchange  []byte    `json:"exchange"`  // X25519, for the reply alone
	Signature []byte    `json:"signature"` // by Key, over the ID and Exchange
}

func pairText(id string, exchange []byte) []byte {
	return append([]byte("bulkhead mesh join v1\x00"+id+"\x00"), exchange...)
}

// Outcomes of a request.
const (
	pairAccepted = "accepted"
	pairWaiting  = "waiting"
	pairRefused  = "refused"
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

const maxPair = 256 << 10 // bytes of a request or a reply

// errSealed reports that a box does not open: it was sealed with another secret, or changed on its
// way.
var errSealed = errors.New("mesh: sealed with another secret, or changed on its way")

func pairKey(secret [secretBytes]byte, shared []byte, what string) []byte {
	key, err := hkdf.Key(sha256.New, append(secret[:], shared...), nil, "bulkhead mesh join v1 "+what,
		chacha20poly1305.KeySize)
	if err != nil {
		panic(err) // the hash is unsafe, or the length too large
	}
	return key
}

func seal(key, plain []byte, to string) []byte {
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

// sealRequest returns a sealed request, and the private half of its exchange.
func sealRequest(v *Invitation, id *Identity, name string,
	now time.Time) (box []byte, private *ecdh.PrivateKey, err error) {
	if private, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("mesh: %w", err)
	}
	q := pairRequest{Key: id.ID(), Name: name, Clock: now.UTC(), Exchange: private.PublicKey().Bytes()}
	q.Signature = id.Sign(pairText(v.id(), q.Exchange))
	data, err := json.Marshal(q)
	if err != nil {
		return nil, nil, fmt.Errorf("mesh: %w", err)
	}
	return seal(pairKey(v.secret, nil, "request"), data, v.id()), private, nil
}

// openRequest opens and checks a request for an invitation with the given secret.
func openRequest(secret [secretBytes]byte, id string, box []byte) (q pairRequest, key wire.Public, err error) {
	if len(box) > maxPair {
		return q, key, errSealed
	}
	data, err := unseal(pairKey(secret, nil, "request"), box, id)
	if err != nil {
		return q, key, err
	}
	if err = json.Unmarshal(data, &q); err != nil {
		return q, key, fmt.Errorf("mesh: request to join: %w", err)
	}
	if key, err = wire.ParsePublic(q.Key); err != nil {
		return q, key, err
	}
	if !ed25519.Verify(key[:], pairText(id, q.Exchange), q.Signature) {
		return q, key, errors.New("mesh: request to join: the signature is not of the key it names")
	}
	return q, key, checkPeer(q.Name, 0)
}

// sealReply seals the answer to a request.
func sealReply(secret [secretBytes]byte, id string, q *pairRequest, r *pairReply) ([]byte, error) {
	theirs, err := ecdh.X25519().NewPublicKey(q.Exchange)
	if err != nil {
		return nil, fmt.Errorf("mesh: request to join: %w", err)
	}
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	shared, err := private.ECDH(theirs)
	if err != nil {
		return nil, fmt.Errorf("mesh: request to join: %w", err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	return json.Marshal(pairEnvelope{Exchange: private.PublicKey().Bytes(),
		Box: seal(pairKey(secret, shared, "reply"), data, id+" "+q.Key)})
}

// openReply opens the answer to a request of key.
func openReply(v *Invitation, private *ecdh.PrivateKey, key string, data []byte) (r pairReply, err error) {
	if len(data) > maxPair {
		return r, errSealed
	}
	var e pairEnvelope
	if err := json.Unmarshal(data, &e); err != nil {
		return r, fmt.Errorf("mesh: answer to a request to join: %w", err)
	}
	if e.Why != "" {
		// This answer is unsigned. It can only keep the node from joining, as silence could.
		return pairReply{State: pairRefused, Why: e.Why}, nil
	}
	theirs, err := ecdh.X25519().NewPublicKey(e.Exchange)
	if err != nil {
		return r, errSealed
	}
	shared, err := private.ECDH(theirs)
	if err != nil {
		return r, errSealed
	}
	plain, err := unseal(pairKey(v.secret, shared, "reply"), e.Box, v.id()+" "+key)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(plain, &r); err != nil {
		return r, fmt.Errorf("mesh: answer to a request to join: %w", err)
	}
	if r.State == pairAccepted && (len(r.Secret) != len(filter.Secret{}) || filter.Secret(r.Secret).ID() != v.Network) {
		return r, fmt.Errorf("mesh: the secret that came is not that of network %s, to which the invitation is",
			v.NetworkName())
	}
	return r, nil
}
