package member

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// A network changes its secret while it runs. A hub announces the next secret and the time of its
// use. It sends the secret, sealed, to each peer that asks on its own connection. From that time on
// all nodes count into new generations. They answer from the old generations under the former
// secret until those expire. Peers that were offline learn the new secret when they reconnect;
// former peers do not. docs/specs/invitation.md#another-secret.

const (
	RotationFile = "rotation.json"
	// MaxLead is the longest time between the announcement of a secret and its use.
	MaxLead     = 30 * 24 * time.Hour
	SecretBeats = 2 // heartbeats between two requests for another secret
	secretRetry = 2 * time.Second
	switchPoll  = time.Second // poll: the clock may be set, or a change announced, before the time of use
	switchRetry = time.Minute
	// lateBeats is for how many heartbeats after a change of the secret a peer may still use the
	// former one before an administrator is notified.
	lateBeats = 4
	maxVoid   = 8 // secrets that a hub remembers as announced and taken back
	// A node keeps this many of the network's former secrets for members that were away, each for this
	// long. Longer than the network has counts under them, since a member may have been away at several
	// changes.
	maxPast  = 32
	keptPast = 182 * 24 * time.Hour
)

// A Rotation is a change of the network's secret, announced or done. A published value is
// immutable: every edit is of a copy.
type Rotation struct {
	From    string    `json:"from"`             // network before
	Secret  []byte    `json:"secret,omitempty"` // empty: the announced secret was taken back
	At      time.Time `json:"at"`               // when it is, or was, to be used
	By      string    `json:"by"`               // key of the hub that sent it; this node's if its administrator set it
	Hand    bool      `json:"hand,omitempty"`   // the administrator set it, and may have given it to others
	Fetched []string  `json:"told,omitempty"`   // keys of the peers that have fetched it here
	// Void is secrets that this node announced and took back, oldest first. A peer that uses one is
	// sent back to the present secret.
	Void [][]byte `json:"void,omitempty"`
	// Past is the secrets that the network had before From and with From, oldest first.
	Past []PastSecret `json:"past,omitempty"`
}

// A PastSecret is a secret that the network had, and when it was replaced.
type PastSecret struct {
	Secret []byte    `json:"secret"`
	Until  time.Time `json:"until"`
}

// To returns the secret that follows.
func (r *Rotation) To() filter.Secret { return filter.Secret(r.Secret) }

// Valid reports whether r, read from a file, can be used.
func (r *Rotation) Valid() bool {
	size := len(filter.Secret{})
	return (len(r.Secret) == 0 || len(r.Secret) == size) &&
		!slices.ContainsFunc(r.Void, func(v []byte) bool { return len(v) != size }) &&
		!slices.ContainsFunc(r.Past, func(v PastSecret) bool { return len(v.Secret) != size })
}

// A NewRotation is a change of the network's secret that an administrator requests.
type NewRotation struct {
	// Secret is the next secret; nil: a random one, which only a hub can announce.
	Secret *filter.Secret
	// After is the time until its use, 0 to [MaxLead].
	After time.Duration
	// Anyway announces it although members have answered that they cannot take it. They stay behind.
	Anyway bool
}

// RotationStatus is the state of a change of the network's secret.
type RotationStatus struct {
	From, To string // fingerprints
	At       time.Time
	By       string   // key of the hub that sent it to this node; the node's own if set here
	Done     bool     // this node uses it
	Fetched  []string // keys of the peers that have fetched it here
	Through  []string // other peers in an aggregate whose node has fetched it: that node passes it on
	Missing  []string // all other peers
	Unable   []string // peers that have answered that they cannot take another secret, with their reasons
}

// NetworkOf returns the fingerprint of the network with the given secret.
func NetworkOf(s filter.Secret) string { return wire.NetworkName(s.ID()) }

// NetworkName returns the fingerprint of the present network.
func (c *Secrets) NetworkName() string { return wire.NetworkName(c.Opts.KeyID) }

// Secrets follows and makes the changes of the network's secret. Its methods may be called
// concurrently.
type Secrets struct {
	Opts  *Options
	book  *Book
	hubs  []Requester
	Began time.Time // when the mesh was made

	admin sync.Mutex // makes reading, changing and writing the change one atomic step

	mu sync.Mutex // guards rotation
	// Announcement is the change of the network's secret that was announced last; nil if there was
	// none. The value that it points to is immutable.
	Announcement *Rotation
	Hurry        chan struct{} // requests the change at once
	// unable is the answers of peers that cannot take another secret, by key; mu guards it.
	unable map[string]inability
	// postponed is the reason, as logged, why a due secret was not announced. Only the announcing
	// goroutine uses it.
	postponed string
}

