package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// votersOf adds trusted accounts of full weight ("a", "b", "c"), one of half weight ("half"), and
// unvouched accounts of twenty networks ("x0" to "x19").
func votersOf(t testing.TB, e *Engine) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		put(t, e, name, trust.Trusted, 1, netip.Addr{})
	}
	put(t, e, "half", trust.Trusted, 0.5, netip.Addr{})
	for i := range 20 {
		put(t, e, fmt.Sprint("x", i), trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 18, byte(i), 1}))
	}
}

// TestSequences: the latest vote of a voter counts, and the heavier side wins at once. A word is a
// voter and a vote: + spam, - revocation, h ham, n of them by "n*"; "x*" is all twenty strangers,
// "day" lets a day pass. "=" precedes the judgement from then on.
func TestSequences(t *testing.T) {
	for _, tt := range []string{
		"a+ =spam",
		"a+ a- =revoked a+ =spam a- =revoked a+ =spam",
		"a- =none a+ =spam a- =revoked",
		"ah =none a+ =spam ah =revoked a+ =spam",
		"a+ ah a- =revoked a+ =spam",
		"a+ day a- =revoked day a+ =spam day ah =revoked",
		"a+ a+ a- =revoked a- a+ =spam",
		"a+ b- =revoked c+ =spam b+ a- =spam c- =revoked",
		"a+ b+ c- =spam b- =revoked b+ =spam",
		"a- b+ =none c+ =spam",
		"half+ =none a+ half- =spam half+ a- =revoked",
		"x*+ =none half+ =spam x*- =spam halfh =revoked",
		"a+ x*- =spam x*h =spam",
		"a+ day x*- day x*- =spam",
		"a+ b- =revoked x*+ =revoked",
		"a+ b+ c- =spam x*- =spam",
		"a- x*+ =none",
		"a+ " + strings.Repeat("a- a+ ", 30) + "=spam",
		"a+ " + strings.Repeat("a- a+ ", 200) + "a- =revoked",
		"half+ half- half+ half- half+ =none", // changing sides repeatedly adds no weight
		"a+ b+ " + strings.Repeat("half- half+ ", 9) + "half- =spam",
	} {
		for _, exact := range []bool{true, false} {
			c := newClock()
			e := open(t, Options{Now: c.Now, Exact: exact})
			votersOf(t, e)
			s := sig(bulkhead.Exact, 1)
			for n, word := range strings.Fields(tt) {
				last := len(word) - 1
				vote := map[byte]bulkhead.Vote{'+': bulkhead.Spam, '-': bulkhead.Revocation, 'h': bulkhead.Ham}[word[last]]
				switch {
				case word == "day":
					c.Advance(24 * time.Hour)
				case word[0] == '=':
					if v := verdictOf(t, e, s); v.Judged.String() != word[1:] {
						t.Errorf("%.60s, exact %v: %v after word %d, want %s", tt, exact, v.Judged, n, word[1:])
					}
				case word[:last] == "x*":
					for i := range 20 {
						report(t, e, by(fmt.Sprint("x", i), vote, s))
					}
				default:
					report(t, e, by(word[:last], vote, s))
				}
			}
		}
	}
}

// TestManyTurns: however often a signature was listed and taken off, the latest vote has its
// way at once, and a turn costs one key.
func TestManyTurns(t *testing.T) {
	e := open(t, Options{})
	votersOf(t, e)
	s := sig(bulkhead.Exact, 1)
	for turn := range 300 {
		if got := report(t, e, by("a", bulkhead.Spam, s)); got.Listed != 1 || verdictOf(t, e, s).Class != bulkhead.ClassSpam {
			t.Fatalf("listed for the %d. time: %+v", turn+1, got)
		}
		if got := report(t, e, by("a", bulkhead.Revocation, s)); got.Revoked != 1 ||
			verdictOf(t, e, s).Class == bulkhead.ClassSpam {
			t.Fatalf("taken off for the %d. time: %+v", turn+1, got)
		}
	}
	if got := e.current.View().Block.Live[0].Spam.Keys(); got > 300 {
		t.Errorf("%d keys in the spam filter after 300 listings", got)
	}
}

