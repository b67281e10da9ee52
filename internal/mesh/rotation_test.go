package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A changing is a mesh that does not run, and records the secret that it was switched to.
type changing struct {
	*Mesh
	log logtest.Log
	now time.Time

	mu sync.Mutex
	to []filter.Secret
}

func newChanging(t *testing.T, mode member.Mode, change func(*member.Options)) *changing {
	t.Helper()
	c := &changing{now: time.Unix(1_800_000_000, 0)}
	c.Mesh = closed(t, func(o *member.Options) {
		o.Mode, o.Secret, o.Heartbeat = mode, enginetest.Secret, time.Second
		o.Now, o.Log = func() time.Time { return c.now }, c.log.Logger()
		o.Switch = func(s filter.Secret) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.to = append(c.to, s)
		}
		if change != nil {
			change(o)
		}
	})
	return c
}

func (c *changing) key() wire.Public { return c.opts.Identity.Public() }

// asks makes c ask a hub, and take the answer as modified by change.
func (c *changing) asks(hub *changing, change func([]byte) []byte) error {
	q, private, err := c.AskAfter(hub.key())
	if err != nil {
		return err
	}
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	answer := hub.ServeSecret(c.key().Hint(), data)
	if answer == nil {
		return errors.New("no answer")
	}
	if change != nil {
		answer = change(answer)
	}
	n, err := c.OpenSecret(hub.key(), q, private, answer)
	switch {
	case err != nil:
		return err
	case n == nil:
		return c.NothingNew(hub.key())
	}
	return c.TakeSecret(hub.key(), n)
}

func mustTake(t *testing.T, c, hub *changing) {
	t.Helper()
	if err := c.asks(hub, nil); err != nil {
		t.Fatal(err)
	}
}

// again returns the same node after it was killed.
func (c *changing) again(t *testing.T, secret filter.Secret, former ...filter.Secret) {
	t.Helper()
	o := *c.opts
	o.Secret, o.KeyID, o.Former = secret, secret.ID(), former
	m, err := prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c.Mesh = m
}

