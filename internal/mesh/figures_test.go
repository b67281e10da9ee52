package mesh

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestLives checks that a process of the same store continues the incarnation with one more epoch.
// Another store, or a process that ended without notice while it was unsynced, begins another
// incarnation, which has no record of the past.
func TestLives(t *testing.T) {
	dir, id := meshtest.Folder(t)
	e := enginetest.Small(t, nil)
	reports := 0
	begin := func(store string, unsynced, ends bool) member.Record {
		t.Helper()
		for range 3 {
			enginetest.Report(t, e, reports, bulkhead.Spam, 1)
			reports++
		}
		m, err := prepare(t.Context(),
			member.Options{Dir: dir, Identity: id, Engine: e, KeyID: enginetest.Secret.ID(), Mode: member.Join, Store: store,
				Unsynced: unsynced})
		if err != nil {
			t.Fatal(err)
		}
		s := m.state.Record
		if ends {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, a := range e.Own() {
			l := s.LineageOf(wire.Ref{Array: a.Array, Start: a.Start})
			if last := l[len(l)-1]; last != (wire.Epoch{Boot: s.Boot, Base: a.Version}) {
				t.Errorf("%s found at version %d: the last epoch is %+v", a.Array, a.Version, last)
			}
		}
		return s
	}
	counts := wire.Ref{Array: engine.ArrayCounts, Start: e.Own()[0].Start}
	var before member.Record
	epochs := 0
	for n, tt := range []struct {
		store          string
		unsynced, ends bool
		same           bool // incarnation
	}{
		{"one", false, true, false}, {"one", false, true, true}, {"one", false, false, true}, {"one", false, true, true},
		{"two", false, true, false},
		{"two", true, true, true}, {"two", true, false, true}, {"two", true, true, false}, {"two", false, true, true},
		{"one", false, true, false},
	} {
		s := begin(tt.store, tt.unsynced, tt.ends)
		if same := s.Incarnation == before.Incarnation; same != tt.same || s.Incarnation < before.Incarnation ||
			!same && s.Incarnation <= before.Boot {
			t.Errorf("process %d: life %d, before it %d with boot %d; want the same: %v", n, s.Incarnation,
				before.Incarnation, before.Boot, tt.same)
		}
		if s.Boot <= before.Boot || s.Boot < s.Incarnation {
			t.Errorf("process %d: boot %d after %d, in life %d", n, s.Boot, before.Boot, s.Incarnation)
		}
		if epochs++; !tt.same {
			epochs = 1
		}
		if got := len(s.LineageOf(counts)); got != epochs {
			t.Errorf("process %d: %d epochs, want %d", n, got, epochs)
		}
		before = s
	}
}

// TestFigures checks that the list of peers has the numbers of each peer's messages, and its name.
func TestFigures(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		peer := newSite(t, k, func(o *member.Options) { o.Name = "post.example" })
		defer home.stop()
		defer peer.stop()
		trust(t, home, 1, peer)
		added := time.Now()
		settle()
		const reports = 40
		for n := range reports {
			enginetest.Report(t, peer.engine, n, bulkhead.Vote(n%2), 1)
			bubble.Advance(time.Second)
		}
		settle()
		var keys, memory, changes uint64
		for _, a := range peer.engine.Own() {
			keys, changes = keys+a.Keys, changes+a.Version
		}
		for _, a := range home.engine.Replica(peer.id.ID()) {
			memory += a.Bytes
		}
		got, out := home.peer(t, peer), peer.Status()
		if got.Name != "post.example" || got.Weight != 1 || got.Quarantine != "" || got.Error != "" ||
			len(got.Refusals) > 0 || got.Network != "" {
			t.Errorf("%+v", got)
		}
		if got.Keys != keys || got.Memory != memory || got.Merged != 0 || got.Incarnation != out.Incarnation ||
			got.Missing != 0 || got.Behind != 0 || got.Silent != 0 {
			t.Errorf("%+v; want %d keys, %d bytes, life %d and nothing missing", got, keys, memory, out.Incarnation)
		}
		if got.Ghost <= 0 || got.Ghost > 1e-4 {
			t.Errorf("a signature that nobody reported is shown with probability %v", got.Ghost)
		}
		if now := time.Now(); now.Sub(got.Heard) > 2*time.Minute || got.Heard.After(now) ||
			added.Sub(got.Added).Abs() > time.Second {
			t.Errorf("heard %v, added %v; now it is %v", got.Heard, got.Added, now)
		}
		if got.Lag < 0 || got.Lag > 5*time.Second {
			t.Errorf("%v behind", got.Lag)
		}
		// With a broker that loses nothing, every sent round was applied, and every message
		// arrived.
		if got.Applied != out.Rounds || out.Rounds == 0 || changes == 0 {
			t.Errorf("%d rounds applied, %d sent, %d changes", got.Applied, out.Rounds, changes)
		}
		if got.Messages == 0 || got.Messages > out.Published || got.Bytes == 0 || got.Bytes > out.Bytes ||
			got.Bytes < 64*got.Messages {
			t.Errorf("%d messages of %d bytes heard, %d of %d sent", got.Messages, got.Bytes, out.Published, out.Bytes)
		}
		if out.Dropped != 0 || len(home.Status().Strangers) > 0 {
			t.Errorf("%d messages dropped, strangers %v", out.Dropped, home.Status().Strangers)
		}
		if got.Asked > 1 { // when it was added
			t.Errorf("asked %d times", got.Asked)
		}
		if err := home.AddPeer(t.Context(), meshtest.Identity(t).ID(), "named", 0.5); err != nil {
			t.Fatal(err)
		}
		if err := home.EvictPeer(t.Context(), peer.id.ID()); err != nil {
			t.Fatal(err)
		}
		if list := home.Status().Peers; len(list) != 1 || list[0].Name != "named" || list[0].Weight != 0.5 {
			t.Errorf("%+v", list)
		}
	})
}

