package mesh

import (
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// A network changes its secret while it runs: a hub announces another one and when it is to
// be used, and tells it, sealed, each peer that asks on its own connection. From that time
// on all count into new generations, and answer from the old ones under the secret that
// those were made with, until they expire. Who was away is told when it comes back; who is
// no peer any more is not. docs/specs/invitation.md#another-secret.

const (
	rotationFile = "rotation.json"
	maxLead      = 30 * 24 * time.Hour
	secretBeats  = 2 // heartbeats between two questions for another secret
	secretRetry  = 2 * time.Second
	switchRetry  = time.Minute
	// lateBeats is for how many heartbeats after a change of the secret a peer may be
	// heard under the former one before an administrator is told.
	lateBeats = 4
)

// A rotation is a change of the network's secret, announced or done.
type rotation struct {
	From   string    `json:"from"` // network before
	Secret []byte    `json:"secret"`
	At     time.Time `json:"at"` // when it is, or was, to be used
	By     string    `json:"by"` // key of the hub that told it
	Told   []string  `json:"told,omitempty"`
}

func (r *rotation) to() filter.Secret { return filter.Secret(r.Secret) }

// RotationStatus is the state of a change of the network's secret.
type RotationStatus struct {
	From, To string // fingerprints
	At       time.Time
	By       string   // key of the hub from which this node has it; its own if it is that
	Done     bool     // this node uses it
	Told     []string // keys of the peers that have it from this hub
	Untold   []string // and of those that have not asked for it yet
}

func (m *Mesh) network() string { return newNames(m.opts.KeyID).net }

// loadRotation reads what was announced; what has nothing to do with the present network
// is dropped.
func (m *Mesh) loadRotation() error {
	var r rotation
	if err := wholefile.ReadJSON(filepath.Join(m.opts.Dir, rotationFile), &r); err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	if len(r.Secret) == len(filter.Secret{}) && (r.From == m.network() || r.to().ID() == m.opts.KeyID) {
		m.rotation = &r
	}
	return nil
}

// saveRotation makes r the change that is announced. The caller holds m.admin.
func (m *Mesh) saveRotation(r *rotation) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	if err := writeFile(filepath.Join(m.opts.Dir, rotationFile), data); err != nil {
		return err
	}
	m.mu.Lock()
	m.rotation = r
	m.mu.Unlock()
	return nil
}

// announced returns a copy of the change that was announced last, done or not; nil if none
// was.
func (m *Mesh) announced() *rotation {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rotation == nil {
		return nil
	}
	r := *m.rotation
	r.Told = slices.Clone(r.Told)
	return &r
}

// pending returns the change that is to come; nil if there is none.
func (m *Mesh) pending() *rotation {
	if r := m.announced(); r != nil && r.to().ID() != m.opts.KeyID {
		return r
	}
	return nil
}

// Rotate announces another secret of the network, to be used after a while of up to 30
// days, in which the peers fetch it. Only a hub can; of another node, and of one for which
// a change is announced already, the error wraps [bulkhead.ErrForbidden].
func (m *Mesh) Rotate(secret filter.Secret, after time.Duration) (RotationStatus, error) {
	if m.opts.Mode != Hub || m.opts.Secret.ID() != m.opts.KeyID || m.opts.Switch == nil {
		return RotationStatus{}, fmt.Errorf("%w: mesh: a node in mode %q does not change the secret: have it done on a hub of the network", bulkhead.ErrForbidden, m.opts.Mode)
	}
	if after < 0 || after > maxLead {
		return RotationStatus{}, fmt.Errorf("%w: mesh: another secret in %v, want 0 to %v", bulkhead.ErrMalformed, after, maxLead)
	}
	m.admin.Lock()
	defer m.admin.Unlock()
	if r := m.pending(); r != nil {
		return RotationStatus{}, fmt.Errorf("%w: mesh: another secret is announced already, for %s", bulkhead.ErrForbidden, r.At.UTC().Format(time.RFC3339))
	}
	r := &rotation{From: m.network(), Secret: slices.Clone(secret[:]), At: m.opts.Now().Add(after).UTC(), By: m.opts.Identity.ID()}
	if err := m.saveRotation(r); err != nil {
		return RotationStatus{}, err
	}
	m.opts.Log.Warn("another secret of the network is announced", "network", newNames(secret.ID()).net, "at", r.At, "before", r.From)
	s, _ := m.Rotation()
	return s, nil
}

