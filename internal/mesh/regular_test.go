package mesh

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

const fourWeeks = 28 * 24 * time.Hour

// regularly makes a hub announce another secret every four weeks.
func regularly(o *member.Options) { o.RekeyEvery = fourWeeks }

// id returns the key of a node.
func (c *changing) id() string { return c.opts.Identity.ID() }

// turnOf returns the next moment at which the secret is to change.
func turnOf(now time.Time) time.Time {
	return now.Truncate(fourWeeks).Add(fourWeeks - member.SwitchAhead)
}

// TestRegular checks that a hub announces one secret for each period, at most the lead time before
// its use, and none if an administrator has changed the secret lately, or has rejected the next
// one.
func TestRegular(t *testing.T) {
	hub := newChanging(t, member.Hub, regularly)
	due := turnOf(hub.now)
	for _, early := range []time.Duration{fourWeeks - time.Hour, member.MostRegularLead + time.Hour} {
		hub.now = due.Add(-early)
		hub.AnnounceDue(nil, true)
		if hub.Pending() != nil {
			t.Fatalf("announced %v before it is due", early)
		}
	}
	hub.now = due.Add(-member.MostRegularLead + time.Minute)
	hub.AnnounceDue(nil, true)
	first := hub.Pending()
	if first == nil || !first.At.Equal(due) || first.By != hub.id() {
		t.Fatalf("announced %+v, want a change at %v", first, due)
	}
	hub.AnnounceDue(nil, true)
	if r := hub.Pending(); r.To() != first.To() {
		t.Error("announced twice")
	}
	// It is done; nothing more happens until the next one is due.
	hub.again(t, first.To(), enginetest.Secret)
	for _, now := range []time.Time{due, due.Add(member.SwitchAhead), due.Add(20 * 24 * time.Hour)} {
		hub.now = now
		hub.AnnounceDue(nil, true)
		if hub.Pending() != nil {
			t.Fatalf("announced again %v after a change", now.Sub(due))
		}
	}
	due = due.Add(fourWeeks)
	hub.now = due.Add(-time.Hour)
	hub.AnnounceDue(nil, true)
	if r := hub.Pending(); r == nil || !r.At.Equal(due) {
		t.Fatalf("the second time %+v", r)
	}
	// A secret that is taken back is not announced again for the same moment.
	if _, err := hub.CancelRotation(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		hub.AnnounceDue(nil, true)
		if hub.Pending() != nil {
			t.Fatal("announced again after it was taken back")
		}
		hub.again(t, first.To(), enginetest.Secret)
	}
	due = due.Add(fourWeeks)
	hub.now = due.Add(-time.Hour)
	hub.AnnounceDue(nil, true)
	if r := hub.Pending(); r == nil || !r.At.Equal(due) {
		t.Fatalf("a period after it was taken back %+v", r)
	}

	// An administrator changed it a week before it is due.
	busy := newChanging(t, member.Hub, regularly)
	due = turnOf(busy.now)
	busy.now = due.Add(-7 * 24 * time.Hour)
	if _, err := busy.Rotate(member.NewRotation{}); err != nil {
		t.Fatal(err)
	}
	busy.again(t, busy.Pending().To(), enginetest.Secret)
	busy.now = due.Add(-time.Hour)
	busy.AnnounceDue(nil, true)
	if busy.Pending() != nil {
		t.Error("announced a week after another change")
	}
}