// UseHub makes the node ask another hub for its announcements. It is called before
// [Secrets.FollowSecret] and [Secrets.AnnounceRegularly].
func (c *Secrets) UseHub(h Requester) { c.hubs = append(c.hubs, h) }

// OpenSecrets reads the announced change in the folder o.Dir, and drops one that does not concern the
// present network.
func OpenSecrets(o *Options, b *Book) (*Secrets, error) {
	c := &Secrets{Opts: o, book: b, Began: time.Now(), Hurry: make(chan struct{}, 1)}
	r, err := ReadRotation(o.Dir)
	if err != nil {
		return nil, err
	}
	if r.From == c.NetworkName() || len(r.Secret) > 0 && r.To().ID() == o.KeyID {
		c.Announcement = &r
	}
	return c, nil
}

// ReadRotation reads the announced change; an absent file means none.
func ReadRotation(dir string) (r Rotation, err error) {
	if err := wholefile.ReadJSON(filepath.Join(dir, RotationFile), &r); err != nil {
		return r, fmt.Errorf("mesh: %w", err)
	}
	if !r.Valid() {
		return r, fmt.Errorf("mesh: %s: not a change of a secret: remove it", RotationFile)
	}
	return r, nil
}

// ForgetRotation drops the announced change of a node with the mesh folder dir. The node must not
// be sharing: it is about to enter another network.
func ForgetRotation(dir string) error { return remove(dir, RotationFile) }

// saveRotation makes r the announced change. The caller holds c.admin.
func (c *Secrets) saveRotation(r *Rotation) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	if err := WriteFile(filepath.Join(c.Opts.Dir, RotationFile), data); err != nil {
		return err
	}
	c.mu.Lock()
	c.Announcement = r
	c.mu.Unlock()
	return nil
}

// LastRotation returns a copy of the change that was announced or taken back last; nil if there was
// none.
func (c *Secrets) LastRotation() *Rotation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Announcement == nil {
		return nil
	}
	r := *c.Announcement
	r.Fetched, r.Void, r.Past = slices.Clone(r.Fetched), slices.Clone(r.Void), slices.Clone(r.Past)
	return &r
}

// announced returns a copy of the change that was announced last, done or not; nil if there was
// none.
func (c *Secrets) announced() *Rotation {
	if r := c.LastRotation(); r != nil && len(r.Secret) > 0 {
		return r
	}
	return nil
}

// Pending returns a copy of the change that is still to come; nil if there is none.
func (c *Secrets) Pending() *Rotation {
	if r := c.announced(); r != nil && r.To().ID() != c.Opts.KeyID {
		return r
	}
	return nil
}

// past returns the network's former secrets, oldest first, with the present one, which is replaced at
// the given time.
func (c *Secrets) past(at time.Time) (out []PastSecret) {
	if r := c.LastRotation(); r != nil {
		out = slices.DeleteFunc(r.Past, func(v PastSecret) bool {
			return filter.Secret(v.Secret) == c.Opts.Secret || at.Sub(v.Until) > keptPast
		})
	}
	out = append(out, PastSecret{Secret: slices.Clone(c.Opts.Secret[:]), Until: at})
	return out[max(0, len(out)-maxPast):]
}

// void returns the secrets that were announced here and taken back.
func (c *Secrets) void() [][]byte {
	if r := c.LastRotation(); r != nil {
		return r.Void
	}
	return nil
}