// TestFlippingIsCheap: a voter who goes to and fro takes a bounded number of keys, is
// counted once, and leaves confidence as it would be.
func TestFlippingIsCheap(t *testing.T) {
	e := open(t, Options{})
	votersOf(t, e)
	s, other := sig(bulkhead.Exact, 1), sig(bulkhead.Exact, 2)
	report(t, e, by("a", bulkhead.Spam, other))
	for range 500 {
		report(t, e, by("half", bulkhead.Ham, s))
		report(t, e, by("half", bulkhead.Spam, s))
	}
	g := e.current.View().Block.Live[0]
	if w, u := g.Weights.Keys(), g.Votes.Keys(); w > 16 || u > 8 {
		t.Errorf("%d keys of weights, %d of voters after 1000 votes of one voter", w, u)
	}
	report(t, e, by("b", bulkhead.Spam, s))
	report(t, e, by("half", bulkhead.Ham, s))
	report(t, e, by("b", bulkhead.Spam, other))
	report(t, e, by("half", bulkhead.Ham, other))
	report(t, e, by("a", bulkhead.Ham, other))
	got, want := verdictOf(t, e, s).Findings[0], verdictOf(t, e, other).Findings[0]
	if got.Spam != 2 || got.Ham != 1 || got.Confidence != 57 {
		t.Errorf("%+v, want 2 spam votes and 1 ham vote that weigh 1 and 0.5", got)
	}
	if want.Judged != bulkhead.Revoked {
		t.Errorf("1 for spam and 1.5 against: %+v", want)
	}
}

// TestMindChangedAcrossClass: a voter who has become trusted since the vote
// weighs once, and takes back all of it.
func TestMindChangedAcrossClass(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now})
	votersOf(t, e)
	s := sig(bulkhead.Exact, 1)
	put(t, e, "eve", trust.Member, 0.6, netip.Addr{})
	report(t, e, by("eve", bulkhead.Spam, s))
	put(t, e, "eve", trust.Trusted, 0.9, netip.Addr{})
	c.Advance(24 * time.Hour)
	if got := report(t, e, by("eve", bulkhead.Spam, s)); got != (bulkhead.Receipt{Counted: 1, Pending: 1}) {
		t.Errorf("weight 0.9, and what it was before: %+v, want it pending", got)
	}
	report(t, e, by("half", bulkhead.Spam, s))
	if v := verdictOf(t, e, s); !v.Spam() {
		t.Errorf("1.4 for spam: %+v", v)
	}
	put(t, e, "eve", trust.Trusted, 0, netip.Addr{})
	report(t, e, by("eve", bulkhead.Ham, s)) // takes back, and adds nothing
	if got := report(t, e, by("half", bulkhead.Ham, s)); got.Revoked != 1 {
		t.Errorf("nobody is for it any more: %+v", got)
	}
	put(t, e, "eve", trust.Trusted, 0.6, netip.Addr{})
	other := sig(bulkhead.Exact, 2)
	report(t, e, by("eve", bulkhead.Spam, other))
	put(t, e, "eve", trust.Trusted, 0, netip.Addr{})
	report(t, e, by("eve", bulkhead.Ham, other))
	if got := report(t, e, by("half", bulkhead.Spam, other)); got.Listed != 0 {
		t.Errorf("0.5 for spam, 0.6 taken back: %+v, want it pending", got)
	}
}

// TestPeersSeeTurns: a node shows what a peer says last, however often the peer
// changed its mind, by rounds and by images, and after a restart of both.
func TestPeersSeeTurns(t *testing.T) {
	ctx := t.Context()
	peer, home := pair(t, 1)
	votersOf(t, peer)
	late := open(t, Options{Now: home.opts.Now})
	if err := late.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}}); err != nil {
		t.Fatal(err)
	}
	s := sig(bulkhead.Exact, 1)
	for n := range 10 {
		vote := []bulkhead.Vote{bulkhead.Spam, bulkhead.Revocation}[n%2]
		report(t, peer, by("a", vote, s))
		pass(t, peer, home, "a")
		transfer(t, peer, late, "a")
		for _, e := range []*Engine{peer, home, late} {
			if v := verdictOf(t, e, s); v.Spam() != (n%2 == 0) {
				t.Fatalf("turn %d: %+v", n, v)
			}
		}
	}
	report(t, peer, by("a", bulkhead.Spam, s))
	pass(t, peer, home, "a")
	if got := report(t, home, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Ham}); got.Revoked != 1 {
		t.Errorf("ham vote at home of what a peer lists: %+v", got)
	}
	if got := report(t, home, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam}); got.Listed != 1 {
		t.Errorf("and a spam vote: %+v", got)
	}
	if v := verdictOf(t, home, s); !v.Spam() {
		t.Errorf("in the end: %+v", v)
	}
}