// Rotation returns the change of the network's secret that was announced last; ok is false
// if none was.
func (m *Mesh) Rotation() (s RotationStatus, ok bool) {
	r := m.announced()
	if r == nil {
		return s, false
	}
	s = RotationStatus{From: r.From, To: newNames(r.to().ID()).net, At: r.At, By: r.By, Done: r.to().ID() == m.opts.KeyID, Told: r.Told}
	for _, p := range m.peerList() {
		if p.ID != r.By && !slices.Contains(r.Told, p.ID) {
			s.Untold = append(s.Untold, p.ID)
		}
	}
	s.Told = slices.DeleteFunc(s.Told, func(id string) bool {
		return !slices.ContainsFunc(m.peerList(), func(p *peer) bool { return p.ID == id })
	})
	return s, true
}

// awaitRotation has the node change when it is time.
func (m *Mesh) awaitRotation(ctx context.Context) {
	for {
		pause := time.Second // and not until then: somebody may set the clock, or announce a change
		if r := m.pending(); r != nil && m.opts.Switch != nil && !m.opts.Now().Before(r.At) {
			m.opts.Switch(r.to())
			pause = switchRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-m.hurry:
		case <-time.After(pause):
		}
	}
}

// hasten has the node take an announced secret at once, since a peer uses it.
func (m *Mesh) hasten(network string) bool {
	r := m.pending()
	if r == nil || newNames(r.to().ID()).net != network {
		return false
	}
	m.mu.Lock()
	if m.rotation != nil {
		next := *m.rotation
		next.At = m.opts.Now()
		m.rotation = &next
	}
	m.mu.Unlock()
	select {
	case m.hurry <- struct{}{}:
	default:
	}
	return true
}

// formerNetwork reports whether the network had a secret with that fingerprint before.
func (m *Mesh) formerNetwork(network string) bool {
	return slices.ContainsFunc(m.opts.Former, func(s filter.Secret) bool { return newNames(s.ID()).net == network })
}

// A secretQuestion is what a member asks a hub.
type secretQuestion struct {
	Network   string `json:"network"`   // whose secret it has
	Exchange  []byte `json:"exchange"`  // X25519, for the answer alone
	Signature []byte `json:"signature"` // of the member, over both and the hub's key
}

func (q *secretQuestion) text(hub string) []byte {
	return append([]byte("bulkhead mesh secret v1 question\x00"+hub+"\x00"+q.Network+"\x00"), q.Exchange...)
}

// A secretAnswer is the reply.
type secretAnswer struct {
	Why       string `json:"why,omitempty"`      // there is nothing to tell
	Exchange  []byte `json:"exchange,omitempty"` // X25519
	Box       []byte `json:"box,omitempty"`      // a nextSecret
	Signature []byte `json:"signature,omitempty"`
}

func (a *secretAnswer) text(q *secretQuestion) []byte {
	return slices.Concat([]byte("bulkhead mesh secret v1 answer\x00"), q.Exchange, a.Exchange, a.Box)
}

// A nextSecret is the secret that follows that of the network which a member named.
type nextSecret struct {
	From   string  `json:"from"`
	Secret []byte  `json:"secret"`
	After  float64 `json:"after"` // seconds from now, so that clocks need not agree
}

const nothingNew = "no other secret"

func secretKey(shared []byte) []byte {
	key, err := hkdf.Key(sha256.New, shared, nil, "bulkhead mesh secret v1", chacha20poly1305.KeySize)
	if err != nil {
		panic(err) // of a hash that is unsafe, or a length that is too large
	}
	return key
}

func secretSubject(from hint) string { return "bh.secret." + from.String() }

