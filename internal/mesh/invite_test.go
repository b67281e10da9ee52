package mesh

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
)

// inviter returns a hub whose broker does not run.
func inviter(t *testing.T, change func(*Options)) *Mesh {
	t.Helper()
	return closed(t, func(o *Options) {
		o.Mode, o.Listen, o.Secret = Hub, "127.0.0.1:0", enginetest.Secret
		if change != nil {
			change(o)
		}
	})
}

// TestInviteBounds checks the bounds of an invitation's values. An invitation outlives the process,
// and is dropped when the node leaves the network.
func TestInviteBounds(t *testing.T) {
	m := inviter(t, nil)
	hubs := []string{"hub.example:4222"}
	for _, tt := range []struct {
		n    NewInvitation
		uses int
		life time.Duration // 0: it is refused
	}{
		{NewInvitation{}, 1, 48 * time.Hour}, {NewInvitation{Uses: -1}, 1, 48 * time.Hour},
		{NewInvitation{Uses: maxPeers}, maxPeers, 48 * time.Hour}, {NewInvitation{Uses: maxPeers + 1}, 0, 0},
		{NewInvitation{Lifetime: time.Minute}, 1, time.Minute}, {NewInvitation{Lifetime: time.Minute - 1}, 0, 0},
		{NewInvitation{Lifetime: maxLifetime}, 1, maxLifetime}, {NewInvitation{Lifetime: maxLifetime + 1}, 0, 0},
		{NewInvitation{Weight: 1}, 1, 48 * time.Hour}, {NewInvitation{Weight: 1.1}, 0, 0}, {NewInvitation{Name: "a\n"}, 0, 0},
	} {
		tt.n.Hubs = hubs
		before := time.Now()
		line, s, err := m.Invite(tt.n)
		if tt.life == 0 {
			if !errors.Is(err, bulkhead.ErrMalformed) || line != "" {
				t.Errorf("%+v: %q, %v", tt.n, line, err)
			}
			continue
		}
		v, bad := ParseInvitation(line)
		if err != nil || bad != nil || s.Uses != tt.uses || s.Weight != tt.n.Weight || s.ID != v.id() ||
			!v.Expires.Equal(s.Expires) ||
			s.Expires.Before(before.Add(tt.life-2*time.Second)) || s.Expires.After(time.Now().Add(tt.life)) {
			t.Errorf("%+v: %+v, %v, %v", tt.n, s, err, bad)
		}
	}
	if _, _, err := m.Invite(NewInvitation{}); err == nil {
		t.Error("an invitation to no hub")
	}
	for name, change := range map[string]func(*Options){"no hub": func(o *Options) {
		o.Mode, o.Servers = Join,
			[]string{"hub.example:4222"}
	}, "another secret": func(o *Options) { o.Secret[0]++ }} {
		if _, _, err := inviter(t, change).Invite(NewInvitation{Hubs: hubs}); !errors.Is(err, bulkhead.ErrForbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	made := m.Invitations()
	if err := m.Withdraw("none"); !errors.Is(err, bulkhead.ErrMalformed) || len(m.Invitations()) != len(made) {
		t.Errorf("withdrawn, what is none: %v", err)
	}
	if err := m.Withdraw(made[1].ID); err != nil {
		t.Fatal(err)
	}
	reopened := func() []InvitationStatus {
		t.Helper()
		again, err := prepare(t.Context(), *m.opts)
		if err != nil {
			t.Fatal(err)
		}
		return again.Invitations()
	}
	if got := reopened(); len(got) != len(made)-1 || got[0].ID != made[0].ID || got[1].ID != made[2].ID ||
		!got[0].Expires.Equal(made[0].Expires) {
		t.Errorf("after a restart: %+v, want %+v without the second", got, made)
	}
	file := filepath.Join(m.opts.Dir, invitationsFile)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []*invite
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	list[0].Secret = list[0].Secret[1:]
	if err := os.WriteFile(file, encoded(t, append(list, nil)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := reopened(); len(got) != len(made)-2 || got[0].ID != made[2].ID {
		t.Errorf("of damaged ones: %+v", got)
	}
	for len(m.Invitations()) < maxInvitations {
		m.Pairing.list = append(m.Pairing.list, &invite{ID: "x", Secret: make([]byte, secretBytes)})
	}
	if _, _, err := m.Invite(NewInvitation{Hubs: hubs}); !errors.Is(err, bulkhead.ErrOverLimit) ||
		len(m.Invitations()) != maxInvitations {
		t.Errorf("one more than there may be: %v, %d", err, len(m.Invitations()))
	}
	m.Pairing.list = m.Pairing.list[:maxInvitations-1]
	if _, _, err := m.Invite(NewInvitation{Hubs: hubs}); err != nil {
		t.Errorf("the last one: %v", err)
	}
	for range 2 { // the second time there is none
		if err := ForgetInvitations(m.opts.Dir); err != nil {
			t.Fatal(err)
		}
		if got := reopened(); got != nil {
			t.Errorf("after it has left: %+v", got)
		}
	}
	if err := os.MkdirAll(filepath.Join(file, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	n := len(m.Invitations())
	m.Pairing.list = m.Pairing.list[:n-1]
	if _, _, err := m.Invite(NewInvitation{Hubs: hubs}); err == nil || len(m.Invitations()) != n-1 {
		t.Errorf("an invitation that is not on disk: %v, %d", err, len(m.Invitations()))
	}
	if err := ForgetInvitations(m.opts.Dir); err == nil {
		t.Error("what cannot be removed is forgotten")
	}
	if _, err := prepare(t.Context(), *m.opts); err == nil {
		t.Error("a folder is a list of invitations")
	}
}

// TestDecideBounds checks the bounds of joining with an invitation, to the last second and node.
func TestDecideBounds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m := inviter(t, func(o *Options) { o.Now = func() time.Time { return now } })
	joiners := func(n int, state string) (list []Joiner) {
		for range n {
			list = append(list, Joiner{Key: mustIdentity(t).ID(), State: state, At: now})
		}
		return list
	}
	key := mustIdentity(t).ID()
	for name, tt := range map[string]struct {
		v    invite
		key  string
		off  time.Duration // error of its clock
		want string
	}{
		"in order":             {invite{Uses: 1, Expires: now}, key, 0, ""},
		"a second late":        {invite{Uses: 1, Expires: now.Add(-time.Second)}, key, 0, "expired"},
		"clocks apart":         {invite{Uses: 1, Expires: now}, key, maxClocksApart, ""},
		"clocks apart, ahead":  {invite{Uses: 1, Expires: now}, key, maxClocksApart + time.Second, "clocks are"},
		"clocks apart, behind": {invite{Uses: 1, Expires: now}, key, -maxClocksApart - time.Second, "clocks are"},
		"the node's own":       {invite{Uses: 1, Expires: now}, m.opts.Identity.ID(), 0, "own"},
		"used":                 {invite{Uses: 2, Expires: now, Joiners: joiners(2, pairAccepted)}, key, 0, "used already"},
		"nearly used":          {invite{Uses: 2, Expires: now, Joiners: joiners(1, pairAccepted)}, key, 0, ""},
		"shown by many":        {invite{Uses: 2, Expires: now, Joiners: joiners(11, pairWaiting)}, key, 0, ""},
		"shown by too many":    {invite{Uses: 2, Expires: now, Joiners: joiners(12, pairWaiting)}, key, 0, "too many"},
		"refused before": {invite{Uses: 2, Expires: now, Joiners: []Joiner{{Key: key, State: pairRefused}}}, key, 0,
			"has refused"},
		"waits already": {invite{Uses: 1, Expires: now, Joiners: []Joiner{{Key: key, State: pairWaiting}}}, key, 0,
			""},
		"gone since": {invite{Uses: 1, Expires: now, Joiners: []Joiner{{Key: key, State: pairAccepted}}}, key, 0,
			"evicted"},
	} {
		v := tt.v
		before := len(v.Joiners)
		r := m.decide(t.Context(), &v, &pairRequest{Key: tt.key, Name: "x", Clock: now.Add(tt.off)})
		if tt.want != "" {
			if r.State != pairRefused || !strings.Contains(r.Why, tt.want) || r.Secret != nil || len(v.Joiners) != before {
				t.Errorf("%s: %+v, want %q", name, r, tt.want)
			}
			continue
		}
		if r.State != pairWaiting || r.Secret != nil || v.Joiners[len(v.Joiners)-1].Key != tt.key && name != "waits already" {
			t.Errorf("%s: %+v, %+v", name, r, v.Joiners)
		}
	}
	v := invite{Uses: 1, Expires: now, Accept: true, Weight: 0.5, Name: "bob"}
	if r := m.decide(t.Context(), &v, &pairRequest{Key: key, Name: "x", Clock: now}); r.State != pairAccepted ||
		string(r.Secret) != string(enginetest.Secret[:]) {
		t.Errorf("an invitation that accepts: %+v", r)
	}
	if p := m.Status().Peers; len(p) != 1 || p[0].ID != key || p[0].Name != "bob" || p[0].Weight != 0.5 {
		t.Errorf("%+v", p)
	}
}

// TestRequestsAreChecked checks that a request to join belongs to the key that it names, to this
// invitation, and to its secret.
func TestRequestsAreChecked(t *testing.T) {
	m := inviter(t, nil)
	line, _, err := m.Invite(NewInvitation{Hubs: []string{"hub.example:4222"}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := ParseInvitation(line)
	if err != nil {
		t.Fatal(err)
	}
	id := mustIdentity(t)
	good, _, err := sealRequest(v, id, "name", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(change func(*pairRequest)) []byte {
		q, _, err := openRequest(v.secret, v.id(), good)
		if err != nil {
			t.Fatal(err)
		}
		change(&q)
		return seal(pairKey(v.secret, nil, "request"), encoded(t, q), v.id())
	}
	other := v.secret
	other[0]++
	for name, tt := range map[string]struct {
		secret [secretBytes]byte
		id     string
		box    []byte
		ok     bool
	}{
		"in order":           {v.secret, v.id(), good, true},
		"another secret":     {other, v.id(), good, false},
		"another invitation": {v.secret, "x", good, false},
		"cut":                {v.secret, v.id(), good[:20], false},
		"nothing":            {v.secret, v.id(), nil, false},
		"too long":           {v.secret, v.id(), make([]byte, maxPair+1), false},
		"no request":         {v.secret, v.id(), seal(pairKey(v.secret, nil, "request"), []byte("{"), v.id()), false},
		"no key":             {v.secret, v.id(), sealed(func(q *pairRequest) { q.Key = "U" }), false},
		"another key":        {v.secret, v.id(), sealed(func(q *pairRequest) { q.Key = mustIdentity(t).ID() }), false},
		"another exchange":   {v.secret, v.id(), sealed(func(q *pairRequest) { q.Exchange[0]++ }), false},
		"a bad name":         {v.secret, v.id(), sealed(func(q *pairRequest) { q.Name = "a\n" }), false},
		"signed for another": {v.secret, v.id(), sealed(func(q *pairRequest) {
			q.Signature = id.Sign(pairText("x", q.Exchange))
		}), false},
		"another name is well": {v.secret, v.id(), sealed(func(q *pairRequest) { q.Name = "b" }), true},
	} {
		if _, key, err := openRequest(tt.secret, tt.id, tt.box); (err == nil) != tt.ok || tt.ok && key != id.Public() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWelcome checks that an added peer is greeted, and that its messages stored by brokers are
// read, unless this node counts no peers.
func TestWelcome(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		for _, role := range []Role{Both, Publish} {
			r := newRig(t, k, func(o *Options) { o.Role = role })
			from := r.peer.Hint()
			k.wipe()
			now := uint64(time.Now().UnixMilli())
			m := &wire.Message{Kind: wire.KindDelta, Stamp: wire.Stamp{Incarnation: now, Boot: now, Seq: 1, At: now}, From: from}
			k.deltas = append(k.deltas,
				storedMsg{time.Now(), wire.Topic{Kind: wire.KindDelta, Origin: from}, wire.AppendMessage(nil, m, r.peer)})
			for len(r.sender.hello) > 0 {
				<-r.sender.hello
			}
			r.receiver.welcome(t.Context(), from)
			r.receiver.done.Wait()
			x, taken := r.receiver.in.take()
			if want := role == Both; taken != want || taken && x.from != from || (len(r.sender.hello) == 1) != want {
				t.Errorf("%s: read %v, greeted %d times", role, taken, len(r.sender.hello))
			}
		}
	})
}
