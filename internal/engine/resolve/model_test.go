package resolve

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A model computes with maps the effects of votes and claims on texts over weeks.
type model struct {
	b       *books
	exact   bool                       // so that what is held can be counted
	last    map[string]map[string]fact // by text, by voice: what it said last
	voted   map[string]bool            // week, voter, vote, text
	seen    map[string]bool            // day, voice, text
	listed  map[string][2]int          // week, text: how often listed, and taken off
	voters  map[string][2]uint32       // day, text: for spam and against it
	claims  map[string]uint32          // day, text
	credits []trust.Credit             // of the batch
	votes   []ballots.Ballot
}

func newModel(b *books, exact bool) *model {
	return &model{
		b: b, exact: exact, last: make(map[string]map[string]fact), voted: make(map[string]bool), seen: make(map[string]bool),
		listed: make(map[string][2]int), voters: make(map[string][2]uint32), claims: make(map[string]uint32),
	}
}

// The weeks and days that live, newest first.
func (m *model) weeks() (starts []uint64) {
	for _, g := range m.b.view.Block.Live {
		starts = append(starts, g.Start)
	}
	return starts
}

func (m *model) days() (starts []uint64) {
	for _, g := range m.b.view.Tally.Live {
		starts = append(starts, g.Start)
	}
	return starts
}

func at(start uint64, what ...any) string { return fmt.Sprint(append([]any{start}, what...)...) }

// votesOn adds up the latest votes on a text.
func (m *model) votesOn(text string) (b trust.Balance) {
	for _, f := range m.last[text] {
		if slices.Contains(m.weeks(), f.gen) {
			*side(&b, f.kind) += f.weight
		}
	}
	return b
}

// own returns the blocklist's state of a text: listed if neither the newest week that listed it nor
// a newer one took it off again.
func (m *model) own(text string) verdict.State {
	revoked := false
	for _, w := range m.weeks() {
		turns := m.listed[at(w, text)]
		switch {
		case turns[0] > turns[1] && !revoked:
			return verdict.Listed
		case turns[0] > 0:
			return verdict.ListedRevoked
		case turns[1] > 0:
			revoked = true
		}
	}
	return verdict.Nothing // a revocation without a listing has no effect
}

// enough reports whether the latest votes list a text that was hardly ever delivered.
func (m *model) enough(text string) bool {
	b := m.votesOn(text)
	return max(b.Spam-b.Ham, b.Strength(verdict.Unit)) >= verdict.Unit
}

func (m *model) list(text string) bool {
	k := at(m.weeks()[0], text)
	turns := m.listed[k]
	if turns[1] == 64 {
		return false
	}
	m.listed[k] = [2]int{max(turns[0], turns[1]+1), turns[1]}
	return true
}

func (m *model) revoke(text string) {
	k := at(m.weeks()[0], text)
	turns := m.listed[k]
	m.listed[k] = [2]int{turns[0], max(turns[1], turns[0], 1)}
}

// supporters returns the members, except who, that voted spam and stand by it, with the newest week
// of such a vote.
func (m *model) supporters(text, who string) map[string]int {
	stands := func(voice string) bool {
		f, ok := m.last[text][voice]
		return ok && (f.kind == evidence.RootSpam || f.kind == evidence.StrangerSpam) && f.weight > 0 &&
			slices.Contains(m.weeks(), f.gen)
	}
	out := make(map[string]int)
	for _, name := range m.b.accounts.Members() {
		a, _ := m.b.accounts.Get(name)
		newest := slices.IndexFunc(m.weeks(), func(w uint64) bool { return m.voted[at(w, a.Voice(), bulkhead.Spam, text)] })
		if name != who && newest >= 0 && (stands(a.Voice()) || a.From.IsValid() && stands("network:"+trust.Voucher(a.From))) {
			out[name] = newest
		}
	}
	return out
}

// once reports whether nothing of the kind was done for a member since it last said so.
func (m *model) once(what, name, text string, newest int) bool {
	for _, w := range m.weeks()[:newest+1] {
		if m.voted[at(w, what, name, text)] {
			return false
		}
	}
	m.voted[at(m.weeks()[0], what, name, text)] = true
	return true
}