func spam(t testing.TB, e *Engine, s bulkhead.Signature) bool {
	v := verdictOf(t, e, s)
	return v.Spam()
}

// A voterModel is what is to be true of one voter and one signature: the latest vote,
// and what it added in which generation.
type voterModel struct {
	ham   bool
	added map[uint64]int64
}

// A sigModel is what is to be true of one signature.
type sigModel struct {
	voters map[string]*voterModel
	states map[uint64]bool // listed or taken off, by generation of the blocklist
}

func (m *sigModel) listed() (listed, known bool) {
	newest := uint64(0)
	for start, is := range m.states {
		if start > newest {
			newest, listed, known = start, is, true
		}
	}
	return listed, known
}

// age forgets what the engine has forgotten.
func (m *sigModel) age(v view.View) {
	for _, w := range m.voters {
		for start := range w.added {
			if v.Block.Find(start) == nil {
				delete(w.added, start)
			}
		}
	}
	for start := range m.states {
		if v.Block.Find(start) == nil {
			delete(m.states, start)
		}
	}
}

func (m *sigModel) balance(root map[string]bool) (b trust.Balance) {
	for name, w := range m.voters {
		for _, n := range w.added {
			switch {
			case root[name] && w.ham:
				b.Ham += n
			case root[name]:
				b.Spam += n
			case w.ham:
				b.StrangerHam += n
			default:
				b.StrangerSpam += n
			}
		}
	}
	return b
}

func (m *sigModel) vote(v view.View, name string, root map[string]bool, units int64, ham bool) {
	w := m.voters[name]
	if w == nil {
		w = &voterModel{added: make(map[uint64]int64)}
		m.voters[name] = w
	}
	if w.ham != ham {
		clear(w.added)
		w.ham = ham
	}
	for _, n := range w.added {
		units = max(units, n)
	}
	block := v.Block.Live[0].Start
	w.added = map[uint64]int64{block: units} // as new as the latest vote, and no less
	listed, known := m.listed()
	b := m.balance(root)
	if !ham {
		if b.Lists(verdict.Unit) || listed && root[name] {
			m.states[block] = true
		}
		return
	}
	if known && listed && root[name] && b.Lifts() {
		m.states[block] = false
	}
}