// TestRegularPostponed checks that a hub that may not announce logs the reason, once.
func TestRegularPostponed(t *testing.T) {
	full := errors.New("it still holds what was counted under too many secrets")
	for why, tt := range map[string]struct {
		hubs   func(own string) []string
		all    bool
		refuse error
	}{
		"announces it":           {func(string) []string { return []string{"A"} }, true, nil},
		"has not been met":       {func(string) []string { return nil }, false, nil},
		"under too many secrets": {func(string) []string { return []string{"V"} }, true, full},
		"the hub A announces":    {func(string) []string { return []string{"V", "A"} }, false, full},
		"might announce it":      {func(string) []string { return []string{"V"} }, false, full},
		"still holds what was":   {func(string) []string { return nil }, true, full},
	} {
		hub := newChanging(t, member.Hub, func(o *member.Options) {
			regularly(o)
			o.MayRekey = func() error { return tt.refuse }
		})
		hub.now = turnOf(hub.now).Add(-time.Hour)
		for range 3 {
			hub.AnnounceDue(tt.hubs(hub.id()), tt.all)
		}
		if hub.Pending() != nil || strings.Count(hub.log.String(), why) != 1 {
			t.Errorf("%q: announced %v, log:\n%s", why, hub.Pending() != nil, hub.log.String())
		}
	}
	// No key of a node is lower than "A", nor higher than "V".
	hub := newChanging(t, member.Hub, regularly)
	hub.now = turnOf(hub.now).Add(-time.Hour)
	if hub.AnnounceDue([]string{"V"}, true); hub.Pending() == nil {
		t.Error("the hub with the lowest key does not announce")
	}
}

// TestRegularForAYear runs two hubs that name each other, and members that know one of them or
// both, for a year of changes. Each is away for days or weeks, and hubs restart. No node that was
// away for less than a period is left behind, there are never two successors of one secret, and the
// changes come when they are due.
func TestRegularForAYear(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { regularForAYear(t, rand.New(rand.NewPCG(seed, 31))) })
	}
}

// An erring is a node that is away at times.
type erring struct {
	*changing
	hubs []int
	back int // the step at which it returns
	keys []filter.Secret
}

func regularForAYear(t *testing.T, rng *rand.Rand) {
	var nodes []*erring
	var all []*Mesh
	for i, hubs := range [][]int{{1}, {0}, {0}, {1}, {0, 1}, {0, 1}} {
		mode := member.Join
		if i < 2 {
			mode = member.Hub
		}
		c := newChanging(t, mode, regularly)
		nodes = append(nodes, &erring{changing: c, hubs: hubs, keys: []filter.Secret{enginetest.Secret}})
		all = append(all, c.Mesh)
	}
	befriend(t, all...)
	now := nodes[0].now.Truncate(fourWeeks)
	changes := 0
	for n := range 364 {
		now = now.Add(24 * time.Hour)
		for _, x := range nodes {
			if x.now = now; x.back <= n && rng.IntN(40) == 0 { // for less than the lead, or longer
				x.back = n + 1 + rng.IntN(25)
			}
		}
		if left := turnOf(now).Sub(now); left > member.MostRegularLead && left < fourWeeks-3*24*time.Hour && n%7 > 0 {
			continue // no change before tomorrow
		}
		there := func(i int) bool { return nodes[i].back <= n }
		for range 2 {
			for i, x := range nodes {
				if !there(i) {
					continue
				}
				var met []string
				for _, h := range x.hubs {
					if there(h) {
						mustTake(t, x.changing, nodes[h].changing)
						met = append(met, nodes[h].id())
					}
				}
				if i < 2 {
					x.AnnounceDue(met, len(met) == len(x.hubs))
				}
			}
		}
		for range 2 {
			for i, x := range nodes {
				for r := x.Pending(); there(i) && r != nil && !r.At.After(now); r = x.Pending() {
					x.keys = append([]filter.Secret{r.To()}, x.keys...)
					x.again(t, r.To(), x.keys[1:min(3, len(x.keys))]...)
				}
				for _, h := range x.hubs {
					if there(i) && there(h) {
						mustTake(t, x.changing, nodes[h].changing)
					}
				}
			}
		}
		if rng.IntN(20) == 0 {
			x := nodes[rng.IntN(2)]
			x.again(t, x.keys[0], x.keys[1:min(3, len(x.keys))]...)
		}
		// A present node with a present hub has the hub's secret, and no node has a secret that was
		// never common to all.
		longest := slices.MaxFunc(nodes, func(a, b *erring) int { return len(a.keys) - len(b.keys) })
		changes = len(longest.keys) - 1
		for i, x := range nodes {
			if !slices.Equal(x.keys, longest.keys[len(longest.keys)-len(x.keys):]) {
				t.Fatalf("step %d: node %d has had secrets that others have not", n, i)
			}
			for _, h := range x.hubs {
				if there(i) && there(h) && len(x.keys) < len(nodes[h].keys) {
					t.Fatalf("step %d: node %d is behind its hub by %d changes", n, i, len(nodes[h].keys)-len(x.keys))
				}
			}
		}
	}
	if changes < 3 { // of 13 periods; in some, a hub was away when it was time to announce
		t.Errorf("%d changes in a year", changes)
	}
}