// report applies a report to the model.
func (m *model) report(r bulkhead.Report) (receipt bulkhead.Receipt) {
	if r.Vote == bulkhead.Sighting {
		return m.claim(r)
	}
	who, err := m.b.accounts.Standing(r.Reporter)
	if err != nil {
		m.b.t.Fatal(err)
	}
	name, units := r.Reporter.Account, int64(Units(who.Weight))
	if r.Reporter.User != "" {
		name = ""
	}
	if r.Trap && r.Vote == bulkhead.Spam {
		name, who.Confirms, who.Voice = "", false, "trap:"+trust.Voucher(r.Source.Client)
		units -= units / 2
	}
	voice := who.Voice
	if who.Voucher != "" {
		voice = "network:" + who.Voucher
	}
	today := trust.Day(m.b.now)
	if a, ok := m.b.accounts.Get(name); ok && a.Role == trust.Member && a.Active < today {
		m.credits = append(m.credits, trust.Credit{Account: name, Day: today})
	}
	var ballot ballots.Ballot
	weighed := false // the vote adds weight to a text
	var credits []trust.Credit
	credit := func(c trust.Credit) {
		if !slices.Contains(credits, c) {
			credits = append(credits, c)
		}
	}
	vote := fact{kind: weightKind(r.Vote, who.Root), weight: units, gen: m.weeks()[0]}
	for i := range r.Signatures {
		text, key := r.Signatures[i].String(), maker.Base(&r.Signatures[i])
		ballot.Items = append(ballot.Items, ballots.Item{Key: key, Facet: bulkhead.TextFacet})
		had, ok := m.last[text][voice]
		ok = ok && slices.Contains(m.weeks(), had.gen) && had.weight > 0
		fresh := !m.voted[at(vote.gen, who.Voice, r.Vote, text)]
		m.voted[at(vote.gen, who.Voice, r.Vote, text)] = true
		counted := fresh || ok && had.kind != vote.kind
		before, own := m.votesOn(text), m.own(text)
		wait := func() {
			if counted {
				receipt.Pending++
			}
		}
		if !counted {
			receipt.Duplicate++
		} else {
			receipt.Counted++
		}
		if first := !m.voted[at(vote.gen, voice, r.Vote, text)] || who.Voucher == ""; fresh && first {
			day := at(m.days()[0], text)
			n := m.voters[day]
			switch r.Vote {
			case bulkhead.Spam:
				n[0]++
			case bulkhead.Ham:
				n[1]++
			}
			m.voters[day] = n
			m.voted[at(vote.gen, voice, r.Vote, text)] = true
		}
		if r.Vote == bulkhead.Spam && fresh && who.Confirms && own != verdict.Listed && before.Spam+before.StrangerSpam > 0 {
			for member, newest := range m.supporters(text, name) {
				if m.once("confirmed", member, text, newest) {
					credit(trust.Credit{Account: member, Confirmed: 1, Day: today, Network: trust.Mark(r.Reporter), By: uint32(units)})
				}
			}
		}
		if m.last[text] == nil {
			m.last[text] = make(map[string]fact)
		}
		now := vote
		if ok && had.kind == now.kind {
			now.weight = max(now.weight, had.weight)
		}
		m.last[text][voice] = now
		weighed = weighed || !ok || had != now
		switch {
		case r.Vote == bulkhead.Spam && own == verdict.Listed && !who.Root:
			wait() // it is listed, and strangers do not make that last
		case r.Vote == bulkhead.Spam && (m.enough(text) || own == verdict.Listed && counted) && m.list(text):
			if own != verdict.Listed {
				receipt.Listed++
			}
		case r.Vote == bulkhead.Spam:
			wait()
		case own != verdict.Listed:
		case who.Root && m.votesOn(text).Lifts():
			m.revoke(text)
			receipt.Revoked++
			for member, newest := range m.supporters(text, name) {
				if m.once("reverted", member, text, newest) {
					credit(trust.Credit{Account: member, Reverted: 1, Day: today})
				}
			}
		case r.Vote == bulkhead.Revocation:
			wait()
		}
	}
	m.credits = append(m.credits, credits...)
	if who.Voucher == "" && units > 0 && weighed {
		ballot.Voice, ballot.Time = maker.Voice(who.Voice), uint64(m.b.now.Unix())
		m.votes = append(m.votes, ballot)
	}
	return receipt
}