// Rotate announces another secret of the network, to be used after n.After, in which the peers
// fetch it. If the node cannot change its secret, or knows of a change to come, the error wraps
// [bulkhead.ErrForbidden]. The same holds if a member has answered that it cannot take another
// secret, unless n.Anyway is set.
func (c *Secrets) Rotate(n NewRotation) (RotationStatus, error) {
	switch {
	case c.Opts.Switch == nil:
		return RotationStatus{}, fmt.Errorf("%w: mesh: this node cannot change its secret", bulkhead.ErrForbidden)
	case n.Secret == nil && c.Opts.Mode != Hub:
		return RotationStatus{}, fmt.Errorf(
			"%w: mesh: in mode %q no node would learn of a new secret: announce it on a hub, "+
				"or give the same one to all nodes by hand",
			bulkhead.ErrForbidden, c.Opts.Mode)
	case n.After < 0 || n.After > MaxLead:
		return RotationStatus{}, fmt.Errorf("%w: mesh: another secret in %v, want 0 to %v", bulkhead.ErrMalformed, n.After,
			MaxLead)
	case n.Secret != nil && n.Secret.ID() == c.Opts.KeyID:
		return RotationStatus{}, fmt.Errorf("%w: mesh: that is the network's secret already", bulkhead.ErrMalformed)
	}
	c.admin.Lock()
	defer c.admin.Unlock()
	if r := c.Pending(); r != nil {
		return RotationStatus{}, fmt.Errorf("%w: mesh: another secret is announced already, for %s; it can be taken back",
			bulkhead.ErrForbidden, r.At.UTC().Format(time.RFC3339))
	}
	if who := c.Unable(); len(who) > 0 && !n.Anyway {
		c.Opts.Log.Warn("another secret is not announced, since members cannot take it", "members", strings.Join(who, "; "))
		return RotationStatus{}, fmt.Errorf("%w: mesh: %d members cannot take another secret: %s",
			bulkhead.ErrForbidden, len(who), strings.Join(who, "; "))
	}
	at := c.Opts.Now().Add(n.After).UTC()
	r := &Rotation{From: c.NetworkName(), At: at, By: c.Opts.Identity.ID(), Hand: n.Secret != nil, Void: c.void(),
		Past: c.past(at)}
	if n.Secret != nil {
		r.Secret = slices.Clone(n.Secret[:])
		r.Void = slices.DeleteFunc(r.Void, func(v []byte) bool { return slices.Equal(v, r.Secret) })
	} else {
		r.Secret = randomSecret()
	}
	if err := c.saveRotation(r); err != nil {
		return RotationStatus{}, err
	}
	c.Opts.Log.Warn("another secret of the network is announced", "network", NetworkOf(r.To()), "at", r.At,
		"before", r.From)
	s, _ := c.Rotation()
	return s, nil
}

func randomSecret() []byte {
	s := make([]byte, len(filter.Secret{}))
	rand.Read(s)
	return s
}

// CancelRotation takes back the change that is to come. Peers that fetched it from this node learn
// of that with their next request. A change that a hub announced is refused on this node only. If
// there is no change to come, the error wraps [bulkhead.ErrMalformed].
func (c *Secrets) CancelRotation() (RotationStatus, error) {
	c.admin.Lock()
	defer c.admin.Unlock()
	s, _ := c.Rotation()
	r := c.Pending()
	if r == nil {
		return s, fmt.Errorf("%w: mesh: no other secret of the network is to come", bulkhead.ErrMalformed)
	}
	if err := c.saveRotation(c.withdrawn(r)); err != nil {
		return s, err
	}
	c.Opts.Log.Warn("the network's other secret is taken back", "network", s.To, "by", r.By)
	return s, nil
}

// withdrawn returns the rotation that replaces a change that is taken back. It keeps this node from
// taking the same secret from a hub again.
func (c *Secrets) withdrawn(r *Rotation) *Rotation {
	out := &Rotation{From: c.NetworkName(), At: r.At, Void: append(r.Void, r.Secret), Past: r.Past}
	if over := len(out.Void) - maxVoid; over > 0 {
		out.Void = out.Void[over:]
	}
	return out
}

// Rotation returns the change of the network's secret that was announced last; ok is false if there
// was none.
func (c *Secrets) Rotation() (s RotationStatus, ok bool) {
	r := c.announced()
	if r == nil {
		return s, false
	}
	s = RotationStatus{From: r.From, To: NetworkOf(r.To()), At: r.At, By: r.By, Done: r.To().ID() == c.Opts.KeyID,
		Unable: c.Unable()}
	through := c.book.within(r.Fetched)
	for _, p := range c.book.List() {
		switch {
		case slices.Contains(r.Fetched, p.ID):
			s.Fetched = append(s.Fetched, p.ID)
		case p.ID == r.By:
		case through[wire.Organisation(p.Key.Hint())]:
			s.Through = append(s.Through, p.ID)
		default:
			s.Missing = append(s.Missing, p.ID)
		}
	}
	return s, true
}

