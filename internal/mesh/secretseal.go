package mesh

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A member asks a hub for the secret that follows its own: docs/specs/invitation.md#another-secret.
// The question and the answer are signed, and the secret is sealed for this answer alone.

// A secretQuestion is a member's question to a hub.
type secretQuestion struct {
	Network   string `json:"network"`   // network whose secret the member has
	Exchange  []byte `json:"exchange"`  // X25519, for the answer alone
	Proof     []byte `json:"proof"`     // possession of that secret: an HMAC with it over the signed text
	Signature []byte `json:"signature"` // of the member, over network, exchange and the hub's key
}

func (q *secretQuestion) text(hub string) []byte {
	return append([]byte("bulkhead mesh secret v1 question\x00"+hub+"\x00"+q.Network+"\x00"), q.Exchange...)
}

// proof proves to a holder of a secret that the sender of the question also has it.
func (q *secretQuestion) proof(hub string, s filter.Secret) []byte {
	h := hmac.New(sha256.New, s[:])
	h.Write(q.text(hub))
	return h.Sum(nil)
}

// A secretAnswer is the reply. Without a box there is no new secret.
type secretAnswer struct {
	Exchange  []byte `json:"exchange,omitempty"` // X25519
	Box       []byte `json:"box,omitempty"`      // a nextSecret
	Signature []byte `json:"signature"`          // of the hub, over both and the question's exchange
}

func (a *secretAnswer) text(q *secretQuestion) []byte {
	return slices.Concat([]byte("bulkhead mesh secret v1 answer\x00"), q.Exchange, a.Exchange, a.Box)
}

// A nextSecret is the secret that follows the one of the network that a member named.
type nextSecret struct {
	From   string  `json:"from"`
	Secret []byte  `json:"secret"`
	After  float64 `json:"after"` // seconds from now, so that clocks need not agree
}

func secretKey(shared []byte) []byte {
	key, err := hkdf.Key(sha256.New, shared, nil, "bulkhead mesh secret v1", chacha20poly1305.KeySize)
	if err != nil {
		panic(err) // the hash is unsafe, or the length too large
	}
	return key
}

// tellSecret answers a peer's request for another secret. It returns nil if the node is not a peer.
func (c *Secrets) tellSecret(from wire.Hint, data []byte) []byte {
	p, ok := c.book.find(from)
	if !ok {
		return nil // its connection is about to end
	}
	a, secret, err := c.answerSecret(&p, data)
	if err != nil {
		c.book.refuse(from, reasonMalformed, err.Error())
		return nil
	}
	out, err := json.Marshal(a)
	if err == nil && len(a.Box) > 0 {
		err = c.noteTold(&p, secret) // recorded before the answer is sent: an eviction must know of it
	}
	if err != nil {
		c.opts.Log.Error("a peer is not told the network's other secret", "peer", p.label(), "err", err)
		return nil
	}
	return out
}

func (c *Secrets) answerSecret(p *peer, data []byte) (a *secretAnswer, secret filter.Secret, err error) {
	var q secretQuestion
	if len(data) > maxPair {
		return nil, secret, fmt.Errorf("mesh: question for a secret of %d bytes, limit %d", len(data), maxPair)
	}
	if err := json.Unmarshal(data, &q); err != nil {
		return nil, secret, fmt.Errorf("mesh: question for a secret: %w", err)
	}
	if !ed25519.Verify(p.key[:], q.text(c.opts.Identity.ID()), q.Signature) {
		return nil, secret, errors.New("mesh: question for a secret: the signature is not of its sender")
	}
	had, secret, at, ok := c.next(q.Network)
	switch {
	case ok && !hmac.Equal(q.Proof, q.proof(c.opts.Identity.ID(), had)):
		return nil, secret, errors.New("mesh: question for a secret: its sender has not the one before")
	case !ok:
		a = &secretAnswer{}
		a.Signature = c.opts.Identity.Sign(a.text(&q))
		return a, secret, nil
	}
	n := nextSecret{From: q.Network, Secret: secret[:]}
	if !at.IsZero() {
		n.After = max(0, at.Sub(c.opts.Now()).Seconds())
	}
	a, err = c.sealSecret(p, &q, &n)
	return a, secret, err
}

// sealSecret seals a secret for the peer that asked, and signs the answer.
func (c *Secrets) sealSecret(p *peer, q *secretQuestion, n *nextSecret) (*secretAnswer, error) {
	theirs, err := ecdh.X25519().NewPublicKey(q.Exchange)
	if err != nil {
		return nil, fmt.Errorf("mesh: question for a secret: %w", err)
	}
	plain, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	shared, err := private.ECDH(theirs)
	if err != nil {
		return nil, fmt.Errorf("mesh: question for a secret: %w", err)
	}
	a := &secretAnswer{Exchange: private.PublicKey().Bytes(), Box: seal(secretKey(shared), plain, p.ID)}
	a.Signature = c.opts.Identity.Sign(a.text(q))
	return a, nil
}

// askAfter returns a question to a hub for the secret after the node's own, and the private key
// that opens the answer.
func (c *Secrets) askAfter(hub wire.Public) (q *secretQuestion, private *ecdh.PrivateKey, err error) {
	if private, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("mesh: %w", err)
	}
	q = &secretQuestion{Network: c.network(), Exchange: private.PublicKey().Bytes()}
	q.Proof = q.proof(hub.ID(), c.opts.Secret)
	q.Signature = c.opts.Identity.Sign(q.text(hub.ID()))
	return q, private, nil
}

// openSecret opens a hub's answer; nil if the hub has no new secret.
func (c *Secrets) openSecret(hub wire.Public, q *secretQuestion, private *ecdh.PrivateKey, data []byte) (*nextSecret, error) {
	if len(data) > maxPair {
		return nil, errSealed
	}
	var a secretAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("mesh: another secret: %w", err)
	}
	if !ed25519.Verify(hub[:], a.text(q), a.Signature) {
		return nil, errors.New("mesh: another secret: the signature is not of the hub")
	}
	if len(a.Box) == 0 {
		return nil, nil
	}
	theirs, err := ecdh.X25519().NewPublicKey(a.Exchange)
	if err != nil {
		return nil, errSealed
	}
	shared, err := private.ECDH(theirs)
	if err != nil {
		return nil, errSealed
	}
	plain, err := unseal(secretKey(shared), a.Box, c.opts.Identity.ID())
	if err != nil {
		return nil, err
	}
	n := new(nextSecret)
	if err := json.Unmarshal(plain, n); err != nil {
		return nil, fmt.Errorf("mesh: another secret: %w", err)
	}
	switch {
	case n.From != q.Network:
		return nil, fmt.Errorf("mesh: another secret: it follows that of network %.32q", n.From)
	case len(n.Secret) != len(filter.Secret{}) || filter.Secret(n.Secret).ID() == c.opts.KeyID:
		return nil, errors.New("mesh: another secret: it is none, or the present one")
	case !(n.After >= 0) || n.After > MaxLead.Seconds():
		return nil, fmt.Errorf("mesh: another secret: in %v seconds", n.After)
	}
	return n, nil
}