// claim is a sighting of a stranger.
func (m *model) claim(r bulkhead.Report) (receipt bulkhead.Receipt) {
	for i := range r.Signatures {
		text, sum := r.Signatures[i].String(), uint32(0)
		for _, d := range m.days() {
			sum += m.claims[at(d, text)]
		}
		k := at(m.days()[0], "claim", trust.Voucher(r.Reporter.Addr), text)
		switch {
		case sum >= 10:
			receipt.Pending++
		case m.seen[k]:
			receipt.Duplicate++
		default:
			m.seen[k] = true
			m.claims[at(m.days()[0], text)]++
			receipt.Counted++
		}
	}
	return receipt
}

// retract retracts all votes of a voice on some texts.
func (m *model) retract(voice string, sigs []bulkhead.Signature) (delisted, relisted int) {
	for i := range sigs {
		text := sigs[i].String()
		delete(m.last[text], voice)
		switch own := m.own(text); {
		case own == verdict.Listed && !m.enough(text):
			m.revoke(text)
			delisted++
		case own == verdict.ListedRevoked && m.enough(text) && m.list(text):
			relisted++
		}
	}
	return delisted, relisted
}

// compare compares the records of the texts with the model.
func (m *model) compare(sigs []bulkhead.Signature) {
	m.b.t.Helper()
	keys := message(bulkhead.Report{Signatures: sigs}).Keys
	// Together with counts, weights are read only if there were votes in the last days.
	judged, counted := m.b.readAll(keys, evidence.Judgement), m.b.readAll(keys, evidence.Counts)
	for i, s := range sigs {
		text, got, counts := s.String(), judged[i], counted[i]
		var spam, ham, sightings uint32
		for _, d := range m.days() {
			n := m.voters[at(d, text)]
			spam, ham, sightings = spam+n[0], ham+n[1], sightings+m.claims[at(d, text)]
		}
		if got.Votes != m.votesOn(text) || got.Own != m.own(text) || counts.Spam != spam || counts.Ham != ham ||
			counts.Sightings != sightings {
			m.b.t.Fatalf("%s: votes %+v, state %d, %d for spam, %d against, %d seen; want %+v, %d, %d, %d, %d", text,
				got.Votes, got.Own, counts.Spam, counts.Ham, counts.Sightings, m.votesOn(text), m.own(text), spam, ham, sightings)
		}
	}
}

// lists compares how often the open week has listed anything, and taken it off, with the
// model.
func (m *model) lists(sigs []bulkhead.Signature) {
	m.b.t.Helper()
	var spam, revoked int
	for _, s := range sigs {
		turns := m.listed[at(m.weeks()[0], s.String())]
		spam, revoked = spam+turns[0], revoked+turns[1]
	}
	open := m.b.view.Block.Live[0]
	if got, gotRevoked := open.Spam.Keys(), open.Revoked.Keys(); m.exact &&
		(got != uint64(spam) || gotRevoked != uint64(revoked)) {
		m.b.t.Fatalf("%d listings and %d revocations of the week, want %d and %d", got, gotRevoked, spam, revoked)
	}
}

// decided compares the credits and ballots of the batch with the model.
func (m *model) decided(d *Decisions) {
	m.b.t.Helper()
	order := func(a, b trust.Credit) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	got, want := slices.Clone(d.Credits), m.credits
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		m.b.t.Fatalf("credits %+v, want %+v", got, want)
	}
	if len(d.Ballots)+len(m.votes) > 0 && !reflect.DeepEqual(d.Ballots, m.votes) {
		m.b.t.Fatalf("ballots %+v, want %+v", d.Ballots, m.votes)
	}
	m.credits, m.votes = nil, nil
}