// TestVotesAgainstModel casts random votes of random voters over many days, and compares the engine
// with maps that received the same votes, also after restarts.
func TestVotesAgainstModel(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 13))
		c := newClock()
		o := Options{
			Now: c.Now, Votes: 200_000,
			Tally: BookOptions{Generation: 24 * time.Hour, Keep: 4, Capacity: 50_000, Error: 1e-6},
			Block: BookOptions{Generation: 3 * 24 * time.Hour, Keep: 3, Capacity: 50_000, Error: 1e-9},
		}
		dir := filepath.Join(t.TempDir(), "data")
		e, st := openDurable(t, dir, o, nil)
		votersOf(t, e)
		names := []string{"a", "b", "c", "half", "x0", "x1", "x2"}
		root := map[string]bool{"a": true, "b": true, "c": true, "half": true}
		const signatures = 16
		models := make([]*sigModel, signatures)
		for n := range models {
			models[n] = &sigModel{make(map[string]*voterModel), make(map[uint64]bool)}
		}
		for step := range 1200 {
			switch rng.IntN(40) {
			case 0:
				c.Advance(time.Duration(rng.IntN(40)) * time.Hour)
				e.turnOver()
			case 1:
				if rng.IntN(8) > 0 {
					break
				}
				if err := errors.Join(e.Close(t.Context()), st.Close()); err != nil {
					t.Fatal(err)
				}
				e, st = openDurable(t, dir, o, nil)
			}
			n, name := rng.IntN(signatures), names[rng.IntN(len(names))]
			vote := bulkhead.Vote(1 + rng.IntN(3))
			m, s := models[n], sig(bulkhead.Exact, n)
			report(t, e, by(name, vote, s))
			v := e.current.View()
			m.age(v)
			a, _ := e.Accounts().Get(name)
			m.vote(v, name, root, int64(resolve.Units(e.Accounts().Policy().Of(&a))), vote != bulkhead.Spam)
			if listed, _ := m.listed(); spam(t, e, s) != listed {
				t.Fatalf("seed %d, step %d, %s votes %v: spam %v, want %v: %+v", seed, step, name, vote, !listed, listed,
					m.balance(root))
			}
		}
		for n, m := range models {
			m.age(e.current.View())
			if listed, _ := m.listed(); spam(t, e, sig(bulkhead.Exact, n)) != listed {
				t.Errorf("seed %d: signature %d: spam %v in the end, want %v", seed, n, !listed, listed)
			}
		}
		if err := errors.Join(e.Close(t.Context()), st.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCreditsOnceInReplay: an entry that is already in the accounts of a checkpoint gives no second
// credit when the journal is replayed.
func TestCreditsOnceInReplay(t *testing.T) {
	e := open(t, Options{})
	votersOf(t, e)
	s := sig(bulkhead.Exact, 1)
	report(t, e, by("x0", bulkhead.Spam, s))
	report(t, e, by("a", bulkhead.Spam, s))
	e.queue.between(func() {
		again := &codec.Votes{Credits: []trust.Credit{{Account: "x0", Confirmed: 1, Reverted: 1}}}
		if err := e.apply(e.journal.index, again); err != nil {
			t.Error(err)
		}
		if a, _ := e.accounts.Get("x0"); a.Confirmed != 1 || a.Reverted != 0 {
			t.Errorf("an entry applied twice: %d confirmed, %d reverted, want 1 and 0", a.Confirmed, a.Reverted)
		}
		if err := e.apply(e.journal.index+1, again); err != nil {
			t.Error(err)
		}
	})
	if a, _ := e.Accounts().Get("x0"); a.Confirmed != 2 || a.Reverted != 1 {
		t.Errorf("a new entry: %d confirmed, %d reverted, want 2 and 1", a.Confirmed, a.Reverted)
	}
}

// TestWhoConfirms: reports are confirmed by accounts that an administrator vouched for, before the
// message is listed, and not by accounts that have earned much weight; a report that was taken back
// is neither confirmed nor blamed.
func TestWhoConfirms(t *testing.T) {
	e := open(t, Options{})
	votersOf(t, e)
	addr := netip.MustParseAddr("198.51.100.1")
	if err := e.PutAccount(t.Context(), trust.Account{Name: "proven", Role: trust.Member, Weight: 0.05, Confirmed: 1e6,
		From: addr}); err != nil {
		t.Fatal(err)
	}
	credits := func() (uint32, uint32) {
		a, _ := e.Accounts().Get("x0")
		return a.Confirmed, a.Reverted
	}
	s := func(n int) bulkhead.Signature { return sig(bulkhead.Exact, n) }
	for n, step := range []struct {
		votes    []bulkhead.Report
		yes, bad uint32
	}{
		{[]bulkhead.Report{by("x0", bulkhead.Spam, s(1)), by("proven", bulkhead.Spam, s(1))}, 0, 0},
		{[]bulkhead.Report{by("x0", bulkhead.Spam, s(2)), by("a", bulkhead.Spam, s(2))}, 1, 0},
		{[]bulkhead.Report{by("a", bulkhead.Spam, s(3)), by("x0", bulkhead.Spam, s(3)), by("b", bulkhead.Spam, s(3))}, 1, 0},
		{[]bulkhead.Report{by("x0", bulkhead.Spam, s(4)), by("x0", bulkhead.Ham, s(4)), by("a", bulkhead.Spam, s(4))}, 1, 0},
		{[]bulkhead.Report{by("b", bulkhead.Ham, s(4))}, 1, 0},
		{[]bulkhead.Report{by("x0", bulkhead.Spam, s(5)), by("proven", bulkhead.Revocation, s(5))}, 1, 0},
		{[]bulkhead.Report{by("b", bulkhead.Ham, s(2))}, 1, 1},
	} {
		for _, r := range step.votes {
			report(t, e, r)
		}
		if yes, bad := credits(); yes != step.yes || bad != step.bad {
			t.Errorf("step %d: %d confirmed, %d reverted, want %d and %d", n, yes, bad, step.yes, step.bad)
		}
	}
}

// TestCountOfAVote: a vote counts as one voter regardless of its number, unvouched voters of one
// network count as one, and votes make nothing bulk.
func TestCountOfAVote(t *testing.T) {
	e := open(t, Options{})
	s := sig(bulkhead.Exact, 1)
	for i := range 40 {
		name := fmt.Sprint("sock", i)
		put(t, e, name, trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 18, byte(i % 2), byte(i)}))
		for _, vote := range []bulkhead.Vote{bulkhead.Spam, bulkhead.Ham} {
			r := by(name, vote, s)
			r.Count = bulkhead.Many
			report(t, e, r)
		}
	}
	if v := verdictOf(t, e, s); v.Bulk || v.SpamVotes != 2 || v.HamVotes != 2 {
		t.Errorf("40 accounts of two networks: %+v, want two spam votes, two ham votes, and no bulk", v)
	}
}

