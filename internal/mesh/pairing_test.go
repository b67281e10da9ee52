package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A host is a hub that invites.
type host struct {
	*Mesh
	log     logtest.Log
	address string
	clock   atomic.Int64
}

// now is the hub's clock, which tests set.
func (h *host) now() time.Time { return time.Unix(0, h.clock.Load()) }

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{address: freePort(t)}
	h.clock.Store(time.Now().UnixNano())
	dir, id := meshtest.Folder(t)
	o := quick(member.Options{Dir: dir, Identity: id, KeyID: enginetest.Secret.ID(), Secret: enginetest.Secret,
		Mode: member.Hub, Listen: h.address,
		Name: "alice"})
	o.Engine, o.Log, o.Now = enginetest.Small(t, nil), h.log.Logger(), h.now
	var err error
	if h.Mesh, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, h.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// invite returns the invitation of a new line.
func (h *host) invite(t *testing.T, n member.NewInvitation) *member.Invitation {
	t.Helper()
	n.Hubs = []string{h.address}
	text, _, err := h.Invite(n)
	if err != nil {
		t.Fatal(err)
	}
	v, err := member.ParseInvitation(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (h *host) join(t *testing.T, v *member.Invitation, id *member.Identity) (member.Joined, error) {
	t.Helper()
	return JoinBy(t.Context(), v, id, "joiner", h.now)
}

// TestJoinBy checks that a node that presents an invitation gets the secret of the network when the
// inviter has accepted. It is then a peer with the name and weight of the invitation, and gets the
// secret again if it asks again. All others get the reason of the refusal, and so does the inviter.
func TestJoinBy(t *testing.T) {
	h := newHost(t)
	_, bob := meshtest.Folder(t)
	v := h.invite(t, member.NewInvitation{Name: "bob", Weight: 0.25})
	if v.NetworkName() != bus.NewNames(enginetest.Secret.ID()).Net || v.Name != "alice" {
		t.Errorf("%+v", v)
	}
	for range 2 {
		if j, err := h.join(t, v, bob); err != nil || !j.Waiting || j.Secret != (filter.Secret{}) || j.Name != "alice" {
			t.Fatalf("before anybody accepts: %+v, %v", j, err)
		}
	}
	list := h.Invitations()
	if len(list) != 1 || len(list[0].Joined) != 1 || list[0].Joined[0].Key != bob.ID() ||
		list[0].Joined[0].State != member.PairWaiting {
		t.Fatalf("%+v", list)
	}
	if !h.log.Has("wants to join") || len(h.Status().Peers) != 0 {
		t.Error("the inviter is not told, or has taken him already")
	}
	if err := h.Decide(t.Context(), bob.ID(), true); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if j, err := h.join(t, v, bob); err != nil || j.Waiting || j.Secret != enginetest.Secret {
			t.Fatalf("%+v, %v", j, err)
		}
	}
	if p := h.Status().Peers; len(p) != 1 || p[0].ID != bob.ID() || p[0].Name != "bob" || p[0].Weight != 0.25 {
		t.Errorf("%+v", p)
	}
	_, eve := meshtest.Folder(t)
	refused := func(what string, v *member.Invitation, id *member.Identity, want string) {
		t.Helper()
		j, err := h.join(t, v, id)
		if !errors.Is(err, bulkhead.ErrForbidden) || !strings.Contains(err.Error(), want) || j != (member.Joined{}) {
			t.Errorf("%s: %+v, %v; want %q", what, j, err, want)
		}
	}
	refused("used twice", v, eve, "used already, by "+bob.ID())
	if !h.log.Has("used already") {
		t.Error("the inviter does not hear of it")
	}
	wrong := *v
	wrong.Secret[0]++
	refused("another secret", &wrong, eve, "does not know the invitation")

	auto := h.invite(t, member.NewInvitation{Weight: 1, Accept: true, Uses: 2, Lifetime: time.Hour})
	for range 2 {
		_, id := meshtest.Folder(t)
		if j, err := h.join(t, auto, id); err != nil || j.Secret != enginetest.Secret {
			t.Fatalf("%+v, %v", j, err)
		}
	}
	refused("used three times", auto, eve, "used already")

	late := h.invite(t, member.NewInvitation{Accept: true, Lifetime: time.Hour})
	start := h.now()
	j, err := JoinBy(t.Context(), late, eve, "", func() time.Time { return start.Add(20 * time.Minute) })
	if !errors.Is(err, bulkhead.ErrForbidden) || !strings.Contains(err.Error(), "clocks are 20m0s apart") ||
		j != (member.Joined{}) || !h.log.Has("clocks are 20m0s apart") {
		t.Errorf("clocks apart: %+v, %v", j, err)
	}
	h.clock.Store(start.Add(2 * time.Hour).UnixNano())
	j, err = JoinBy(t.Context(), late, eve, "", func() time.Time { return start })
	if !errors.Is(err, bulkhead.ErrForbidden) || !strings.Contains(err.Error(), "expired at") || j != (member.Joined{}) ||
		!h.log.Has("expired at") {
		t.Errorf("expired there: %+v, %v", j, err)
	}
	refused("expired here", late, eve, "expired at")
	h.clock.Store(start.UnixNano())

	other := newHost(t)
	astray := h.invite(t, member.NewInvitation{})
	astray.Hubs = []string{other.address}
	if _, err := h.join(t, astray, eve); err == nil || !strings.Contains(err.Error(), "the invitation is from") {
		t.Errorf("the hub of another network: %v", err)
	}
	if err := h.Withdraw(astray.ID()); err != nil {
		t.Error(err)
	}
	astray.Hubs = []string{h.address}
	refused("withdrawn", astray, eve, "does not know the invitation")
	no := h.invite(t, member.NewInvitation{})
	if _, err := h.join(t, no, eve); err != nil {
		t.Error(err)
	}
	if err := h.Decide(t.Context(), eve.ID(), false); err != nil {
		t.Error(err)
	}
	refused("refused", no, eve, "has refused")
	if err := h.Decide(t.Context(), eve.ID(), true); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("accept who does not wait: %v", err)
	}
	// An evicted node does not come back with the same line.
	if err := h.EvictPeer(t.Context(), bob.ID()); err != nil {
		t.Error(err)
	}
	refused("evicted", v, bob, "evicted")
	for _, bad := range []member.NewInvitation{{Weight: 2}, {Uses: 5000}, {Lifetime: time.Second},
		{Name: strings.Repeat("x", 70)}} {
		bad.Hubs = []string{h.address}
		if text, _, err := h.Invite(bad); !errors.Is(err, bulkhead.ErrMalformed) || text != "" {
			t.Errorf("invitation %+v: %q, %v", bad, text, err)
		}
	}
}

