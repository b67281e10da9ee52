package resolve

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// newFloorBooks returns books whose blocklist has a floor, and five voters of full weight.
func newFloorBooks(t *testing.T, floor uint32) (b *books, voters []string) {
	b = newBooks(t)
	o := blockOf
	o.Floor = floor
	b.block = book.NewBlocklist(o, 50_000, 50_000, maker.Secret.ID(), true, slog.New(slog.DiscardHandler))
	b.view.Block.Live = nil
	b.pass(0)
	voters = []string{"v0", "v1", "v2", "v3", "v4"}
	for _, name := range voters {
		b.put(name, trust.Trusted, 1)
	}
	return b, voters
}

// TestUnshared checks that peers learn from as many votes as the floor that a text is off the list, which they
// never saw as listed.
func TestUnshared(t *testing.T) {
	b, _ := newFloorBooks(t, 2)
	s := sig(bulkhead.Exact, 1)
	for i, tt := range []struct {
		name string
		vote bulkhead.Vote
		own  verdict.State
		ends uint64
	}{
		{"v0", bulkhead.Spam, verdict.Listed, 0}, {"v1", bulkhead.Ham, verdict.ListedRevoked, 0},
		{"v2", bulkhead.Ham, verdict.ListedRevoked, 1}, {"v3", bulkhead.Ham, verdict.ListedRevoked, 1},
	} {
		b.report(by(tt.name, tt.vote, s))
		open := b.view.Block.Live[0]
		if got := b.of(s).Own; got != tt.own || open.PublishedRevoked.Keys() != tt.ends || open.PublishedSpam.Keys() != 0 {
			t.Errorf("vote %d: %v at home, peers see %d listings and %d ends of them; want %v, none and %d", i, got,
				open.PublishedSpam.Keys(), open.PublishedRevoked.Keys(), tt.own, tt.ends)
		}
	}
}

// TestFloor compares what peers see of the blocklist with plain maps: a listing with as many roots
// as the floor, until the node takes it off, over random votes and weeks.
func TestFloor(t *testing.T) {
	const texts = 4
	for _, floor := range []uint32{2, 3} {
		for seed := range uint64(seeds(6)) {
			rng := rand.New(rand.NewPCG(seed, uint64(floor)))
			b, voters := newFloorBooks(t, floor)
			type state struct {
				votes map[string]bulkhead.Vote // the latest of each voter
				seen  bool                     // peers see it as listed
			}
			var all [texts]state
			for i := range all {
				all[i].votes = make(map[string]bulkhead.Vote)
			}
			for step := range 300 {
				n, name := rng.IntN(texts), voters[rng.IntN(len(voters))]
				vote := []bulkhead.Vote{bulkhead.Spam, bulkhead.Spam, bulkhead.Ham, bulkhead.Revocation}[rng.IntN(4)]
				s, x := sig(bulkhead.Exact, n), &all[n]
				was := b.of(s).Own == verdict.Listed
				receipt := b.report(by(name, vote, s))
				x.votes[name] = vote
				now, spam := b.of(s).Own == verdict.Listed, 0
				for _, v := range x.votes {
					if v == bulkhead.Spam {
						spam++
					}
				}
				switch {
				case !now:
					x.seen = false
				case (vote == bulkhead.Spam && receipt.Counted > 0 || !was) && spam >= int(floor):
					x.seen = true
				}
				b.begin()
				for i := range all {
					s := sig(bulkhead.Exact, i)
					if seen, _ := b.r.published(maker.Base(&s)); seen != all[i].seen {
						t.Fatalf("floor %d, seed %d, step %d: peers see text %d as listed %v, want %v with votes %v", floor, seed, step,
							i, seen, all[i].seen, all[i].votes)
					}
				}
				if rng.IntN(60) == 0 { // the votes of another week, and what they listed, are still there
					b.pass(7 * day)
				}
			}
		}
	}
}

// TestBatch: a report sees what earlier reports of its batch have decided.
func TestBatch(t *testing.T) {
	s, other := sig(bulkhead.Exact, 1), sig(bulkhead.Exact, 2)
	var claims, reports []*Message
	for i := range byte(15) {
		claims = append(claims, message(bulkhead.Report{Signatures: []bulkhead.Signature{s},
			Reporter: bulkhead.Reporter{Addr: addrIn(i)}}))
	}
	for i := range 6 {
		reports = append(reports, message(bulkhead.Report{Reporter: bulkhead.Reporter{Account: "a"},
			Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 10+i), sender(fmt.Sprint("s", i%3, ".example")),
				link("docs.example")}}))
	}
	b := newBooks(t)
	voters(b)
	pending, duplicate := 0, 0
	for _, receipt := range b.batch(slices.Concat(claims, claims[:3])...) {
		pending += receipt.Pending
		duplicate += receipt.Duplicate
	}
	// Ten strangers count. The limit comes before the question of whether one has counted already.
	if got := b.of(s).Sightings; got != 10 || pending != 8 || duplicate != 0 {
		t.Errorf("%d sightings by strangers, %d pending, %d twice; want 10, 8 and none", got, pending, duplicate)
	}
	b.batch(reports...)
	if got := b.of(link("docs.example")).Addresses; got != 3 {
		t.Errorf("%d senders of a link, want 3", got)
	}
	b.batch(message(by("a", bulkhead.Spam, other)), message(by("b", bulkhead.Spam, other)),
		message(by("a", bulkhead.Spam, other)), message(by("half", bulkhead.Ham, other)))
	if got := b.of(other); got.Votes.Spam != 200 || got.Votes.Ham != 50 || got.Spam != 2 {
		t.Errorf("%+v for two votes and half a one against", got)
	}
	b.put("half2", trust.Trusted, 0.5)
	halves := b.batch(message(by("half", bulkhead.Spam, sig(bulkhead.Exact, 3))),
		message(by("half2", bulkhead.Spam, sig(bulkhead.Exact, 3))))
	if halves[0].Listed != 0 || halves[1].Listed != 1 {
		t.Errorf("two halves of a vote: %+v, want the second to list", halves)
	}
	changes := []*Message{message(by("a", bulkhead.Spam, s)), message(by("a", bulkhead.Ham, s)),
		message(by("a", bulkhead.Spam, s)), message(by("a", bulkhead.Ham, s))}
	for i, receipt := range b.batch(changes...) {
		want := bulkhead.Receipt{Counted: 1, Listed: 1}
		if i%2 > 0 {
			want = bulkhead.Receipt{Counted: 1, Revoked: 1}
		}
		if receipt != want {
			t.Errorf("change %d of a vote: %+v, want %+v", i, receipt, want)
		}
	}
	if got := b.of(s); got.Own != verdict.ListedRevoked || got.Votes.Spam != 0 || got.Votes.Ham != 100 {
		t.Errorf("after four changes: %v, %+v", got.Own, got.Votes)
	}
}