// TestAgainstModel lets voters of all kinds report, revoke and claim, and undoes votes, over
// weeks and several in a batch. It compares receipts, weights, listings, counts, credits and
// ballots with maps.
func TestAgainstModel(t *testing.T) {
	plain := maker
	for seed := range uint64(seeds(6)) {
		maker = plain
		rng := rand.New(rand.NewPCG(seed, 5))
		exact, changes := seed%3 > 0, seed%2 > 0
		var secrets []filter.Secret // former ones, newest first
		b := newBooksOf(t, exact, 400_000)
		m := newModel(b, exact)
		policy := trust.DefaultPolicy()
		policy.Anonymous = 0.2
		b.accounts.SetPolicy(policy)
		voters(b)
		addr := func(n, host byte) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, n, host}) }
		b.put("tiny", trust.Trusted, 0.001) // a hundredth
		for i := range byte(4) {            // two of one network
			if err := b.accounts.Put(trust.Account{Name: fmt.Sprint("member", i), Role: trust.Member, Weight: 0.3,
				From: addr(i/2, i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.accounts.Put(trust.Account{Name: "mine", Role: trust.Member, Weight: 0.3, Person: "ann"}); err != nil {
			t.Fatal(err)
		}
		b.r.AccountsChanged()
		reporters := []bulkhead.Reporter{
			{Account: "a"}, {Account: "b", Addr: addr(9, 1)}, {Account: "c"}, {Account: "half"}, {Account: "x"},
			{Account: "mine"}, {Account: "tiny"},
			{Account: "member0"}, {Account: "member1"}, {Account: "member2"}, {Account: "member3"},
			{}, {User: "u1"}, {Account: "a", User: "u1"}, {Account: "a", User: "u2"}, {Addr: addr(0, 7)}, {Addr: addr(5, 7)},
			{Addr: addr(5, 8)},
		}
		var texts []bulkhead.Signature
		for i := range 5 {
			texts = append(texts, sig(bulkhead.Exact, i))
		}
		choose := func() []bulkhead.Signature {
			out := slices.Clone(texts)
			rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
			return out[:1+rng.IntN(2)]
		}
		for range 500 {
			b.begin()
			for range 1 + rng.IntN(3) {
				r := bulkhead.Report{Signatures: choose(), Reporter: reporters[rng.IntN(len(reporters))],
					Vote: bulkhead.Vote(1 + rng.IntN(3))}
				switch n := rng.IntN(20); {
				case n < 3:
					r.Vote, r.Reporter = bulkhead.Sighting, bulkhead.Reporter{Addr: addr(byte(rng.IntN(20)), byte(n))}
					r.Count, r.Recipients = 9, []string{"one"}
				case n == 3:
					r.Trap, r.Source.Client = true, addr(byte(rng.IntN(2)), byte(n))
				case n < 12:
					r.Vote = bulkhead.Spam
				}
				want := m.report(r)
				got, err := b.r.Report(message(r))
				if err != nil || got != want {
					t.Fatalf("seed %d: %+v: %+v, %v; want %+v", seed, r, got, err, want)
				}
			}
			m.decided(b.r.Decisions())
			b.apply()
			m.compare(texts)
			m.lists(texts)
			if rng.IntN(12) == 0 {
				m.undo(rng, choose())
				m.compare(texts)
			}
			switch rng.IntN(24) {
			case 0:
				b.pass(15 * day)
			case 1, 2, 3:
				b.pass(day)
			case 4:
				if changes && len(secrets) < keys.MaxSecrets-1 {
					secrets = append([]filter.Secret{maker.Secret}, secrets...)
					b.changeSecret(byte(100+len(secrets)), secrets...)
				}
			}
		}
	}
}

// undo retracts a voice's votes on some texts.
func (m *model) undo(rng *rand.Rand, sigs []bulkhead.Signature) {
	m.b.t.Helper()
	voices := []string{"account:a", "account:b", "account:x", "person:a=u1", "person:local", "person:ann",
		"network:" + trust.Voucher(netip.AddrFrom4([4]byte{198, 51, 5, 7}))}
	voice := voices[rng.IntN(len(voices))]
	var items []ballots.Item
	for i := range sigs {
		items = append(items, ballots.Item{Key: maker.Base(&sigs[i]), Facet: bulkhead.TextFacet})
	}
	m.b.begin()
	m.b.r.opts.Keys.Adopt(maker.Past)
	delisted, relisted := m.b.r.Retract(voice, items)
	m.b.apply()
	if wantOff, wantOn := m.retract(voice, sigs); delisted != wantOff || relisted != wantOn {
		m.b.t.Fatalf("undoing %s: %d off, %d on, want %d and %d", voice, delisted, relisted, wantOff, wantOn)
	}
}
