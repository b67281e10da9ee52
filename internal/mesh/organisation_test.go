package mesh

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// orgOf returns the organisation of a key.
func orgOf(id *member.Identity) wire.Organisation { return Organisation(id.Hint()) }

// claims makes a forger list organisations for its arrays.
func (f *forger) claims(t *testing.T, to *site, list ...Organisation) {
	t.Helper()
	slices.SortFunc(list, wire.CompareOrganisations)
	f.say(t, to, &wire.Message{Kind: wire.KindHead, Organisations: list})
	synctest.Wait()
}

// TestNobodyTwice checks that an aggregate with an organisation that is counted already is not
// counted, and that its claim costs no other peer anything.
func TestNobodyTwice(t *testing.T) {
	other := wire.Organisation{0xff, 1}
	for name, tt := range map[string]struct {
		claim  func(s *site, direct, unweighed, first *forger) wire.Organisation
		reason string // "" if it is counted
	}{
		"somebody else": {func(*site, *forger, *forger, *forger) wire.Organisation { return wire.Organisation{7} },
			""},
		"the node itself": {func(s *site, _, _, _ *forger) wire.Organisation { return orgOf(s.id) },
			"this node is in it"},
		"a peer": {func(_ *site, d, _, _ *forger) wire.Organisation { return orgOf(d.id) },
			"is counted already"},
		"a peer without weight": {func(_ *site, _, u, _ *forger) wire.Organisation { return orgOf(u.id) }, ""},
		"one of another": {func(*site, *forger, *forger, *forger) wire.Organisation {
			return other
		}, "is in it, and in forger"},
		"the key of an aggregate": {func(_ *site, _, _, f *forger) wire.Organisation {
			return orgOf(f.id)
		}, ""}, // an aggregate counts nothing itself
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := meshtest.NewBroker(rand.New(rand.NewPCG(1, 1)))
				s := newSite(t, k, nil)
				defer s.stop()
				direct, unweighed := newForger(t, k, s, 0.5), newForger(t, k, s, 0)
				first, it := newForger(t, k, s, 1), newForger(t, k, s, 1)
				first.claims(t, s, other, wire.Organisation{1})
				it.claims(t, s, wire.Organisation{2}, tt.claim(s, direct, unweighed, first))
				why := s.peerOf(t, it.id).Quarantine
				if (why == "") != (tt.reason == "") || !strings.Contains(why, tt.reason) {
					t.Errorf("quarantine %q, want %q in it", why, tt.reason)
				}
				for _, honest := range []*forger{direct, first} {
					if p := s.peerOf(t, honest.id); p.Quarantine != "" {
						t.Errorf("a peer that was counted before is not any more: %s", p.Quarantine)
					}
				}
				if got := s.peerOf(t, it.id).Organisations; got != 2 {
					t.Errorf("%d organisations shown, want 2", got)
				}
				// A peer that is no longer counted conflicts with no aggregate.
				if err := s.EvictPeer(t.Context(), first.id.ID()); err != nil {
					t.Fatal(err)
				}
				if err := s.WeighPeer(t.Context(), it.id.ID(), 1); err != nil {
					t.Fatal(err)
				}
				it.claims(t, s, other)
				if p := s.peerOf(t, it.id); p.Quarantine != "" {
					t.Errorf("quarantine %q after the other was evicted", p.Quarantine)
				}
			})
		})
	}
}

// TestOldClaims checks that an aggregate's former list is not taken for its present one, and that
// the list of a new incarnation is accepted.
func TestOldClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := meshtest.NewBroker(rand.New(rand.NewPCG(1, 1)))
		s := newSite(t, k, nil)
		defer s.stop()
		it := newForger(t, k, s, 1)
		old := &wire.Message{Kind: wire.KindHead, Stamp: it.at, Organisations: []wire.Organisation{{1}, {2}},
			From: it.id.Hint()}
		it.claims(t, s, wire.Organisation{1})
		it.bring(t, s, it.topic(old), wire.AppendMessage(nil, old, it.id))
		synctest.Wait()
		if got := s.peerOf(t, it.id).Organisations; got != 1 {
			t.Errorf("%d organisations after an old head, want 1", got)
		}
		bubble.Advance(time.Second)
		it.at.Incarnation += 5
		it.at.Boot, it.at.At, it.at.Seq = it.at.Incarnation+1, it.at.Incarnation+2, 0
		it.claims(t, s, wire.Organisation{1}, orgOf(s.id))
		if got := s.peerOf(t, it.id).Quarantine; got == "" {
			t.Error("a new life with this node in it is counted")
		}
	})
}

// TestChoose checks that members are the named peers of full weight, with all their organisations.
func TestChoose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := meshtest.NewBroker(rand.New(rand.NewPCG(1, 1)))
		s := newSite(t, k, nil)
		defer s.stop()
		a, half, sum := newForger(t, k, s, 1), newForger(t, k, s, 0.5), newForger(t, k, s, 1)
		sum.claims(t, s, wire.Organisation{8}, wire.Organisation{9})
		check := func(named []string, members []*forger, orgs ...Organisation) {
			t.Helper()
			keys, all, left := s.Choose(named)
			var want []string
			for _, m := range members {
				want = append(want, m.id.ID())
			}
			slices.Sort(want)
			slices.Sort(keys)
			orgs = append(orgs, orgOf(s.id))
			slices.SortFunc(orgs, wire.CompareOrganisations)
			slices.SortFunc(all, wire.CompareOrganisations)
			if !slices.Equal(keys, want) || !slices.Equal(all, orgs) || left != 0 {
				t.Errorf("%q: %v with %v, %d left; want %v with %v", named, keys, all, left, want, orgs)
			}
		}
		check(nil, nil)
		check([]string{a.id.ID(), half.id.ID()}, []*forger{a}, orgOf(a.id))
		check([]string{"*"}, []*forger{a, sum}, orgOf(a.id), wire.Organisation{8}, wire.Organisation{9})
		check([]string{"mail"}, nil)
		if err := s.EditPeer(t.Context(), a.id.ID(),
			func(mem *member.Entry) error { mem.Group = "mail"; return nil }); err != nil {
			t.Fatal(err)
		}
		check([]string{"mail"}, []*forger{a}, orgOf(a.id))
		s.Quarantine(t.Context(), a.id.Hint(), "a test")
		check([]string{"mail"}, nil)
		many := make([]wire.Organisation, wire.MaxOrganisations)
		for i := range many {
			binary.BigEndian.PutUint64(many[i][:], uint64(i+1))
		}
		sum.claims(t, s, many...)
		if keys, all, left := s.Choose([]string{"*"}); len(keys) != 0 || len(all) != 1 || left != 1 {
			t.Errorf("%d members with %d organisations, %d left; want the node alone", len(keys), len(all), left)
		}
	})
}