// next returns the secret that follows that of a network, and when it is used.
func (m *Mesh) next(network string) (secret filter.Secret, at time.Time, ok bool) {
	var chain []filter.Secret
	for _, s := range slices.Backward(m.opts.Former) {
		chain = append(chain, s)
	}
	chain = append(chain, m.opts.Secret)
	r := m.pending()
	if r != nil {
		chain = append(chain, r.to())
	}
	i := slices.IndexFunc(chain, func(s filter.Secret) bool { return newNames(s.ID()).net == network })
	if i < 0 || i+1 == len(chain) {
		return secret, at, false
	}
	if r != nil && i+2 == len(chain) {
		at = r.At
	}
	return chain[i+1], at, true
}

// tellSecret answers a peer that asks for another secret.
func (m *Mesh) tellSecret(from hint, data []byte) []byte {
	p, ok := m.find(from)
	if !ok {
		return nil // its connection is about to end
	}
	a, err := m.answerSecret(&p, data)
	if err != nil {
		m.receiver.refuse(from, reasonMalformed, err.Error())
		return nil
	}
	out, err := json.Marshal(a)
	if err != nil {
		return nil
	}
	return out
}

func (m *Mesh) answerSecret(p *peer, data []byte) (*secretAnswer, error) {
	var q secretQuestion
	if len(data) > maxPair {
		return nil, fmt.Errorf("mesh: question for a secret of %d bytes, limit %d", len(data), maxPair)
	}
	if err := json.Unmarshal(data, &q); err != nil {
		return nil, fmt.Errorf("mesh: question for a secret: %w", err)
	}
	if !ed25519.Verify(p.key[:], q.text(m.opts.Identity.ID()), q.Signature) {
		return nil, errors.New("mesh: question for a secret: the signature is not of its sender")
	}
	theirs, err := ecdh.X25519().NewPublicKey(q.Exchange)
	if err != nil {
		return nil, fmt.Errorf("mesh: question for a secret: %w", err)
	}
	secret, at, ok := m.next(q.Network)
	if !ok {
		return &secretAnswer{Why: nothingNew}, nil
	}
	n := nextSecret{From: q.Network, Secret: secret[:]}
	if !at.IsZero() {
		n.After = max(0, at.Sub(m.opts.Now()).Seconds())
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
	a.Signature = ed25519.Sign(m.opts.Identity.private, a.text(&q))
	return a, m.noteTold(p, secret)
}

// noteTold notes that a peer has the secret that was announced last.
func (m *Mesh) noteTold(p *peer, secret filter.Secret) error {
	m.admin.Lock()
	defer m.admin.Unlock()
	r := m.announced()
	if r == nil || r.to() != secret || slices.Contains(r.Told, p.ID) {
		return nil
	}
	r.Told = append(r.Told, p.ID)
	m.opts.Log.Info("a peer has the network's other secret", "peer", p.label(), "key", p.ID)
	return m.saveRotation(r)
}

// askAfter returns a question to a hub for the secret after the node's own, and what opens
// the answer.
func (m *Mesh) askAfter(hub *public) (q *secretQuestion, private *ecdh.PrivateKey, err error) {
	if private, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("mesh: %w", err)
	}
	q = &secretQuestion{Network: m.network(), Exchange: private.PublicKey().Bytes()}
	q.Signature = ed25519.Sign(m.opts.Identity.private, q.text(hub.id()))
	return q, private, nil
}

// openSecret opens a hub's answer; nil if there is nothing new.
func (m *Mesh) openSecret(hub *public, q *secretQuestion, private *ecdh.PrivateKey, data []byte) (*nextSecret, error) {
	if len(data) > maxPair {
		return nil, errSealed
	}
	var a secretAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("mesh: another secret: %w", err)
	}
	if a.Why != "" {
		return nil, nil // nobody has signed this; it says no more than silence
	}
	if !ed25519.Verify(hub[:], a.text(q), a.Signature) {
		return nil, errors.New("mesh: another secret: the signature is not of the hub")
	}
	theirs, err := ecdh.X25519().NewPublicKey(a.Exchange)
	if err != nil {
		return nil, errSealed
	}
	shared, err := private.ECDH(theirs)
	if err != nil {
		return nil, errSealed
	}
	plain, err := unseal(secretKey(shared), a.Box, m.opts.Identity.ID())
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
	case len(n.Secret) != len(filter.Secret{}) || filter.Secret(n.Secret).ID() == m.opts.KeyID:
		return nil, errors.New("mesh: another secret: it is none, or the present one")
	case !(n.After >= 0) || n.After > 2*maxLead.Seconds():
		return nil, fmt.Errorf("mesh: another secret: in %v seconds", n.After)
	}
	return n, nil
}

