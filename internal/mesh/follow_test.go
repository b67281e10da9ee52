package mesh

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestFollowGroup checks that a member asks its keeper's hub for the members of the group, makes
// them peers, and drops members that the keeper removes.
func TestFollowGroup(t *testing.T) {
	h := newHost(t)
	dir, self := meshtest.Folder(t)
	_, one := meshtest.Folder(t)
	_, two := meshtest.Folder(t)
	v := h.invite(t, member.NewInvitation{Accept: true, Uses: 3, Weight: 0.5, Group: "mail"})
	for _, id := range []*member.Identity{self, one} {
		if _, err := h.join(t, v, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := member.Befriend(dir, h.opts.Identity.ID(), "keeper", "mail", 0.75, time.Now()); err != nil {
		t.Fatal(err)
	}
	m, _ := start(t, quick(member.Options{Dir: dir, Identity: self, Engine: enginetest.Small(t, nil), Mode: member.Join,
		Servers: []string{h.address}}))
	listed := func(want ...*member.Identity) func() bool {
		return func() bool {
			var got []string
			for _, p := range m.Status().Peers {
				if p.ID != h.opts.Identity.ID() && p.Weight == 0.75 {
					got = append(got, p.ID)
				}
			}
			slices.Sort(got)
			var ids []string
			for _, id := range want {
				ids = append(ids, id.ID())
			}
			slices.Sort(ids)
			return slices.Equal(got, ids)
		}
	}
	enginetest.Eventually(t, time.Minute, "who is in the group is a peer", listed(one))
	if _, err := h.join(t, v, two); err != nil {
		t.Fatal(err)
	}
	enginetest.Eventually(t, time.Minute, "who comes later is, too", listed(one, two))
	if err := h.EvictPeer(t.Context(), one.ID()); err != nil {
		t.Fatal(err)
	}
	enginetest.Eventually(t, time.Minute, "who is struck off is dropped", listed(two))
	if p, ok := m.Find(h.opts.Identity.Hint()); !ok || !p.Keeper {
		t.Errorf("the keeper is %+v, %v", p, ok)
	}

	// A node that asks under its own name gets the answer at its own inbox alone.
	conn := connectAs(t, h.address, two, "")
	if msg, err := conn.Request(wire.GroupPrefix+two.Hint().String(), nil, 20*time.Second); err != nil {
		t.Error(err)
	} else {
		var l member.GroupList
		if err := json.Unmarshal(msg.Data, &l); err != nil || l.To != two.ID() || len(l.Members) != 1 ||
			l.Members[0].Key != self.ID() {
			t.Errorf("%+v, %v", l, err)
		}
	}
	own := connectAs(t, h.address, h.opts.Identity, "") // receives everything
	astray, err := own.SubscribeSync("bh.astray")
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, ask := range []*nats.Msg{
		{Subject: wire.GroupPrefix + two.Hint().String(), Reply: "bh.astray"},
		{Subject: wire.GroupPrefix + (wire.Hint{1}).String(), Reply: bus.Inbox(wire.Hint{1}) + ".x"},
		{Subject: "bh.group.x", Reply: "bh.astray"},
	} {
		if err := own.PublishMsg(ask); err != nil {
			t.Fatal(err)
		}
	}
	// A later answer shows that nothing is in flight.
	if _, err := conn.Request(wire.GroupPrefix+two.Hint().String(), nil, 20*time.Second); err != nil {
		t.Error(err)
	}
	if msg, err := astray.NextMsg(50 * time.Millisecond); err == nil {
		t.Errorf("an answer at another subject: %s", msg.Data)
	}
}

// TestStoredInABroker checks that a broker returns its stored messages, of all origins or one, from
// the start or a time, and ends when the handler wants no more.
func TestStoredInABroker(t *testing.T) {
	h := newHost(t)
	b := h.buses[0].(*bus.Client)
	one, two := wire.Hint{1}, wire.Hint{2}
	var half time.Time
	all := func(origin *wire.Hint, since time.Time, most int) (got []string) {
		t.Helper()
		err := b.StoredDeltas(t.Context(), origin, since, func(a wire.Arrival) bool {
			if a.Stored.IsZero() || a.Topic.Kind != wire.KindDelta || a.Network != "" {
				t.Errorf("handed over %+v", a)
			}
			if string(a.Data) == "2" {
				half = a.Stored
			}
			got = append(got, a.Topic.Origin.String()[:2]+string(a.Data))
			return len(got) < most
		})
		if err != nil {
			t.Error(err)
		}
		return got
	}
	if got := all(nil, time.Time{}, 99); got != nil {
		t.Errorf("an empty broker has stored %v", got)
	}
	subscriptions := b.Conn.NumSubscriptions()
	if err := h.AddMember(t.Context(), meshtest.Identity(t).ID(), "", "mail", false, 1); err != nil {
		t.Fatal(err)
	}
	if n := b.Conn.NumSubscriptions(); n != subscriptions || h.state.WasAdmitted((wire.Public{}).ID()) {
		t.Errorf("a keeper with its own broker has %d subscriptions more, and is admitted by nobody", n-subscriptions)
	}
	for i, from := range []wire.Hint{one, two, one, two, one} {
		if err := b.Publish(wire.Topic{Kind: wire.KindDelta, Origin: from}, []byte{byte('0' + i)}); err != nil {
			t.Fatal(err)
		}
		enginetest.Eventually(t, time.Minute, "it is stored", func() bool { return len(all(nil, time.Time{}, 99)) == i+1 })
	}
	if got := all(nil, time.Time{}, 99); !slices.Equal(got, []string{"010", "021", "012", "023", "014"}) {
		t.Errorf("stored %v", got)
	}
	if got := all(&one, time.Time{}, 99); !slices.Equal(got, []string{"010", "012", "014"}) {
		t.Errorf("of one origin %v", got)
	}
	if got := all(nil, time.Time{}, 2); len(got) != 2 {
		t.Errorf("%v, after no more was wanted", got)
	}
	if got := all(nil, half, 99); !slices.Equal(got, []string{"012", "023", "014"}) {
		t.Errorf("since %v: %v", half, got)
	}
	if got := all(nil, time.Now().Add(time.Hour), 99); got != nil {
		t.Errorf("of the future %v", got)
	}
	for i, key := range []string{"0-5-0", "0-5-1", "0-5-0"} {
		if err := b.Publish(wire.Topic{Kind: wire.KindImage, Origin: one, Key: key}, []byte{byte('0' + i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Publish(wire.Topic{Kind: wire.KindImage, Origin: two, Key: "0-5-0"}, []byte("x")); err != nil {
		t.Fatal(err)
	}
	var got []string
	enginetest.Eventually(t, time.Minute, "the newest of each image is stored", func() bool {
		got = nil
		if err := b.StoredImages(t.Context(), one,
			func(a wire.Arrival) bool { got = append(got, a.Topic.Key+" "+string(a.Data)); return true }); err != nil {
			t.Fatal(err)
		}
		return slices.Equal(got, []string{"0-5-1 1", "0-5-0 2"})
	})

	// Only subscribed images arrive, until the subscription ends.
	received := make(chan wire.Arrival, 9)
	stop, err := b.ListenImages(two, func(a wire.Arrival) { received <- a })
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	other := connectAs(t, h.address, h.opts.Identity, "") // a connection does not receive its own messages
	say := func(of wire.Hint, text string) {
		t.Helper()
		if err := other.Publish(b.Names.Subject(wire.Topic{Kind: wire.KindImage, Origin: of, Key: "0-5-0"}),
			[]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := other.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	say(one, "a")
	say(two, "b")
	if a := <-received; string(a.Data) != "b" || a.Topic.Origin != two || a.Topic.Key != "0-5-0" || !a.Stored.IsZero() {
		t.Errorf("heard %+v", a)
	}
	stop()
	if err := b.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	say(two, "c")
	if err := b.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(received) != 0 {
		t.Errorf("heard after the end: %s", (<-received).Data)
	}
	if s := b.Status(); !s.Connected || s.Error != "" || s.BytesIn == 0 || s.BytesOut == 0 || !b.Proves() {
		t.Errorf("%+v", s)
	}
}
