package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestGroup checks that a keeper sends a member the list of its group, and that a list from another
// node, an old list, or a list for another member is refused. Members that the administrator has
// evicted stay away; members that the keeper removes are dropped.
func TestGroup(t *testing.T) {
	h := newHost(t)
	dir, self := meshtest.Folder(t)
	var ids []*member.Identity
	for range 3 {
		_, id := meshtest.Folder(t)
		ids = append(ids, id)
	}
	v := h.invite(t, member.NewInvitation{Accept: true, Uses: 4, Weight: 0.5, Group: "mail"})
	if v.Group != "mail" {
		t.Fatalf("%+v", v)
	}
	for _, id := range append(ids, self) {
		if j, err := h.join(t, v, id); err != nil || j.Waiting {
			t.Fatalf("%+v, %v", j, err)
		}
	}
	if h.groups.ServeGroup(wire.Hint{1}, nil) != nil {
		t.Error("a stranger is told who is in the group")
	}
	if err := member.Befriend(dir, h.opts.Identity.ID(), "keeper", "mail", 0.75, time.Now()); err != nil {
		t.Fatal(err)
	}
	o := quick(member.Options{Dir: dir, Identity: self, KeyID: enginetest.Secret.ID(), Mode: member.Join})
	o.Engine, o.Now = enginetest.Small(t, nil), h.now
	m, err := prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	keeper, ok := m.Find(h.opts.Identity.Hint())
	if !ok || !keeper.Keeper || keeper.Group != "mail" {
		t.Fatalf("%+v", keeper)
	}
	listed := func() (keys []string) {
		for _, p := range m.List() {
			if !p.Keeper {
				keys = append(keys, p.ID)
			}
		}
		return keys
	}
	take := func() {
		t.Helper()
		l, err := m.groups.OpenGroup(&keeper, h.groups.ServeGroup(self.Hint(), nil))
		if err == nil {
			err = m.groups.TakeGroup(t.Context(), &keeper, l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	take()
	if got := listed(); len(got) != 3 || slices.Contains(got, self.ID()) {
		t.Errorf("peers %v, want the three others", got)
	}
	if p, _ := m.Find(ids[0].Hint()); p.Weight != 0.75 || p.Group != "mail" {
		t.Errorf("%+v, want the weight of the keeper here", p)
	}
	if err := m.EvictPeer(t.Context(), ids[0].ID()); err != nil {
		t.Fatal(err)
	}
	take()
	if got := listed(); len(got) != 2 || slices.Contains(got, ids[0].ID()) {
		t.Errorf("peers %v: who was evicted here is back", got)
	}
	if err := h.EvictPeer(t.Context(), ids[1].ID()); err != nil {
		t.Fatal(err)
	}
	take()
	if got := listed(); len(got) != 1 || got[0] != ids[2].ID() {
		t.Errorf("peers %v, want %s alone", got, ids[2].ID())
	}

	statement := h.groups.ServeGroup(self.Hint(), nil)
	forged := func(change func(*member.GroupList), by *member.Identity) []byte {
		var l member.GroupList
		if err := json.Unmarshal(statement, &l); err != nil {
			t.Fatal(err)
		}
		change(&l)
		if by != nil {
			text, _ := l.Text()
			l.Signature = by.Sign(text)
		}
		data, _ := json.Marshal(l)
		return data
	}
	hub := h.opts.Identity
	for what, tt := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":     {nil, "list of a group"},
		"too long":    {make([]byte, member.MaxPair+1), "limit"},
		"changed":     {forged(func(l *member.GroupList) { l.Members = nil }, nil), "not of its keeper"},
		"by a member": {forged(func(l *member.GroupList) {}, ids[2]), "not of its keeper"},
		"to another":  {forged(func(l *member.GroupList) { l.To = ids[2].ID() }, hub), "for"},
		"of another":  {forged(func(l *member.GroupList) { l.Group = "web" }, hub), "web"},
		"old":         {forged(func(l *member.GroupList) { l.At = l.At.Add(-time.Hour) }, hub), "played back"},
		"of many": {forged(func(l *member.GroupList) { l.Members = make([]member.Member, member.MaxGroup+1) }, hub),
			"limit 256"},
		"with no key":     {forged(func(l *member.GroupList) { l.Members[0].Key = "U" }, hub), "not the key"},
		"with a bad name": {forged(func(l *member.GroupList) { l.Members[0].Name = "a\x00" }, hub), "control"},
	} {
		if _, err := m.groups.OpenGroup(&keeper, tt.data); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("a list %s: %v, want %q", what, err, tt.want)
		}
	}
}

// FuzzOpenGroup checks that only lists signed by the keeper open.
func FuzzOpenGroup(f *testing.F) {
	_, id := meshtest.Folder(f)
	_, hub := meshtest.Folder(f)
	now := time.Unix(1_700_000_000, 0)
	g := &member.Groups{Opts: &member.Options{Identity: id, Now: func() time.Time { return now }}}
	keeper := &member.Peer{ID: hub.ID(), Group: "mail", Key: hub.Public()}
	l := member.GroupList{Group: "mail", To: id.ID(), At: now, Members: []member.Member{{Key: hub.ID(), Name: "x"}}}
	text, _ := l.Text()
	l.Signature = hub.Sign(text)
	data, _ := json.Marshal(l)
	if _, err := g.OpenGroup(keeper, data); err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"group":"mail","members":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := g.OpenGroup(keeper, data); err == nil && (len(got.Members) != 1 || got.Members[0].Key != hub.ID()) {
			t.Errorf("%+v", got)
		}
	})
}