// TestNamesOfPeers checks that an administrator's name for a peer precedes the peer's own name, and
// that an unprintable name is ignored.
func TestNamesOfPeers(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1) // added as "forger"
		other := &forger{id: meshtest.Identity(t), at: f.at, bus: f.bus}
		if err := home.AddPeer(t.Context(), other.id.ID(), "", 1); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct{ notified, want string }{{"", ""}, {"post.example", "post.example"},
			{"a\nb", "post.example"}, {"mail.example", "mail.example"}} {
			for _, x := range []*forger{f, other} {
				x.say(t, home, &wire.Message{Kind: wire.KindHead, Name: tt.notified})
			}
			bubble.Advance(time.Second)
			if got := home.peerOf(t, f.id).Name; got != "forger" {
				t.Errorf("told %q: a peer with a name is called %q", tt.notified, got)
			}
			if got := home.peerOf(t, other.id).Name; got != tt.want {
				t.Errorf("told %q: a peer without is called %q, want %q", tt.notified, got, tt.want)
			}
		}
	})
}

// TestCheckPeer checks that names have up to 64 printable bytes, and that weights are from 0 to 1.
func TestCheckPeer(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "post.example": true, "two words": true, "ä": true, "~": true, strings.Repeat("x", 64): true,
		strings.Repeat("x", 65): false, "a\x00": false, "a\x1f": false, "a\x7f": false, "a\nb": false,
	} {
		if err := member.CheckPeer(name, 1); (err == nil) != ok || err != nil && !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for weight, ok := range map[float64]bool{0: true, 0.5: true, 1: true, -0.001: false, 1.001: false,
		math.NaN(): false, math.Inf(1): false} {
		if err := member.CheckPeer("", weight); (err == nil) != ok || err != nil && !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("weight %v: %v", weight, err)
		}
	}
}
