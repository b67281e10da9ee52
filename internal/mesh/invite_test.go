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
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// inviter returns a hub whose broker does not run.
func inviter(t *testing.T, change func(*member.Options)) *Mesh {
	t.Helper()
	return closed(t, func(o *member.Options) {
		o.Mode, o.Listen, o.Secret = member.Hub, "127.0.0.1:0", enginetest.Secret
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
		n    member.NewInvitation
		uses int
		life time.Duration // 0: it is refused
	}{
		{member.NewInvitation{}, 1, 48 * time.Hour}, {member.NewInvitation{Uses: -1}, 1, 48 * time.Hour},
		{member.NewInvitation{Uses: member.MaxPeers}, member.MaxPeers,
			48 * time.Hour}, {member.NewInvitation{Uses: member.MaxPeers + 1}, 0, 0},
		{member.NewInvitation{Lifetime: time.Minute}, 1, time.Minute}, {member.NewInvitation{Lifetime: time.Minute - 1}, 0,
			0},
		{member.NewInvitation{Lifetime: member.MaxLifetime}, 1,
			member.MaxLifetime}, {member.NewInvitation{Lifetime: member.MaxLifetime + 1}, 0, 0},
		{member.NewInvitation{Weight: 1}, 1, 48 * time.Hour}, {member.NewInvitation{Weight: 1.1}, 0,
			0}, {member.NewInvitation{Name: "a\n"}, 0, 0},
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
		v, bad := member.ParseInvitation(line)
		if err != nil || bad != nil || s.Uses != tt.uses || s.Weight != tt.n.Weight || s.ID != v.ID() ||
			!v.Expires.Equal(s.Expires) ||
			s.Expires.Before(before.Add(tt.life-2*time.Second)) || s.Expires.After(time.Now().Add(tt.life)) {
			t.Errorf("%+v: %+v, %v, %v", tt.n, s, err, bad)
		}
	}
	if _, _, err := m.Invite(member.NewInvitation{}); err == nil {
		t.Error("an invitation to no hub")
	}
	for name, change := range map[string]func(*member.Options){"no hub": func(o *member.Options) {
		o.Mode, o.Servers = member.Join,
			[]string{"hub.example:4222"}
	}, "another secret": func(o *member.Options) { o.Secret[0]++ }} {
		if _, _, err := inviter(t, change).Invite(member.NewInvitation{Hubs: hubs}); !errors.Is(err, bulkhead.ErrForbidden) {
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
	reopened := func() []member.InvitationStatus {
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
	file := filepath.Join(m.opts.Dir, member.InvitationsFile)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []*member.Invite
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
	for len(m.Invitations()) < member.MaxInvitations {
		m.Pairing.Invites = append(m.Pairing.Invites, &member.Invite{ID: "x", Secret: make([]byte, member.SecretBytes)})
	}
	if _, _, err := m.Invite(member.NewInvitation{Hubs: hubs}); !errors.Is(err, bulkhead.ErrOverLimit) ||
		len(m.Invitations()) != member.MaxInvitations {
		t.Errorf("one more than there may be: %v, %d", err, len(m.Invitations()))
	}
	m.Pairing.Invites = m.Pairing.Invites[:member.MaxInvitations-1]
	if _, _, err := m.Invite(member.NewInvitation{Hubs: hubs}); err != nil {
		t.Errorf("the last one: %v", err)
	}
	for range 2 { // the second time there is none
		if err := member.ForgetInvitations(m.opts.Dir); err != nil {
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
	m.Pairing.Invites = m.Pairing.Invites[:n-1]
	if _, _, err := m.Invite(member.NewInvitation{Hubs: hubs}); err == nil || len(m.Invitations()) != n-1 {
		t.Errorf("an invitation that is not on disk: %v, %d", err, len(m.Invitations()))
	}
	if err := member.ForgetInvitations(m.opts.Dir); err == nil {
		t.Error("what cannot be removed is forgotten")
	}
	if _, err := prepare(t.Context(), *m.opts); err == nil {
		t.Error("a folder is a list of invitations")
	}
}

// TestDecideBounds checks the bounds of joining with an invitation, to the last second and node.
func TestDecideBounds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m := inviter(t, func(o *member.Options) { o.Now = func() time.Time { return now } })
	joiners := func(n int, state string) (list []member.Joiner) {
		for range n {
			list = append(list, member.Joiner{Key: meshtest.Identity(t).ID(), State: state, At: now})
		}
		return list
	}
	key := meshtest.Identity(t).ID()
	for name, tt := range map[string]struct {
		v    member.Invite
		key  string
		skew time.Duration // error of its clock
		want string
	}{
		"in order":      {member.Invite{Uses: 1, Expires: now}, key, 0, ""},
		"a second late": {member.Invite{Uses: 1, Expires: now.Add(-time.Second)}, key, 0, "expired"},
		"clocks apart":  {member.Invite{Uses: 1, Expires: now}, key, member.MaxClocksApart, ""},
		"clocks apart, ahead": {member.Invite{Uses: 1, Expires: now}, key, member.MaxClocksApart + time.Second,
			"clocks are"},
		"clocks apart, behind": {member.Invite{Uses: 1, Expires: now}, key, -member.MaxClocksApart - time.Second,
			"clocks are"},
		"the node's own": {member.Invite{Uses: 1, Expires: now}, m.opts.Identity.ID(), 0, "own"},
		"used": {member.Invite{Uses: 2, Expires: now, Joiners: joiners(2, member.PairAccepted)}, key, 0,
			"used already"},
		"nearly used":   {member.Invite{Uses: 2, Expires: now, Joiners: joiners(1, member.PairAccepted)}, key, 0, ""},
		"shown by many": {member.Invite{Uses: 2, Expires: now, Joiners: joiners(11, member.PairWaiting)}, key, 0, ""},
		"shown by too many": {member.Invite{Uses: 2, Expires: now, Joiners: joiners(12, member.PairWaiting)}, key, 0,
			"too many"},
		"refused before": {member.Invite{Uses: 2, Expires: now, Joiners: []member.Joiner{{Key: key,
			State: member.PairRefused}}}, key, 0,
			"has refused"},
		"waits already": {member.Invite{Uses: 1, Expires: now, Joiners: []member.Joiner{{Key: key,
			State: member.PairWaiting}}}, key, 0,
			""},
		"gone since": {member.Invite{Uses: 1, Expires: now, Joiners: []member.Joiner{{Key: key, State: member.PairAccepted}}},
			key, 0,
			"evicted"},
	} {
		v := tt.v
		before := len(v.Joiners)
		r := m.Answer(t.Context(), &v, &member.PairRequest{Key: tt.key, Name: "x", Clock: now.Add(tt.skew)})
		if tt.want != "" {
			if r.State != member.PairRefused || !strings.Contains(r.Why,
				tt.want) || r.Secret != nil || len(v.Joiners) != before {
				t.Errorf("%s: %+v, want %q", name, r, tt.want)
			}
			continue
		}
		if r.State != member.PairWaiting || r.Secret != nil || v.Joiners[len(v.Joiners)-1].Key != tt.key &&
			name != "waits already" {
			t.Errorf("%s: %+v, %+v", name, r, v.Joiners)
		}
	}
	v := member.Invite{Uses: 1, Expires: now, Accept: true, Weight: 0.5, Name: "bob"}
	if r := m.Answer(t.Context(), &v, &member.PairRequest{Key: key, Name: "x",
		Clock: now}); r.State != member.PairAccepted ||
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
	line, _, err := m.Invite(member.NewInvitation{Hubs: []string{"hub.example:4222"}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := member.ParseInvitation(line)
	if err != nil {
		t.Fatal(err)
	}
	id := meshtest.Identity(t)
	good, _, err := member.SealRequest(v, id, "name", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(change func(*member.PairRequest)) []byte {
		q, _, err := member.OpenRequest(v.Secret, v.ID(), good)
		if err != nil {
			t.Fatal(err)
		}
		change(&q)
		return member.Seal(member.PairKey(v.Secret, nil, "request"), encoded(t, q), v.ID())
	}
	other := v.Secret
	other[0]++
	for name, tt := range map[string]struct {
		secret [member.SecretBytes]byte
		id     string
		box    []byte
		ok     bool
	}{
		"in order":           {v.Secret, v.ID(), good, true},
		"another secret":     {other, v.ID(), good, false},
		"another invitation": {v.Secret, "x", good, false},
		"cut":                {v.Secret, v.ID(), good[:20], false},
		"nothing":            {v.Secret, v.ID(), nil, false},
		"too long":           {v.Secret, v.ID(), make([]byte, member.MaxPair+1), false},
		"no request": {v.Secret, v.ID(), member.Seal(member.PairKey(v.Secret, nil, "request"), []byte("{"), v.ID()),
			false},
		"no key": {v.Secret, v.ID(), sealed(func(q *member.PairRequest) { q.Key = "U" }), false},
		"another key": {v.Secret, v.ID(), sealed(func(q *member.PairRequest) { q.Key = meshtest.Identity(t).ID() }),
			false},
		"another exchange": {v.Secret, v.ID(), sealed(func(q *member.PairRequest) { q.Exchange[0]++ }), false},
		"a bad name":       {v.Secret, v.ID(), sealed(func(q *member.PairRequest) { q.Name = "a\n" }), false},
		"signed for another": {v.Secret, v.ID(), sealed(func(q *member.PairRequest) {
			q.Signature = id.Sign(member.PairText("x", q.Exchange))
		}), false},
		"another name is well": {v.Secret, v.ID(), sealed(func(q *member.PairRequest) { q.Name = "b" }), true},
	} {
		if _, key, err := member.OpenRequest(tt.secret, tt.id, tt.box); (err == nil) != tt.ok || tt.ok && key != id.Public() {
			t.Errorf("%s: %v", name, err)
		}
	}
}