// AwaitRotation makes the node change its secret when it is time.
func (c *Secrets) AwaitRotation(ctx context.Context) {
	for {
		pause := switchPoll
		if r := c.Pending(); r != nil && c.Opts.Switch != nil && !c.Opts.Now().Before(r.At) {
			c.Opts.Switch(r.To())
			pause = switchRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-c.Hurry:
		case <-time.After(pause):
		}
	}
}

// Hasten makes the node take an announced secret at once, because a peer uses it already. It
// reports whether the node will.
func (c *Secrets) Hasten(network string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.Announcement
	if r == nil || len(r.Secret) == 0 || NetworkOf(r.To()) != network || c.Opts.Switch == nil {
		return false
	}
	next := *r
	next.At = c.Opts.Now()
	c.Announcement = &next
	select {
	case c.Hurry <- struct{}{}:
	default:
	}
	return true
}

// Recent reports whether the mesh is so new that peers may still use the former secret.
func (c *Secrets) Recent() bool { return time.Since(c.Began) < lateBeats*c.Opts.Heartbeat }

// FormerNetwork reports whether the network had a secret with that fingerprint before.
func (c *Secrets) FormerNetwork(network string) bool {
	chain := c.chain()
	return slices.ContainsFunc(chain[:len(chain)-1], func(s filter.Secret) bool { return NetworkOf(s) == network })
}

// chain returns the secrets that the network had, oldest first, and the present one. Secrets under
// which this node holds nothing any more are in the announcement alone.
func (c *Secrets) chain() (out []filter.Secret) {
	var past []filter.Secret
	if r := c.LastRotation(); r != nil {
		for _, v := range r.Past {
			past = append(past, filter.Secret(v.Secret))
		}
	}
	for _, s := range slices.Backward(c.Opts.Former) {
		if !slices.Contains(past, s) {
			out = append(out, s)
		}
	}
	out = slices.DeleteFunc(append(out, past...), func(s filter.Secret) bool { return s == c.Opts.Secret })
	return append(out, c.Opts.Secret)
}

// next returns the secret of a network that a peer names, the secret that follows it, and the time
// of its use; the zero time is now.
func (c *Secrets) next(network string) (had, secret filter.Secret, at time.Time, ok bool) {
	for _, v := range c.void() {
		if had = filter.Secret(v); NetworkOf(had) == network {
			return had, c.Opts.Secret, at, true
		}
	}
	chain := c.chain()
	r := c.Pending()
	if r != nil {
		chain = append(chain, r.To())
	}
	i := slices.IndexFunc(chain, func(s filter.Secret) bool { return NetworkOf(s) == network })
	if i < 0 || i+1 == len(chain) {
		return had, secret, at, false
	}
	if r != nil && i+2 == len(chain) {
		at = r.At
	}
	return chain[i], chain[i+1], at, true
}

// noteFetched records that a peer has the announced secret. It returns an error if the node is no
// longer a peer.
func (c *Secrets) noteFetched(p *Peer, secret filter.Secret) error {
	c.admin.Lock()
	defer c.admin.Unlock()
	if _, ok := c.book.Find(p.Key.Hint()); !ok {
		return unknownPeer(p.ID)
	}
	r := c.announced()
	if r == nil || r.To() != secret || slices.Contains(r.Fetched, p.ID) {
		return nil
	}
	r.Fetched = append(r.Fetched, p.ID)
	c.Opts.Log.Info("a peer has the network's other secret", "peer", p.Label(), "key", p.ID)
	return c.saveRotation(r)
}

// LeftRotation makes sure that a former peer neither knows the secret that is to come nor
// determines it.
func (c *Secrets) LeftRotation(id string) error {
	c.admin.Lock()
	defer c.admin.Unlock()
	r := c.Pending()
	switch {
	case r == nil:
		return nil
	case r.By == id:
		c.Opts.Log.Warn("the secret that the evicted hub announced is not taken", "network", NetworkOf(r.To()))
		return c.saveRotation(c.withdrawn(r))
	case r.By != c.Opts.Identity.ID() || !slices.Contains(r.Fetched, id):
		return nil
	case r.Hand:
		c.Opts.Log.Error("the evicted peer knows the secret that is to come, which was given by hand", "key", id,
			"hint", "run \"bulkhead rekey --cancel\", and announce another secret")
		return nil
	}
	next := c.withdrawn(r)
	next.Secret, next.By, next.At = randomSecret(), r.By, r.At
	if least := c.Opts.Now().Add(2 * SecretBeats * c.Opts.Heartbeat).UTC(); next.At.Before(least) {
		next.At = least // time for the other peers to fetch this secret as well
	}
	c.Opts.Log.Warn("the evicted peer knew the secret that was to come", "network", NetworkOf(next.To()),
		"at", next.At, "consequence", "another secret is announced")
	return c.saveRotation(next)
}

