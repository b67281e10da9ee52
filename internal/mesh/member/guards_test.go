package member

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
)

// TestStrangersLogged checks that each unknown key is logged once, and that keys without end fill neither the log nor
// the memory. All are counted.
func TestStrangersLogged(t *testing.T) {
	var log strings.Builder
	b, err := OpenBook(&Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const keys = maxStrangers + 10
	for range 2 {
		for i := range keys {
			var h wire.Hint
			binary.BigEndian.PutUint32(h[:], uint32(i))
			b.Refuse(h, ReasonStranger, "")
		}
	}
	if n := strings.Count(log.String(), "message refused"); n != maxStrangers || len(b.strangers) != maxStrangers {
		t.Errorf("%d lines, %d keys are remembered; want %d", n, len(b.strangers), maxStrangers)
	}
	if n := b.Strangers()[ReasonStranger]; n != 2*keys {
		t.Errorf("%d are counted, want %d", n, 2*keys)
	}
	for _, reason := range []string{ReasonForged, ReasonSubject} {
		log.Reset()
		for range 100 {
			b.Reject(reason, "")
		}
		if n := strings.Count(log.String(), "unknown sender refused"); n != 1 || b.Strangers()[reason] != 100 {
			t.Errorf("%s: %d lines, %d are counted; want the first of 100 logged", reason, n, b.Strangers()[reason])
		}
	}
}

// TestTwinsForget checks that of processes without end under one key, those that were heard last are remembered, and
// the newest one always is.
func TestTwinsForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Twins
		note := func(boot uint64) {
			bubble.Advance(time.Second)
			w.Note(wire.Stamp{Incarnation: 1, Boot: boot, Seq: uint64(time.Now().UnixMilli())}, time.Now(), 0, time.Hour)
		}
		note(1 << 40) // the newest, by a clock that was far ahead
		for boot := uint64(1); boot <= 3*maxProcesses; boot++ {
			note(boot)
			if boot == 2*maxProcesses { // heard again
				note(maxProcesses + 2)
			}
		}
		if len(w.seen) != maxProcesses || w.seen[1<<40] == nil || w.Newest.Boot != 1<<40 {
			t.Errorf("%d processes are remembered, want %d with the newest", len(w.seen), maxProcesses)
		}
		if w.seen[3*maxProcesses] == nil || w.seen[1] != nil || w.seen[2*maxProcesses+1] != nil {
			t.Errorf("other processes than those heard last are remembered: %v", w.seen)
		}
	})
}