// TestToldThroughSum checks that a node in a sum that has fetched the secret is not reported to
// lack it, and that a node in a sum that has not fetched it is.
func TestToldThroughSum(t *testing.T) {
	hub, sum, node, other := newChanging(t, member.Hub, nil), newChanging(t, member.Join, nil), newChanging(t, member.Join,
		nil), newChanging(t, member.Join, nil)
	befriend(t, hub.Mesh, sum.Mesh, node.Mesh, other.Mesh)
	id := func(c *changing) string { return c.opts.Identity.ID() }
	in := []wire.Organisation{wire.Organisation(node.opts.Identity.Hint()), {1}}
	slices.SortFunc(in, wire.CompareOrganisations)
	hub.Book.Figures(sum.opts.Identity.Hint(), func(s *member.Stats) { s.Organisations = in })
	if _, err := hub.Rotate(member.NewRotation{After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if s, _ := hub.Rotation(); len(s.Fetched) != 0 || len(s.Through) != 0 || len(s.Missing) != 3 {
		t.Errorf("before anybody asked: %+v", s)
	}
	mustTake(t, sum, hub)
	if s, _ := hub.Rotation(); !slices.Equal(s.Fetched, []string{id(sum)}) ||
		!slices.Equal(s.Through, []string{id(node)}) || !slices.Equal(s.Missing, []string{id(other)}) {
		t.Errorf("the sum has it: %+v", s)
	}
	mustTake(t, node, hub)
	if s, _ := hub.Rotation(); len(s.Fetched) != 2 || len(s.Through) != 0 ||
		!slices.Equal(s.Missing, []string{id(other)}) {
		t.Errorf("its node has asked, too: %+v", s)
	}
}

// TestRotate checks that members get the next secret and the time of its use from a hub, and use it
// then; a node that was away gets one after the other.
func TestRotate(t *testing.T) {
	hub, bob, away := newChanging(t, member.Hub, nil), newChanging(t, member.Join, nil), newChanging(t, member.Join, nil)
	befriend(t, hub.Mesh, bob.Mesh, away.Mesh)
	mustTake(t, bob, hub)
	if _, ok := bob.Rotation(); ok {
		t.Error("a change that nobody announced")
	}
	s, err := hub.Rotate(member.NewRotation{After: time.Hour})
	if err != nil || s.Done || s.By != hub.opts.Identity.ID() || !s.At.Equal(hub.now.Add(time.Hour)) ||
		s.From != member.NetworkOf(enginetest.Secret) || len(s.Missing) != 2 || len(s.Fetched) != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	first := hub.Pending().To()
	bob.now = bob.now.Add(-42 * time.Minute) // its clock is wrong, which changes nothing
	mustTake(t, bob, hub)
	r, ok := bob.Rotation()
	if !ok || r.To != s.To || r.By != s.By || !r.At.Equal(bob.now.Add(time.Hour)) || bob.Pending().To() != first {
		t.Fatalf("%+v", r)
	}
	if s, _ := hub.Rotation(); !slices.Equal(s.Fetched, []string{bob.opts.Identity.ID()}) ||
		!slices.Equal(s.Missing, []string{away.opts.Identity.ID()}) {
		t.Errorf("%+v", s)
	}
	bob.again(t, enginetest.Secret)
	if r, ok := bob.Rotation(); !ok || r.To != s.To {
		t.Errorf("after a crash %+v", r)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	bob.now = bob.now.Add(time.Hour)
	wg.Go(func() { bob.AwaitRotation(ctx) })
	enginetest.Eventually(t, time.Minute, "the node is told to change", func() bool {
		bob.mu.Lock()
		defer bob.mu.Unlock()
		return len(bob.to) > 0 && bob.to[0] == first
	})
	stop()
	wg.Wait()
	bob.again(t, first, enginetest.Secret)
	if r, ok := bob.Rotation(); !ok || !r.Done {
		t.Errorf("after the change %+v", r)
	}
	hub.again(t, first, enginetest.Secret)
	if _, err := hub.Rotate(member.NewRotation{}); err != nil {
		t.Fatal(err)
	}
	second := hub.Pending().To()
	hub.again(t, second, first, enginetest.Secret)
	for _, want := range []filter.Secret{first, second} {
		mustTake(t, away, hub)
		if r := away.Pending(); r == nil || r.To() != want || r.At.After(away.now) {
			t.Fatalf("a node that was away is told %+v", r)
		}
		away.again(t, want)
	}
	mustTake(t, away, hub)
	if r, ok := away.Rotation(); !ok || !r.Done {
		t.Errorf("%+v", r)
	}
	if matches, _ := filepath.Glob(filepath.Join(hub.opts.Dir, member.RotationFile)); len(matches) != 1 {
		t.Error("nothing is on disk")
	} else if info, err := os.Stat(matches[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := errors.Join(member.ForgetRotation(hub.opts.Dir), member.ForgetRotation(hub.opts.Dir)); err != nil {
		t.Error(err)
	}
}

// TestRotateRefused checks which announcements and which questions are refused.
func TestRotateRefused(t *testing.T) {
	hub, bob := newChanging(t, member.Hub, nil), newChanging(t, member.Join, nil)
	befriend(t, hub.Mesh, bob.Mesh)
	same := enginetest.Secret
	for what, tt := range map[string]struct {
		m    *Mesh
		n    member.NewRotation
		want error
	}{
		"on no hub":       {bob.Mesh, member.NewRotation{}, bulkhead.ErrForbidden},
		"too far ahead":   {hub.Mesh, member.NewRotation{After: member.MaxLead + 1}, bulkhead.ErrMalformed},
		"in the past":     {hub.Mesh, member.NewRotation{After: -1}, bulkhead.ErrMalformed},
		"to the same":     {hub.Mesh, member.NewRotation{Secret: &same}, bulkhead.ErrMalformed},
		"of a rigid node": {closed(t, nil), member.NewRotation{}, bulkhead.ErrForbidden},
	} {
		if _, err := tt.m.Rotate(tt.n); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := hub.CancelRotation(); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("taken back though nothing was announced: %v", err)
	}
	given := filter.Secret{8}
	if _, err := bob.Rotate(member.NewRotation{Secret: &given, After: time.Hour}); err != nil {
		t.Errorf("by hand: %v", err)
	}
	if _, err := bob.Rotate(member.NewRotation{Secret: &filter.Secret{9}}); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := hub.Rotate(member.NewRotation{}); err != nil {
		t.Fatal(err)
	}

	ask := func(change func(*member.SecretQuestion), by *changing) []byte {
		q, _, err := by.AskAfter(hub.key())
		if err != nil {
			t.Fatal(err)
		}
		change(q)
		data, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	stranger, joined := newChanging(t, member.Join, nil), newChanging(t, member.Join, func(o *member.Options) {
		o.Secret = filter.Secret{77}
		o.KeyID = o.Secret.ID()
	})
	befriend(t, hub.Mesh, joined.Mesh)
	sign := func(by *changing, q *member.SecretQuestion) {
		q.Proof = q.ProofOf(hub.opts.Identity.ID(), by.opts.Secret)
		q.Signature = by.opts.Identity.Sign(q.Text(hub.opts.Identity.ID()))
	}
	for what, tt := range map[string]struct {
		from *changing
		data []byte
	}{
		"a stranger":         {stranger, ask(func(*member.SecretQuestion) {}, stranger)},
		"in another's name":  {bob, ask(func(*member.SecretQuestion) {}, joined)},
		"nonsense":           {bob, []byte("{")},
		"too long":           {bob, make([]byte, member.MaxPair+1)},
		"of another network": {bob, ask(func(q *member.SecretQuestion) { q.Network = "0000000000000000" }, bob)},
		"of no point":        {bob, ask(func(q *member.SecretQuestion) { q.Exchange = make([]byte, 31); sign(bob, q) }, bob)},
		"without the one before": {joined,
			ask(func(q *member.SecretQuestion) { q.Network = member.NetworkOf(enginetest.Secret); sign(joined, q) }, joined)},
	} {
		if got := hub.ServeSecret(tt.from.key().Hint(), tt.data); got != nil {
			t.Errorf("%s is told %s", what, got)
		}
	}
	if s, _ := hub.Rotation(); len(s.Fetched) != 0 {
		t.Errorf("told %v", s.Fetched)
	}
}

// TestLyingAnnouncement checks that only a hub's announcement is accepted, and that an announcement
// to another member, or an old one, is refused.
func TestLyingAnnouncement(t *testing.T) {
	hub, bob, eve := newChanging(t, member.Hub, nil), newChanging(t, member.Join, nil), newChanging(t, member.Hub, nil)
	befriend(t, hub.Mesh, bob.Mesh, eve.Mesh)
	if _, err := eve.Rotate(member.NewRotation{}); err != nil { // she has a secret ready
		t.Fatal(err)
	}
	if _, err := hub.Rotate(member.NewRotation{After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	var statement []byte
	for what, change := range map[string]func([]byte) []byte{
		"hers instead": func([]byte) []byte {
			q, _, err := bob.AskAfter(hub.key())
			if err != nil {
				t.Fatal(err)
			}
			a, _, err := eve.MakeAnswer(&member.Peer{ID: bob.opts.Identity.ID(), Key: bob.key()}, func() []byte {
				q.Signature = bob.opts.Identity.Sign(q.Text(eve.opts.Identity.ID()))
				q.Proof = q.ProofOf(eve.opts.Identity.ID(), enginetest.Secret)
				data, _ := json.Marshal(q)
				return data
			}())
			if err != nil {
				t.Fatal(err)
			}
			data, _ := json.Marshal(a)
			return data
		},
		"played back":   func(data []byte) []byte { defer func() { statement = data }(); return or(statement, []byte("{}")) },
		"taken back":    func([]byte) []byte { return []byte(`{"signature":"AAAA"}`) },
		"without a box": func(data []byte) []byte { return change(t, data, func(a *member.SecretAnswer) { a.Box = nil }) },
		"another box":   func(data []byte) []byte { return change(t, data, func(a *member.SecretAnswer) { a.Box[30]++ }) },
		"too long":      func([]byte) []byte { return make([]byte, member.MaxPair+1) },
		"nonsense":      func([]byte) []byte { return []byte("nonsense") },
	} {
		for range 2 {
			if err := bob.asks(hub, change); err == nil {
				t.Errorf("%s: taken", what)
			}
		}
	}
	if _, ok := bob.Rotation(); ok {
		t.Error("a change that the hub has not announced to this node")
	}
	// The hub's own announcement must make sense as well.
	for what, n := range map[string]member.NextSecret{
		"of another network": {From: "x", Secret: make([]byte, 16)},
		"short":              {From: bob.NetworkName(), Secret: make([]byte, 15)},
		"the present one":    {From: bob.NetworkName(), Secret: enginetest.Secret[:]},
		"in the past":        {From: bob.NetworkName(), Secret: make([]byte, 16), After: -1},
		"in a year":          {From: bob.NetworkName(), Secret: make([]byte, 16), After: 366 * 86400},
	} {
		q, private, err := bob.AskAfter(hub.key())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := bob.OpenSecret(hub.key(), q, private, hub.sealed(t, bob, q, n)); err == nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func or(a, b []byte) []byte {
	if a != nil {
		return a
	}
	return b
}

func change(t *testing.T, data []byte, f func(*member.SecretAnswer)) []byte {
	t.Helper()
	var a member.SecretAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	f(&a)
	out, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sealed returns an answer with a secret of the test's choice.
func (c *changing) sealed(t *testing.T, to *changing, q *member.SecretQuestion, n member.NextSecret) []byte {
	t.Helper()
	a, err := c.SealSecret(&member.Peer{ID: to.opts.Identity.ID()}, q, &n)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRotationTakenBack checks that members drop a secret that a hub takes back, and that a node
// that uses it already is sent back. A member does not take a secret that its administrator has
// rejected.
func TestRotationTakenBack(t *testing.T) {
	hub, bob, late := newChanging(t, member.Hub, nil), newChanging(t, member.Join, nil), newChanging(t, member.Join, nil)
	befriend(t, hub.Mesh, bob.Mesh, late.Mesh)
	if _, err := hub.Rotate(member.NewRotation{After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	void := hub.Pending().To()
	mustTake(t, bob, hub)
	mustTake(t, late, hub)
	if _, err := hub.CancelRotation(); err != nil {
		t.Fatal(err)
	}
	mustTake(t, bob, hub)
	if _, ok := bob.Rotation(); ok {
		t.Error("a member keeps what the hub has taken back")
	}
	late.again(t, void, enginetest.Secret)
	mustTake(t, late, hub)
	if r := late.Pending(); r == nil || r.To() != enginetest.Secret {
		t.Errorf("who uses it is told %+v", r)
	}
	if _, err := hub.Rotate(member.NewRotation{After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	mustTake(t, bob, hub)
	if _, err := bob.CancelRotation(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		mustTake(t, bob, hub)
		if _, ok := bob.Rotation(); ok {
			t.Error("taken though its administrator does not want it")
		}
		bob.again(t, enginetest.Secret)
	}
	own := hub.Pending().To()
	if _, err := bob.Rotate(member.NewRotation{Secret: &own}); err != nil {
		t.Errorf("wanted after all: %v", err)
	}
	if r := bob.Pending(); r == nil || len(r.Void) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestEvictedBeforeRotation checks that a peer evicted while a secret is to come does not know the
// secret that is used then, and that an evicted hub does not determine it.
func TestEvictedBeforeRotation(t *testing.T) {
	hub, bob, eve := newChanging(t, member.Hub, nil), newChanging(t, member.Join, nil), newChanging(t, member.Join, nil)
	befriend(t, hub.Mesh, bob.Mesh, eve.Mesh)
	if _, err := hub.Rotate(member.NewRotation{After: time.Second}); err != nil {
		t.Fatal(err)
	}
	mustTake(t, bob, hub)
	if err := hub.EvictPeer(t.Context(), eve.opts.Identity.ID()); err != nil {
		t.Fatal(err)
	}
	if hub.Pending().To() != bob.Pending().To() {
		t.Error("another secret though the evicted peer had none")
	}
	if err := eve.asks(hub, nil); err == nil {
		t.Error("an evicted peer is told the secret")
	}
	befriend(t, hub.Mesh, newChanging(t, member.Join, nil).Mesh)
	eve = newChanging(t, member.Join, nil)
	befriend(t, hub.Mesh, eve.Mesh)
	mustTake(t, eve, hub)
	if err := hub.EvictPeer(t.Context(), eve.opts.Identity.ID()); err != nil {
		t.Fatal(err)
	}
	r := hub.Pending()
	if r == nil || r.To() == eve.Pending().To() || len(r.Fetched) != 0 ||
		r.At.Sub(hub.now) < 2*member.SecretBeats*hub.opts.Heartbeat {
		t.Fatalf("after the eviction of a peer that was told: %+v", r)
	}
	mustTake(t, bob, hub)
	if bob.Pending().To() != r.To() || bob.log.Has("two hubs") {
		t.Error("the others do not follow")
	}
	// A member that was away then uses the void one, and comes back.
	late := newChanging(t, member.Join, nil)
	befriend(t, hub.Mesh, late.Mesh)
	late.again(t, eve.Pending().To(), enginetest.Secret)
	mustTake(t, late, hub)
	if got := late.Pending(); got == nil || got.To() != enginetest.Secret {
		t.Errorf("%+v", got)
	}

	if err := bob.EvictPeer(t.Context(), hub.opts.Identity.ID()); err != nil {
		t.Fatal(err)
	}
	if _, ok := bob.Rotation(); ok {
		t.Error("what an evicted hub announced is still to come")
	}
	given := filter.Secret{8}
	by := newChanging(t, member.Hub, nil)
	befriend(t, by.Mesh, late.Mesh)
	if _, err := by.Rotate(member.NewRotation{Secret: &given, After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	late.again(t, enginetest.Secret)
	mustTake(t, late, by)
	if err := by.EvictPeer(t.Context(), late.opts.Identity.ID()); err != nil || by.Pending().To() != given ||
		!by.log.Has("given by hand") {
		t.Errorf("by hand: %v", err)
	}
}

// TestTwoAnnouncements checks that all members take the same one of two hubs' announcements.
func TestTwoAnnouncements(t *testing.T) {
	one, two := newChanging(t, member.Hub, nil), newChanging(t, member.Hub, nil)
	var members []*changing
	for range 2 {
		m := newChanging(t, member.Join, nil)
		befriend(t, one.Mesh, m.Mesh)
		befriend(t, two.Mesh, m.Mesh)
		members = append(members, m)
	}
	for _, after := range [][2]time.Duration{{time.Hour, time.Hour + time.Second}, {time.Hour, 2 * time.Hour},
		{3 * time.Hour, time.Hour}} {
		for i, hub := range []*changing{one, two} {
			if _, err := hub.Rotate(member.NewRotation{After: after[i]}); err != nil {
				t.Fatal(err)
			}
		}
		want := one.Pending().To()
		if b := two.Pending().To(); after[0] > after[1] || after[1] == time.Hour+time.Second && b.ID() < want.ID() {
			want = b
		}
		for range 2 {
			for i, m := range members {
				for j := range 2 {
					mustTake(t, m, []*changing{one, two}[(i+j)%2])
				}
				if m.Pending().To() != want || !m.log.Has("two hubs have announced") {
					t.Fatalf("after %v: member %d has %v, want %v", after, i, m.Pending(), want[:4])
				}
			}
		}
		for _, hub := range []*changing{one, two} {
			if _, err := hub.CancelRotation(); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range members {
			mustTake(t, m, one)
			mustTake(t, m, two)
			if _, ok := m.Rotation(); ok {
				t.Fatal("a change is left")
			}
		}
	}
}

// TestHasten checks that a node whose peer uses the announced secret uses it as well, and that a
// late node is not taken at once for a node of another network.
func TestHasten(t *testing.T) {
	hub, bob := newChanging(t, member.Hub, nil), newChanging(t, member.Join, nil)
	befriend(t, hub.Mesh, bob.Mesh)
	if _, err := hub.Rotate(member.NewRotation{After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	mustTake(t, bob, hub)
	to := hub.Pending().To()
	head := func(by *changing, secret filter.Secret) wire.Arrival {
		g := meshtest.Cells // of the former secret, which is the present one here
		m := &wire.Message{Kind: wire.KindHead, KeyID: secret.ID(),
			Heads: []wire.ArrayHead{{Ref: wire.Ref{Array: "counts", Start: 7}, Version: 3, Geometry: g,
				Lineage: wire.Lineage{{Boot: 5, Base: 0}}}}}
		m.Stamp = wire.Stamp{Incarnation: 5, Boot: 5, Seq: 1, At: uint64(by.now.UnixMilli())}
		return wire.Arrival{Topic: wire.Topic{Kind: wire.KindHead, Origin: by.key().Hint()},
			Network: member.NetworkOf(secret),
			Data:    wire.AppendMessage(nil, m, by.opts.Identity)}
	}
	bob.replicas.Deliver(t.Context(), nil, head(hub, to), false)
	if r := bob.Pending(); r == nil || !r.At.Equal(bob.now) || bob.log.Has("level=ERROR") {
		t.Errorf("a peer uses the secret: %+v", r)
	}
	select {
	case <-bob.Hurry:
	default:
		t.Error("nobody is told to hurry")
	}
	bob.replicas.Deliver(t.Context(), nil, head(hub, filter.Secret{66}), false)
	if !bob.log.Has("another network secret") {
		t.Error("a head of another network is not told of")
	}
	hub.again(t, to, enginetest.Secret)
	late := head(bob, enginetest.Secret)
	hub.replicas.Deliver(t.Context(), nil, late, false)
	if hub.log.Has("level=ERROR") {
		t.Error("a peer that is about to change is told of")
	}
	hub.Secrets.Began = time.Now().Add(-time.Hour)
	hub.replicas.Deliver(t.Context(), nil, late, false)
	if !hub.log.Has("still has a former secret of the network") {
		t.Error("a peer that does not change is not told of")
	}
}

// TestKeep checks that a node drops arrays made with a secret that it never had.
func TestKeep(t *testing.T) {
	other := meshtest.Cells
	other.KeyID++
	known := func(id uint64) bool { return id == meshtest.Cells.KeyID }
	for i, tt := range []struct {
		m      wire.Message
		heads  int
		rounds int
		keep   bool
	}{
		{wire.Message{Kind: wire.KindHead}, 0, 0, true},
		{wire.Message{Kind: wire.KindHead, Heads: []wire.ArrayHead{{Geometry: meshtest.Cells}, {Geometry: other}}}, 1, 0,
			true},
		{wire.Message{Kind: wire.KindHead, Heads: []wire.ArrayHead{{Geometry: other}}}, 0, 0, true},
		{wire.Message{Kind: wire.KindAsk}, 0, 0, true},
		{wire.Message{Kind: wire.KindDelta, Rounds: []wire.Round{{Announce: true, Geometry: other}, {}}}, 0, 1, true},
		{wire.Message{Kind: wire.KindDelta, Rounds: []wire.Round{{Announce: true, Geometry: other}}}, 0, 0, false},
		{wire.Message{Kind: wire.KindDelta, Rounds: []wire.Round{{Announce: true, Geometry: meshtest.Cells}}}, 0, 1, true},
		{wire.Message{Kind: wire.KindImage, Image: wire.Image{Geometry: other}}, 0, 0, false},
		{wire.Message{Kind: wire.KindImage, Image: wire.Image{Geometry: meshtest.Cells}}, 0, 0, true},
	} {
		if got := tt.m.KeepKnown(known); got != tt.keep || len(tt.m.Heads) != tt.heads || len(tt.m.Rounds) != tt.rounds {
			t.Errorf("%d: %v, %d heads, %d rounds", i, got, len(tt.m.Heads), len(tt.m.Rounds))
		}
	}
}

// TestRotationFile checks that an invalid file is reported, and that one of another network is not
// used.
func TestRotationFile(t *testing.T) {
	for text, want := range map[string]string{
		`{"from":"x","secret":"AAAA"}`: "remove it",
		`{"from":"x","void":["AAAA"]}`: "remove it",
		`nonsense`:                     "rotation.json",
		`{"from":"0000000000000000"}`:  "",
	} {
		c := newChanging(t, member.Hub, nil)
		if err := os.WriteFile(filepath.Join(c.opts.Dir, member.RotationFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := prepare(t.Context(), *c.opts)
		if want == "" && (err != nil || m.LastRotation() != nil) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzAnswerSecret checks that only a node that has signed the question, and has the former secret,
// gets an answer.
func FuzzAnswerSecret(f *testing.F) {
	_, id := meshtest.Folder(f)
	_, joiner := meshtest.Folder(f)
	hub := &member.Secrets{Opts: &member.Options{Identity: id, Secret: enginetest.Secret, KeyID: enginetest.Secret.ID(),
		Now: time.Now}}
	to := filter.Secret{9}
	hub.Announcement = &member.Rotation{From: member.NetworkOf(enginetest.Secret), Secret: to[:], At: time.Unix(2e9, 0),
		By:   id.ID(),
		Void: [][]byte{make([]byte, 16)}}
	bob := &member.Secrets{Opts: &member.Options{Identity: joiner, Secret: enginetest.Secret,
		KeyID: enginetest.Secret.ID()}}
	q, _, err := bob.AskAfter(id.Public())
	if err != nil {
		f.Fatal(err)
	}
	good, _ := json.Marshal(q)
	p := &member.Peer{ID: joiner.ID(), Key: joiner.Public()}
	if a, secret, err := hub.MakeAnswer(p, good); err != nil || len(a.Box) == 0 || secret != to {
		f.Fatalf("%+v, %v", a, err)
	}
	f.Add(good)
	f.Add([]byte(`{"network":"` + member.NetworkOf(filter.Secret{}) + `","exchange":"AAAA","signature":""}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, _, err := hub.MakeAnswer(p, data)
		if (a == nil) == (err == nil) {
			t.Fatalf("%+v, %v: want an answer or an error", a, err)
		}
		if err != nil || len(a.Box) == 0 {
			return
		}
		var got member.SecretQuestion
		if json.Unmarshal(data, &got) != nil || got.Network != q.Network || !slices.Equal(got.Exchange, q.Exchange) {
			t.Fatalf("told for %q", data)
		}
	})
}

// FuzzOpenSecret checks that only a secret that the hub has sealed for this question opens.
func FuzzOpenSecret(f *testing.F) {
	_, id := meshtest.Folder(f)
	_, joiner := meshtest.Folder(f)
	hub := &member.Secrets{Opts: &member.Options{Identity: id, Secret: enginetest.Secret, KeyID: enginetest.Secret.ID(),
		Now: time.Now}}
	to := filter.Secret{9}
	hub.Announcement = &member.Rotation{From: member.NetworkOf(enginetest.Secret), Secret: to[:],
		At: time.Now().Add(time.Hour), By: id.ID()}
	bob := &member.Secrets{Opts: &member.Options{Identity: joiner, Secret: enginetest.Secret,
		KeyID: enginetest.Secret.ID()}}
	q, private, err := bob.AskAfter(id.Public())
	if err != nil {
		f.Fatal(err)
	}
	question, _ := json.Marshal(q)
	a, _, err := hub.MakeAnswer(&member.Peer{ID: joiner.ID(), Key: joiner.Public()}, question)
	if err != nil {
		f.Fatal(err)
	}
	good, _ := json.Marshal(a)
	if n, err := bob.OpenSecret(id.Public(), q, private, good); err != nil || n == nil || filter.Secret(n.Secret) != to {
		f.Fatalf("%+v, %v", n, err)
	}
	f.Add(good)
	f.Add([]byte(`{"signature":"AAAA"}`))
	f.Add([]byte(`{"exchange":"AAAA","box":"AAAA"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := bob.OpenSecret(id.Public(), q, private, data); err == nil && (n == nil ||
			filter.Secret(n.Secret) != to) {
			t.Errorf("%+v", n)
		}
	})
}
