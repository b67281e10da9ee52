package member

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

// A SecretQuestion is a member's question to a hub.
type SecretQuestion struct {
	Network   string `json:"network"`   // network whose secret the member has
	Exchange  []byte `json:"exchange"`  // X25519, for the answer alone
	Proof     []byte `json:"proof"`     // possession of that secret: an HMAC with it over the signed text
	Signature []byte `json:"signature"` // of the member, over network, exchange and the hub's key
	// Unable is why the member cannot take another secret now; empty: it can. Vouched is the member's
	// signature over it and the signed text.
	Unable  string `json:"unable,omitempty"`
	Vouched []byte `json:"vouched,omitempty"`
}

// Text returns the text that the member signs, for the hub with the given key.
func (q *SecretQuestion) Text(hub string) []byte {
	return append([]byte("bulkhead mesh secret v1 question\x00"+hub+"\x00"+q.Network+"\x00"), q.Exchange...)
}

// unableText returns the text of the member's signature over Unable.
func (q *SecretQuestion) unableText(hub string) []byte {
	return slices.Concat([]byte("bulkhead mesh secret v1 unable\x00"+q.Unable+"\x00"), q.Text(hub))
}

// ProofOf proves to a holder of a secret that the sender of the question also has it.
func (q *SecretQuestion) ProofOf(hub string, s filter.Secret) []byte {
	h := hmac.New(sha256.New, s[:])
	h.Write(q.Text(hub))
	return h.Sum(nil)
}

// A SecretAnswer is the reply. Without a box there is no new secret.
type SecretAnswer struct {
	Exchange  []byte `json:"exchange,omitempty"` // X25519
	Box       []byte `json:"box,omitempty"`      // a nextSecret
	Signature []byte `json:"signature"`          // of the hub, over both and the question's exchange
}

func (a *SecretAnswer) text(q *SecretQuestion) []byte {
	return slices.Concat([]byte("bulkhead mesh secret v1 answer\x00"), q.Exchange, a.Exchange, a.Box)
}

// A NextSecret is the secret that follows the one of the network that a member named.
type NextSecret struct {
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

// ServeSecret answers a peer's request for another secret. It returns nil if the node is not a peer.
func (c *Secrets) ServeSecret(from wire.Hint, data []byte) []byte {
	p, ok := c.book.Find(from)
	if !ok {
		return nil // its connection is about to end
	}
	a, secret, err := c.MakeAnswer(&p, data)
	if err == nil {
		c.noteUnable(&p, data)
	}
	if err != nil {
		c.book.Refuse(from, ReasonMalformed, err.Error())
		return nil
	}
	out, err := json.Marshal(a)
	if err == nil && len(a.Box) > 0 {
		err = c.noteFetched(&p, secret) // recorded before the answer is sent: an eviction must know of it
	}
	if err != nil {
		c.Opts.Log.Error("a peer did not get the network's other secret", "peer", p.Label(), "err", err)
		return nil
	}
	return out
}

// MakeAnswer returns the signed answer to the question of a peer, and the secret in it.
func (c *Secrets) MakeAnswer(p *Peer, data []byte) (a *SecretAnswer, secret filter.Secret, err error) {
	var q SecretQuestion
	if len(data) > MaxPair {
		return nil, secret, fmt.Errorf("mesh: question for a secret of %d bytes, limit %d", len(data), MaxPair)
	}
	if err := json.Unmarshal(data, &q); err != nil {
		return nil, secret, fmt.Errorf("mesh: question for a secret: %w", err)
	}
	if !ed25519.Verify(p.Key[:], q.Text(c.Opts.Identity.ID()), q.Signature) {
		return nil, secret, errors.New("mesh: question for a secret: the signature is not of its sender")
	}
	had, secret, at, ok := c.next(q.Network)
	switch {
	case ok && !hmac.Equal(q.Proof, q.ProofOf(c.Opts.Identity.ID(), had)):
		return nil, secret, errors.New("mesh: question for a secret: its sender has not the one before")
	case !ok:
		a = &SecretAnswer{}
		a.Signature = c.Opts.Identity.Sign(a.text(&q))
		return a, secret, nil
	}
	n := NextSecret{From: q.Network, Secret: secret[:]}
	if !at.IsZero() {
		n.After = max(0, at.Sub(c.Opts.Now()).Seconds())
	}
	a, err = c.SealSecret(p, &q, &n)
	return a, secret, err
}

// SealSecret seals a secret for the peer that asked, and signs the answer.
func (c *Secrets) SealSecret(p *Peer, q *SecretQuestion, n *NextSecret) (*SecretAnswer, error) {
	exchange, shared, err := answerTo(q.Exchange)
	if err != nil {
		return nil, fmt.Errorf("mesh: question for a secret: %w", err)
	}
	plain, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	a := &SecretAnswer{Exchange: exchange, Box: Seal(secretKey(shared), plain, p.ID)}
	a.Signature = c.Opts.Identity.Sign(a.text(q))
	return a, nil
}

// AskAfter returns a question to a hub for the secret after the node's own, and the private key
// that opens the answer.
func (c *Secrets) AskAfter(hub wire.Public) (q *SecretQuestion, private *ecdh.PrivateKey, err error) {
	if private, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("mesh: %w", err)
	}
	q = &SecretQuestion{Network: c.NetworkName(), Exchange: private.PublicKey().Bytes()}
	q.Proof = q.ProofOf(hub.ID(), c.Opts.Secret)
	q.Signature = c.Opts.Identity.Sign(q.Text(hub.ID()))
	if who := c.taker().unableHere(); who != "" {
		q.Unable = who
		q.Vouched = c.Opts.Identity.Sign(q.unableText(hub.ID()))
	}
	return q, private, nil
}

// OpenSecret opens a hub's answer; nil if the hub has no new secret.
func (c *Secrets) OpenSecret(hub wire.Public, q *SecretQuestion, private *ecdh.PrivateKey, data []byte) (*NextSecret,
	error) {
	if len(data) > MaxPair {
		return nil, errSealed
	}
	var a SecretAnswer
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
	plain, err := unseal(secretKey(shared), a.Box, c.Opts.Identity.ID())
	if err != nil {
		return nil, err
	}
	n := new(NextSecret)
	if err := json.Unmarshal(plain, n); err != nil {
		return nil, fmt.Errorf("mesh: another secret: %w", err)
	}
	switch {
	case n.From != q.Network:
		return nil, fmt.Errorf("mesh: another secret: it follows that of network %.32q", n.From)
	case len(n.Secret) != len(filter.Secret{}) || filter.Secret(n.Secret).ID() == c.Opts.KeyID:
		return nil, errors.New("mesh: another secret: it is none, or the present one")
	case !(n.After >= 0) || n.After > MaxLead.Seconds():
		return nil, fmt.Errorf("mesh: another secret: in %v seconds", n.After)
	}
	return n, nil
}