// TestGroupLimit checks that a keeper's list has a bounded number of members, and that a longer one is refused, even if
// the keeper has signed it.
func TestGroupLimit(t *testing.T) {
	keeper, self := newIdentityOf(t), newIdentityOf(t)
	groups := func(id *Identity) *Groups {
		o := &Options{Dir: t.TempDir(), Identity: id, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		b, err := OpenBook(o, nil)
		if err != nil {
			t.Fatal(err)
		}
		return NewGroups(o, b)
	}
	at := groups(keeper)
	member := func(key wire.Public) {
		at.book.Members[key.Hint()] = &Entry{Peer: Peer{ID: key.ID(), Key: key, Group: "g"}, Stats: newStats()}
	}
	member(self.Public())
	for i := range MaxGroup + 5 {
		var key wire.Public
		binary.BigEndian.PutUint32(key[:], uint32(i+1))
		member(key)
	}
	l, err := groups(self).OpenGroup(&Peer{Key: keeper.Public(), Group: "g"}, at.ServeGroup(self.Hint(), nil))
	if err != nil || len(l.Members) != MaxGroup {
		t.Fatalf("%+v, %v; want %d members", l, err, MaxGroup)
	}
	l.Members = append(l.Members, Member{Key: newIdentityOf(t).ID()})
	text, err := l.Text()
	if err != nil {
		t.Fatal(err)
	}
	l.Signature = keeper.Sign(text)
	data, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := groups(self).OpenGroup(&Peer{Key: keeper.Public(), Group: "g"}, data); err == nil ||
		!strings.Contains(err.Error(), "limit") {
		t.Errorf("a list of %d members is taken: %v", len(l.Members), err)
	}
}

// TestTakeGroup checks which peers a keeper's list adds and drops: members that this node has evicted stay away, and
// neither the keeper nor peers of other groups are dropped. All that has changed is done at once.
func TestTakeGroup(t *testing.T) {
	var log strings.Builder
	o := &Options{Dir: t.TempDir(), Identity: newIdentityOf(t), Now: time.Now, Role: Publish, Engine: uncounted{},
		Log: slog.New(slog.NewTextHandler(&log, nil))}
	b, err := OpenBook(o, unwatched{})
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]string) // by name
	for _, name := range []string{"keeper", "stays", "gone 1", "gone 2", "new 1", "new 2", "evicted", "other", "friend"} {
		keys[name] = newIdentityOf(t).ID()
	}
	for name, group := range map[string]string{"stays": "g", "gone 1": "g", "gone 2": "g", "evicted": "g", "other": "h",
		"friend": ""} {
		if err := b.AddMember(t.Context(), keys[name], name, group, false, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.AddMember(t.Context(), keys["keeper"], "keeper", "g", true, 0.5); err != nil {
		t.Fatal(err)
	}
	if err := b.EvictPeer(t.Context(), keys["evicted"]); err != nil {
		t.Fatal(err)
	}
	l := &GroupList{Group: "g", Members: []Member{{Key: o.Identity.ID()}, {Key: keys["keeper"]}, {Key: keys["friend"]}}}
	for _, name := range []string{"new 1", "stays", "evicted", "new 2", "new 1"} {
		l.Members = append(l.Members, Member{Key: keys[name], Name: name})
	}
	key, err := wire.ParsePublic(keys["keeper"])
	if err != nil {
		t.Fatal(err)
	}
	keeper, _ := b.Find(key.Hint())
	for range 2 { // the second time, nothing is left to do
		if err := NewGroups(o, b).TakeGroup(t.Context(), &keeper, l); err != nil {
			t.Fatal(err)
		}
	}
	got := make(map[string]float64)
	for _, p := range b.List() {
		if keys[p.Name] != p.ID || (p.Group == "g") != (p.Name != "other" && p.Name != "friend") {
			t.Errorf("%+v", p)
		}
		got[p.Name] = p.Weight
	}
	want := map[string]float64{"keeper": 0.5, "stays": 1, "new 1": 0.5, "new 2": 0.5, "other": 1, "friend": 1}
	if !maps.Equal(got, want) {
		t.Errorf("peers %v, want %v", got, want)
	}
	for text, want := range map[string]int{"is a peer now": 2, "was expelled from the group": 2} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%q is logged %d times, want %d", text, n, want)
		}
	}
}