// TestGroupAtServers checks that members of a group at NATS servers of another operator take each other from the
// keeper's list, and drop a member that the keeper evicts. The servers have the printed permissions.
func TestGroupAtServers(t *testing.T) {
	const nodes = 4
	var dirs, keys []string
	var ids []*member.Identity
	for range nodes {
		dir, id := meshtest.Folder(t)
		dirs, ids, keys = append(dirs, dir), append(ids, id), append(keys, id.ID())
	}
	text, err := Grants(member.NetworkOf(enginetest.Secret), "", keys...)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	text = fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q }\n", t.TempDir()) + text
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs = true
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	var all []*Mesh
	for i := range nodes {
		m, _ := start(t, quick(member.Options{Dir: dirs[i], Identity: ids[i], Engine: enginetest.Small(t, nil),
			Mode: External, Servers: []string{"nats://" + ns.Addr().String()}}))
		all = append(all, m)
	}
	keeper := all[0]
	for i, m := range all[1:] {
		if err := keeper.AddMember(t.Context(), keys[i+1], "", "mail", false, 1); err != nil {
			t.Fatal(err)
		}
		if err := m.AddMember(t.Context(), keys[0], "", "mail", true, 1); err != nil {
			t.Fatal(err)
		}
	}
	enginetest.Eventually(t, time.Minute, "every member has all others", func() bool {
		return !slices.ContainsFunc(all, func(m *Mesh) bool { return len(m.List()) != nodes-1 })
	})
	var engines []*engine.Engine
	for i, m := range all {
		engines = append(engines, m.opts.Engine.(*engine.Engine))
		enginetest.Report(t, engines[i], 1, bulkhead.Sighting, []uint32{2, 20, 200, 2000}[i])
	}
	agree(t, engines, 1, 2222)
	for _, b := range keeper.Status().Brokers {
		if b.Trouble != "" || b.Error != "" {
			t.Errorf("the keeper's server: %+v", b)
		}
	}
	list, err := ns.Subsz(&server.SubszOptions{Subscriptions: true})
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	for _, s := range list.Subs {
		if s.Subject == wire.GroupPrefix+"*" {
			answers++
		}
	}
	if answers != 1 {
		t.Errorf("a member gets %d answers", answers)
	}
	if err := keeper.EvictPeer(t.Context(), keys[3]); err != nil {
		t.Fatal(err)
	}
	agree(t, engines[:3], 1, 222)
	if err := keeper.AddMember(t.Context(), keys[3], "", "", true, 1); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("a keeper without a group: %v", err)
	}
}