// connectAs connects to a hub with a key and a token.
func connectAs(t *testing.T, address string, id *member.Identity, token string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect("tls://"+address, nats.Secure(&tls.Config{InsecureSkipVerify: true}), bus.SignIn(id, token),
		nats.CustomInboxPrefix(bus.Inbox(id.Hint())), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// TestInvitedHearNothing checks that a node with only an invitation may ask to join, and neither
// receive nor send any other message.
func TestInvitedHearNothing(t *testing.T) {
	h := newHost(t)
	v := h.invite(t, member.NewInvitation{})
	_, eve := meshtest.Folder(t)
	conn := connectAs(t, h.address, eve, bus.TokenInvitation+v.ID())
	for _, subject := range []string{bus.HeadsOfAll, "bh.pair.>", bus.Inbox(h.opts.Identity.Hint()) + ".>"} {
		sub, err := conn.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := sub.NextMsg(50 * time.Millisecond); err == nil {
			t.Errorf("%s is heard", subject)
		}
	}
	if !strings.Contains(conn.LastError().Error(), "ermissions") {
		t.Errorf("%v", conn.LastError())
	}
	before := h.Status().Strangers
	// A request in another node's name, and one with a reply address elsewhere.
	if err := conn.Publish(bus.PairSubject(v.ID(), h.opts.Identity.Hint()), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := conn.PublishRequest(bus.PairSubject(v.ID(), eve.Hint()), "bh.x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if msg, err := conn.Request(bus.PairSubject(v.ID(), eve.Hint()), []byte("nonsense"),
		time.Minute); err != nil || !strings.Contains(string(msg.Data), "sealed with another secret") {
		t.Errorf("nonsense: %v", err)
	}
	if n := h.Status().Strangers[member.ReasonInvitation] - before[member.ReasonInvitation]; n != 1 {
		t.Errorf("%d requests were heard, want the one that was in order", n)
	}
}