// TestStrangersClaims: strangers' sightings count once for each voice, and never enough for bulk.
// Sightings by the node itself and by vouched accounts count with their numbers.
func TestStrangersClaims(t *testing.T) {
	ctx := t.Context()
	e := open(t, Options{})
	votersOf(t, e)
	put(t, e, "cheap", trust.Member, 0.01, netip.Addr{})
	address := func(i, j int) bulkhead.Reporter {
		return bulkhead.Reporter{Addr: netip.AddrFrom4([4]byte{198, 19, byte(i), byte(j)})}
	}
	network := func(reporters ...bulkhead.Reporter) []bulkhead.Reporter { return reporters }
	many := func(n int, fn func(i int) bulkhead.Reporter) (all []bulkhead.Reporter) {
		for i := range n {
			all = append(all, fn(i))
		}
		return all
	}
	for n, tt := range []struct {
		name  string
		from  []bulkhead.Reporter
		count uint32
		want  uint32
		bulk  bool
	}{
		{"an account of little weight", network(bulkhead.Reporter{Account: "cheap"}), 20, 1, false},
		{"an address", network(address(1, 1), address(1, 1)), 20, 1, false},
		{"a network", many(200, func(i int) bulkhead.Reporter { return address(1, i) }), 20, 1, false},
		{"200 networks", many(200, func(i int) bulkhead.Reporter { return address(i, 1) }), bulkhead.Many, 10, false},
		{"accounts of 20 networks",
			many(20, func(i int) bulkhead.Reporter { return bulkhead.Reporter{Account: fmt.Sprint("x", i)} }), 20, 10, false},
		{"200 networks and 9 of the node", append(many(200, func(i int) bulkhead.Reporter { return address(i, 1) }),
			many(9, func(int) bulkhead.Reporter { return bulkhead.Reporter{} })...), 1, 19, false},
		{"200 networks and 10 of the node", append(many(200, func(i int) bulkhead.Reporter { return address(i, 1) }),
			many(10, func(int) bulkhead.Reporter { return bulkhead.Reporter{} })...), 1, 20, true},
		{"the node itself", network(bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}), 20, 20, true},
		{"a vouched account", network(bulkhead.Reporter{Account: "half"}), 20, 20, true},
	} {
		s := sig(bulkhead.Exact, 1+n)
		for _, r := range tt.from {
			report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Count: tt.count, Reporter: r})
		}
		if v := verdictOf(t, e, s); v.Sightings != tt.want || v.Bulk != tt.bulk {
			t.Errorf("%s: %d sightings, bulk %v, want %d and %v", tt.name, v.Sightings, v.Bulk, tt.want, tt.bulk)
		}
	}
	if _, err := e.Report(ctx, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)},
		Reporter: bulkhead.Reporter{Account: "nobody"}}); !errors.Is(err, bulkhead.ErrUnauthorised) {
		t.Errorf("a sighting of an account that is not there: %v", err)
	}
}