// TakeSecret records a hub's announcement. A hub's later announcement replaces its earlier one. Of
// changes announced by two hubs the earlier one is taken. If they are at the same moment, or
// nearly, the fingerprints decide, the same way on every node.
func (c *Secrets) TakeSecret(hub wire.Public, n *NextSecret) error {
	c.admin.Lock()
	defer c.admin.Unlock()
	at := c.Opts.Now().Add(time.Duration(n.After * float64(time.Second))).UTC()
	next := &Rotation{From: n.From, Secret: n.Secret, At: at, By: hub.ID(), Void: c.void(), Past: c.past(at)}
	if slices.ContainsFunc(next.Void, func(v []byte) bool { return slices.Equal(v, n.Secret) }) {
		return nil // an administrator has rejected it
	}
	if r := c.Pending(); r != nil {
		if r.To() == next.To() {
			return nil
		}
		if r.By != next.By {
			earlier := at.Before(r.At)
			if at.Sub(r.At).Abs() < time.Minute {
				earlier = next.To().ID() < r.To().ID()
			}
			c.Opts.Log.Error("two hubs have announced different secrets of the network", "one", r.By, "other", next.By,
				"taken_of_the_other", earlier, "consequence", "the earlier secret is taken",
				"hint", "name each hub in mesh.servers of the other one")
			if !earlier {
				return nil
			}
		}
	}
	if err := c.saveRotation(next); err != nil {
		return err
	}
	c.Opts.Log.Warn("the network gets another secret", "network", NetworkOf(next.To()), "at", at, "hub", hub.ID())
	return nil
}

// NothingNew records that a hub announces nothing: it has taken back its former announcement.
func (c *Secrets) NothingNew(hub wire.Public) error {
	c.admin.Lock()
	defer c.admin.Unlock()
	r := c.Pending()
	if r == nil || r.By != hub.ID() {
		return nil
	}
	c.Opts.Log.Warn("the hub has taken back the network's other secret", "network", NetworkOf(r.To()), "hub", hub.ID())
	return c.saveRotation(&Rotation{From: c.NetworkName(), Void: r.Void, Past: r.Past})
}

// taker returns the secrets of the mesh that takes the announcements of hubs.
func (c *Secrets) taker() *Secrets {
	if c.Opts.Taker != nil {
		if other := c.Opts.Taker.Announcements(); other != nil {
			return other
		}
	}
	return c
}

// FollowSecret asks hubs now and then whether the network gets another secret.
func (c *Secrets) FollowSecret(ctx context.Context) {
	if c.taker().Opts.Switch == nil {
		return
	}
	failures := make(map[Requester]string) // the last error of each
	for {
		pause := SecretBeats * c.Opts.Heartbeat
		for _, h := range c.hubs {
			err := c.askSecret(ctx, h)
			switch {
			case err == nil || ctx.Err() != nil:
				delete(failures, h)
			case errors.Is(err, errUnconnected):
				pause = min(pause, secretRetry)
			case failures[h] != err.Error():
				failures[h] = err.Error()
				c.Opts.Log.Warn("whether the network gets another secret is not known at present", "hub", h.Name(), "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

var errUnconnected = errors.New("mesh: not connected to the hub")

func (c *Secrets) askSecret(ctx context.Context, h Requester) error {
	key, ok := h.Holder()
	if !ok || !h.Connected() {
		return errUnconnected
	}
	q, private, err := c.AskAfter(key)
	if err != nil {
		return err
	}
	data, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	if data, err = h.Request(ctx, wire.SecretPrefix+c.Opts.Identity.Hint().String(), data); err != nil {
		return err
	}
	n, err := c.OpenSecret(key, q, private, data)
	switch {
	case err != nil:
		return err
	case n == nil:
		return c.taker().NothingNew(key)
	}
	return c.taker().TakeSecret(key, n)
}
