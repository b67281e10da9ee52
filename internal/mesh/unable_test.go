package mesh

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
)

// TestUnable checks that a hub announces no secret that a member cannot take, unless its
// administrator insists, and that the reason reaches it through an aggregator.
func TestUnable(t *testing.T) {
	var refusal error
	unable := func(o *member.Options) { o.MayRekey = func() error { return refusal } }
	hub, bob, sum := newChanging(t, member.Hub, nil), newChanging(t, member.Join, unable), newChanging(t, member.Join, nil)
	inner, carol := newChanging(t, member.Hub, nil), newChanging(t, member.Join, unable)
	sum.opts.Taker = inner.Mesh
	befriend(t, hub.Mesh, bob.Mesh, sum.Mesh)
	befriend(t, inner.Mesh, carol.Mesh)
	asked := func() {
		t.Helper()
		mustTake(t, carol, inner)
		mustTake(t, bob, hub)
		mustTake(t, sum, hub)
	}
	asked()
	if who := hub.Unable(); len(who) != 0 {
		t.Fatalf("all can take it: %q", who)
	}
	refusal = errors.New("eight secrets\x1b[2J at once")
	asked()
	who := hub.Unable()
	if len(who) != 2 || !strings.Contains(who[0], "eight secrets?[2J at once") ||
		!strings.Contains(who[1], "eight secrets") {
		t.Fatalf("unable: %q", who)
	}
	if _, err := hub.Rotate(member.NewRotation{}); !errors.Is(err, bulkhead.ErrForbidden) ||
		!strings.Contains(err.Error(), "2 members cannot take") || hub.Pending() != nil {
		t.Errorf("announced for members that cannot take it: %v", err)
	}
	if s, err := hub.Rotate(member.NewRotation{Anyway: true, After: time.Hour}); err != nil || len(s.Unable) != 2 {
		t.Errorf("the administrator insists: %+v, %v", s, err)
	}
	if _, err := hub.CancelRotation(); err != nil {
		t.Fatal(err)
	}
	refusal = nil
	asked()
	if who := hub.Unable(); len(who) != 0 {
		t.Errorf("all can take it again: %q", who)
	}
	if _, err := hub.Rotate(member.NewRotation{}); err != nil {
		t.Error(err)
	}
}

// TestUnableForged checks that only a member itself can say that it is unable, and for one question.
func TestUnableForged(t *testing.T) {
	hub, bob := newChanging(t, member.Hub, nil), newChanging(t, member.Join, func(o *member.Options) {
		o.MayRekey = func() error { return errors.New("full") }
	})
	befriend(t, hub.Mesh, bob.Mesh)
	first, _, err := bob.AskAfter(hub.key())
	if err != nil {
		t.Fatal(err)
	}
	for name, forge := range map[string]func(q *member.SecretQuestion){
		"another reason":        func(q *member.SecretQuestion) { q.Unable = "because" },
		"no signature":          func(q *member.SecretQuestion) { q.Vouched = nil },
		"of an earlier one":     func(q *member.SecretQuestion) { q.Vouched = first.Vouched },
		"a reason without end":  func(q *member.SecretQuestion) { q.Unable = strings.Repeat("x", 1000) },
		"a signature elsewhere": func(q *member.SecretQuestion) { q.Vouched = q.Signature },
	} {
		q, _, err := bob.AskAfter(hub.key())
		if err != nil {
			t.Fatal(err)
		}
		forge(q)
		data, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		hub.ServeSecret(bob.key().Hint(), data)
		if who := hub.Unable(); len(who) != 0 {
			t.Errorf("%s: %q", name, who)
		}
	}
}

// TestChain checks that a hub that holds nothing under its former secrets still sends them, one after
// the other, to a member that was away at five changes.
func TestChain(t *testing.T) {
	hub, away := newChanging(t, member.Hub, nil), newChanging(t, member.Join, nil)
	befriend(t, hub.Mesh, away.Mesh)
	var all []filter.Secret
	for range 5 {
		if _, err := hub.Rotate(member.NewRotation{}); err != nil {
			t.Fatal(err)
		}
		next := hub.Pending().To()
		all = append(all, next)
		hub.again(t, next) // without a former secret: nothing was counted
	}
	for i, want := range all {
		mustTake(t, away, hub)
		if r := away.Pending(); r == nil || r.To() != want {
			t.Fatalf("change %d: %+v, want %v", i, r, want)
		}
		away.again(t, want)
	}
	mustTake(t, away, hub)
	if r, ok := away.Rotation(); !ok || !r.Done {
		t.Errorf("%+v", r)
	}
	if !away.FormerNetwork(member.NetworkOf(enginetest.Secret)) || away.FormerNetwork(away.NetworkName()) {
		t.Error("the member does not know which networks were before")
	}
	hub.now = hub.now.Add(200 * 24 * time.Hour)
	if _, err := hub.Rotate(member.NewRotation{}); err != nil {
		t.Fatal(err)
	}
	if hub.FormerNetwork(member.NetworkOf(enginetest.Secret)) {
		t.Error("a secret of half a year ago is kept")
	}
}