// TestRegularAtOnce checks that if two hubs announce at once, before they have met, all take the
// same secret.
func TestRegularAtOnce(t *testing.T) {
	one, other, joiner := newChanging(t, member.Hub, regularly), newChanging(t, member.Hub, regularly), newChanging(t,
		member.Join, nil)
	befriend(t, one.Mesh, other.Mesh, joiner.Mesh)
	for _, c := range []*changing{one, other, joiner} {
		c.now = turnOf(c.now).Add(-time.Hour)
	}
	one.AnnounceDue(nil, true)
	other.AnnounceDue(nil, true)
	if one.Pending().To() == other.Pending().To() {
		t.Fatal("both have drawn the same secret")
	}
	mustTake(t, joiner, one)
	for range 2 {
		mustTake(t, one, other)
		mustTake(t, other, one)
		mustTake(t, joiner, other)
	}
	if a, b, c := one.Pending().To(), other.Pending().To(), joiner.Pending().To(); a != b || b != c {
		t.Error("the nodes part")
	}
	if _, err := joiner.Rotate(member.NewRotation{}); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("a member announces: %v", err)
	}
}

// TestRegularOverAHub has a hub that announces another secret when it is due, and a member that hears of it. Both use
// the secret when the time has come.
func TestRegularOverAHub(t *testing.T) {
	address := freePort(t)
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	ahead.Store(int64(time.Until(turnOf(time.Now()).Add(-time.Hour))))
	var meshes []*Mesh
	var switched []chan filter.Secret
	for _, mode := range []member.Mode{member.Hub, member.Join} {
		dir, id := meshtest.Folder(t)
		to := make(chan filter.Secret, 1)
		o := member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), Mode: mode, Secret: enginetest.Secret,
			Now: now, Interval: 50 * time.Millisecond, Heartbeat: 50 * time.Millisecond, Switch: func(s filter.Secret) {
				select {
				case to <- s:
				default:
				}
			}}
		if mode == member.Hub {
			o.Listen, o.RekeyEvery = address, fourWeeks
		} else {
			o.Servers = []string{address}
		}
		m, _ := start(t, o)
		meshes, switched = append(meshes, m), append(switched, to)
	}
	befriend(t, meshes...)
	for i, m := range meshes {
		enginetest.Eventually(t, time.Minute, fmt.Sprintf("node %d knows the next secret", i),
			func() bool { return m.Pending() != nil })
	}
	secret, due := meshes[0].Pending().To(), turnOf(now())
	for i, m := range meshes {
		if r := m.Pending(); r.To() != secret || r.At.Sub(due).Abs() > time.Minute {
			t.Errorf("node %d uses %v at %v, want %v at %v", i, r.To(), r.At, secret, due)
		}
	}
	ahead.Add(int64(time.Hour))
	for i, to := range switched {
		enginetest.Eventually(t, time.Minute, fmt.Sprintf("node %d uses the secret", i),
			func() bool { return len(to) == 1 })
		if got := <-to; got != secret {
			t.Errorf("node %d uses %v, want %v", i, got, secret)
		}
	}
}