// TestHubsRemembered checks that a node remembers the hubs that admitted it last, and no more than it may.
func TestHubsRemembered(t *testing.T) {
	s, err := OpenState(&Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	admit := func(i int) {
		if err := s.Admit(fmt.Sprint("hub ", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxAdmitted {
		admit(i)
	}
	admit(0) // again
	if len(s.Admitted) != maxAdmitted || !s.WasAdmitted("hub 0") {
		t.Errorf("%d hubs are remembered, want %d", len(s.Admitted), maxAdmitted)
	}
	admit(maxAdmitted)
	if len(s.Admitted) != maxAdmitted || s.WasAdmitted("hub 0") || !s.WasAdmitted("hub 1") ||
		!s.WasAdmitted(fmt.Sprint("hub ", maxAdmitted)) {
		t.Errorf("with another one, %v are remembered", s.Admitted)
	}
	again, err := OpenState(&Options{Dir: s.opts.Dir})
	if err != nil || !again.WasAdmitted("hub 1") {
		t.Errorf("after a restart %v are remembered, %v", again.Admitted, err)
	}
}

// TestSecretsRemembered checks that a hub remembers the last secrets that were taken back, and a node the last former
// ones, until they are too old.
func TestSecretsRemembered(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	id := newIdentityOf(t)
	o := &Options{Dir: t.TempDir(), Identity: id, Now: func() time.Time { return now }, KeyID: enginetest.Secret.ID(),
		Secret: enginetest.Secret, Log: slog.New(slog.DiscardHandler)}
	b, err := OpenBook(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenSecrets(o, b)
	if err != nil {
		t.Fatal(err)
	}
	r := &Rotation{}
	for i := range maxVoid + 3 {
		r.Secret = []byte{byte(i)}
		r = c.withdrawn(r)
	}
	if len(r.Void) != maxVoid || r.Void[0][0] != 3 || r.Void[maxVoid-1][0] != maxVoid+2 {
		t.Errorf("%v are remembered as taken back", r.Void)
	}
	var past []PastSecret
	for i := range maxPast + 3 {
		secret := make([]byte, len(filter.Secret{}))
		secret[0] = byte(i)
		past = append(past, PastSecret{Secret: secret, Until: now})
	}
	if err := c.saveRotation(&Rotation{Secret: enginetest.Secret[:], At: now, Past: past}); err != nil {
		t.Fatal(err)
	}
	if got := c.past(now); len(got) != maxPast || got[0].Secret[0] != 4 {
		t.Errorf("%d former secrets are remembered, want %d: the last ones and the present one", len(got), maxPast)
	}
	now = now.Add(keptPast + time.Second)
	if got := c.past(now); len(got) != 1 {
		t.Errorf("%d former secrets are remembered after %v, want the present one", len(got), keptPast)
	}
}

// A keeperStub answers requests for the list of a group, except the first ones.
type keeperStub struct {
	Requester // nil: nothing else is asked
	answer    func() []byte
	fails     int
	at        []time.Time // of the requests
}

func (k *keeperStub) Request(context.Context, string, []byte) ([]byte, error) {
	if k.at = append(k.at, time.Now()); len(k.at) <= k.fails {
		return nil, errors.New("not connected")
	}
	return k.answer(), nil
}

// TestFollowGroups checks when a node asks the keeper of its group: every other heartbeat, and soon again after a
// failure. Many failures in a row are logged once.
func TestFollowGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper, self := newIdentityOf(t), newIdentityOf(t)
		var log strings.Builder
		o := &Options{Dir: t.TempDir(), Identity: self, Now: time.Now, Heartbeat: 30 * time.Second,
			Log: slog.New(slog.NewTextHandler(&log, nil))}
		b, err := OpenBook(o, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []Peer{{ID: keeper.ID(), Key: keeper.Public(), Group: "g", Keeper: true},
			{ID: "another", Key: wire.Public{1}, Keeper: true}, {ID: "third", Key: wire.Public{2}, Group: "h"}} {
			b.Members[p.Key.Hint()] = &Entry{Peer: p, Stats: newStats()}
		}
		hub := &keeperStub{fails: groupFails + 2, answer: func() []byte {
			l := GroupList{Group: "g", To: self.ID(), At: time.Now().UTC(), Members: []Member{}}
			text, err := l.Text()
			if err != nil {
				t.Error(err)
			}
			l.Signature = keeper.Sign(text)
			data, err := json.Marshal(l)
			if err != nil {
				t.Error(err)
			}
			return data
		}}
		g := NewGroups(o, b)
		g.UseHub(hub)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.FollowGroups(ctx)
		}()
		bubble.Advance(3 * time.Minute)
		cancel()
		<-done
		var want []time.Duration
		for n := range groupFails + 3 {
			want = append(want, time.Duration(n)*groupRetry)
		}
		for last := want[len(want)-1] + groupBeats*o.Heartbeat; last <= 3*time.Minute; last += groupBeats * o.Heartbeat {
			want = append(want, last)
		}
		var got []time.Duration
		for _, at := range hub.at {
			got = append(got, at.Sub(began))
		}
		if !slices.Equal(got, want) {
			t.Errorf("asked after %v, want %v", got, want)
		}
		if n := strings.Count(log.String(), "is not known at present"); n != 1 {
			t.Errorf("logged %d times, want once: %s", n, log.String())
		}
	})
}

// TestUnsavedJoiner checks that a full disk refuses a node that wants to join, and that the node may ask again.
func TestUnsavedJoiner(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	o := &Options{Dir: t.TempDir(), Identity: newIdentityOf(t), Now: func() time.Time { return now },
		Log: slog.New(slog.DiscardHandler)}
	g, err := OpenPairing(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &Invite{ID: "x", Secret: make([]byte, SecretBytes), Uses: 1, Expires: now.Add(time.Hour)}
	g.Invites = []*Invite{v}
	inTheWay := filepath.Join(o.Dir, InvitationsFile, "in the way")
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	q := &PairRequest{Key: newIdentityOf(t).ID(), Clock: now}
	if r := g.Answer(t.Context(), v, q); r.State != PairRefused || len(v.Joiners) != 0 {
		t.Errorf("on a full disk: %+v, joiners %v", r, v.Joiners)
	}
	if err := os.RemoveAll(filepath.Join(o.Dir, InvitationsFile)); err != nil {
		t.Fatal(err)
	}
	if r := g.Answer(t.Context(), v, q); r.State != PairWaiting || len(v.Joiners) != 1 {
		t.Errorf("later: %+v, joiners %v", r, v.Joiners)
	}
	if list, err := ReadInvitations(o.Dir); err != nil || len(list) != 1 || len(list[0].Joiners) != 1 {
		t.Errorf("on disk: %v, %v", list, err)
	}
}

// TestUsesOfInvitation checks that an invitation admits no more nodes than it may, although a node that could not be
// added before asks again after the last use.
func TestUsesOfInvitation(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	var log strings.Builder
	o := &Options{Dir: t.TempDir(), Identity: newIdentityOf(t), Now: func() time.Time { return now }, Role: Publish,
		Engine: uncounted{}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	b, err := OpenBook(o, unwatched{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := OpenPairing(o, b)
	if err != nil {
		t.Fatal(err)
	}
	v := &Invite{ID: "x", Secret: make([]byte, SecretBytes), Weight: 1, Uses: 1, Accept: true, Expires: now.Add(time.Hour)}
	g.Invites = []*Invite{v}
	early := &PairRequest{Key: newIdentityOf(t).ID(), Clock: now}
	v.Joiners = []Joiner{{Key: early.Key, At: now, State: PairWaiting}}
	q := &PairRequest{Key: newIdentityOf(t).ID(), Clock: now}
	if r := g.Answer(t.Context(), v, q); r.State != PairAccepted {
		t.Fatalf("the first use: %+v", r)
	}
	if r := g.Answer(t.Context(), v, early); r.State != PairRefused || len(b.List()) != 1 {
		t.Errorf("after the last use: %+v, %d peers", r, len(b.List()))
	}
	if r := g.Answer(t.Context(), v, q); r.State != PairAccepted {
		t.Errorf("a node that has joined asks again: %+v", r)
	}
	const wants = "a node wants to join"
	if strings.Contains(log.String(), wants) {
		t.Errorf("the administrator need not decide: %s", &log)
	}
	v.Accept, v.Uses = false, 2
	q.Key = newIdentityOf(t).ID()
	for range 2 {
		if r := g.Answer(t.Context(), v, q); r.State != PairWaiting {
			t.Errorf("a node to be accepted by hand: %+v", r)
		}
	}
	if n := strings.Count(log.String(), wants); n != 1 {
		t.Errorf("the administrator reads %d times that a node waits, want once: %s", n, &log)
	}
}

// TestInvitedPeer checks that a peer may join again by an invitation, which makes it a member of a group and changes
// nothing else.
func TestInvitedPeer(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	o := &Options{Dir: t.TempDir(), Identity: newIdentityOf(t), Now: func() time.Time { return now }, Role: Publish,
		Engine: uncounted{}, Log: slog.New(slog.DiscardHandler)}
	b, err := OpenBook(o, unwatched{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := OpenPairing(o, b)
	if err != nil {
		t.Fatal(err)
	}
	id := newIdentityOf(t)
	if err := b.AddPeer(t.Context(), id.ID(), "old name", 0.5); err != nil {
		t.Fatal(err)
	}
	v := &Invite{ID: "x", Name: "new name", Weight: 1, Uses: 1, Accept: true, Group: "g", Expires: now}
	g.Invites = []*Invite{v}
	if r := g.Answer(t.Context(), v, &PairRequest{Key: id.ID(), Clock: now}); r.State != PairAccepted {
		t.Errorf("%+v", r)
	}
	p, _ := b.Find(id.Hint())
	if p.Name != "old name" || p.Weight != 0.5 || p.Group != "g" || p.Keeper || len(b.List()) != 1 {
		t.Errorf("%+v, %d peers", p, len(b.List()))
	}
}

// uncounted is an engine that counts no origins.
type uncounted struct{ Engine }

func (uncounted) Origins() []engine.Origin { return nil }

// unwatched is a watcher of a book that is in no mesh.
type unwatched struct{}

func (unwatched) Added(wire.Hint)                     {}
func (unwatched) Dropped(string, wire.Hint) error     { return nil }
func (unwatched) Between(f func(ctx context.Context)) { f(context.Background()) }

// TestTwinSkew checks by how much a clock may be off for a head of an older process to be a sign of another server,
// where no stamp proves it.
func TestTwinSkew(t *testing.T) {
	for skew, want := range map[time.Duration]bool{twinSkew: true, twinSkew + time.Millisecond: false,
		-twinSkew: true, -twinSkew - time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			var w Twins
			head := func(boot uint64, at time.Time) bool {
				return w.Note(wire.Stamp{Incarnation: 1, Boot: boot, Seq: 1, At: uint64(at.UnixMilli())}, time.Now(), 0, time.Hour)
			}
			begun := time.Now().Add(24 * time.Hour) // of the newer process, by its clock: later than any stamp here
			if head(2, begun) {
				t.Fatal("the newest process is a sign")
			}
			bubble.Advance(time.Second)
			if got := head(1, time.Now().Add(-skew)); got != want {
				t.Errorf("a head %v old: a sign %v, want %v", skew, got, want)
			}
		})
	}
}