// takeSecret notes what a hub has announced. Of two changes that two hubs have announced
// the earlier one is taken; what is at the same moment, or nearly, is settled by the
// fingerprints, the same way everywhere.
func (m *Mesh) takeSecret(hub *public, n *nextSecret) error {
	m.admin.Lock()
	defer m.admin.Unlock()
	at := m.opts.Now().Add(time.Duration(n.After * float64(time.Second))).UTC()
	to := filter.Secret(n.Secret)
	if r := m.pending(); r != nil {
		if r.to() == to {
			return nil
		}
		apart := at.Sub(r.At)
		better := apart < 0
		if apart.Abs() < time.Minute {
			better = to.ID() < r.to().ID()
		}
		m.opts.Log.Error("ALERT: two hubs have announced different secrets of the network; the earlier one is taken", "one", r.By, "other", hub.id(), "taken_of_the_other", better)
		if !better {
			return nil
		}
	}
	r := &rotation{From: n.From, Secret: n.Secret, At: at, By: hub.id()}
	if err := m.saveRotation(r); err != nil {
		return err
	}
	m.opts.Log.Warn("the network gets another secret", "network", newNames(to.ID()).net, "at", at, "hub", hub.id())
	return nil
}

// followSecret asks hubs now and then whether the network gets another secret.
func (m *Mesh) followSecret(ctx context.Context) {
	told := make(map[bus]string) // the last error of each
	for {
		pause := secretBeats * m.opts.Heartbeat
		for _, b := range m.buses {
			hub, ok := b.(*natsBus)
			if !ok || hub.holder == nil {
				continue
			}
			err := m.askSecret(ctx, hub)
			if err == nil || ctx.Err() != nil {
				delete(told, b)
				continue
			}
			pause = min(pause, secretRetry)
			if b.status().Connected && told[b] != err.Error() {
				told[b] = err.Error()
				m.opts.Log.Debug("whether the network gets another secret is not known at present", "hub", b.name(), "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (m *Mesh) askSecret(ctx context.Context, b *natsBus) error {
	hub := b.holder.Load()
	if hub == nil {
		return errors.New("mesh: not connected yet")
	}
	q, private, err := m.askAfter(hub)
	if err != nil {
		return err
	}
	data, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, brokerWait)
	defer cancel()
	reply, err := b.conn.RequestWithContext(ctx, secretSubject(m.opts.Identity.public.hint()), data)
	if err != nil {
		return cleared(err)
	}
	n, err := m.openSecret(hub, q, private, reply.Data)
	if err != nil {
		m.opts.Log.Warn("a hub's answer is not taken", "hub", hub.id(), "err", err)
		return err
	}
	if n == nil {
		return nil
	}
	return m.takeSecret(hub, n)
}

// serveSecrets answers members who ask this node's broker.
func (b *natsBus) serveSecrets(tell func(from hint, data []byte) []byte) error {
	_, err := b.conn.Subscribe("bh.secret.*", func(msg *nats.Msg) {
		from, ok := topic{kind: kindAsk, key: strings.TrimPrefix(msg.Subject, "bh.secret.")}.sender()
		if !ok || !strings.HasPrefix(msg.Reply, inbox(from)+".") {
			return
		}
		if data := tell(from, msg.Data); data != nil {
			_ = msg.Respond(data) // who does not hear it asks again
		}
	})
	if err != nil {
		return fmt.Errorf("broker %s: %w", b.server, cleared(err))
	}
	return nil
}
