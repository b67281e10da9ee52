package mesh

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// organisations returns the bytes of n organisations in their order.
func organisations(n int) (b []byte) {
	for i := range n {
		b = binary.BigEndian.AppendUint64(b, uint64(i+1))
	}
	return b
}

// orgOf returns the organisation of a key.
func orgOf(id *Identity) Organisation { return Organisation(id.public.hint()) }

// claims makes a forger list organisations for its arrays.
func (f *forger) claims(t *testing.T, to *site, list ...Organisation) {
	t.Helper()
	slices.SortFunc(list, compareOrganisations)
	f.say(t, to, &message{kind: kindHead, organisations: list})
	synctest.Wait()
}

// TestNobodyTwice checks that an aggregate with an organisation that is counted already is not
// counted, and that its claim costs no other peer anything.
func TestNobodyTwice(t *testing.T) {
	other := Organisation{0xff, 1}
	for name, tt := range map[string]struct {
		claim  func(s *site, direct, unweighed, first *forger) Organisation
		reason string // "" if it is counted
	}{
		"somebody else":         {func(*site, *forger, *forger, *forger) Organisation { return Organisation{7} }, ""},
		"the node itself":       {func(s *site, _, _, _ *forger) Organisation { return orgOf(s.id) }, "this node is in it"},
		"a peer":                {func(_ *site, d, _, _ *forger) Organisation { return orgOf(d.id) }, "is counted already"},
		"a peer without weight": {func(_ *site, _, u, _ *forger) Organisation { return orgOf(u.id) }, ""},
		"one of another": {func(*site, *forger, *forger, *forger) Organisation {
			return other
		}, "is in it, and in forger"},
		"the key of an aggregate": {func(_ *site, _, _, f *forger) Organisation {
			return orgOf(f.id)
		}, ""}, // an aggregate counts nothing itself
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newMemBroker(rand.New(rand.NewPCG(1, 1)))
				s := newSite(t, k, nil)
				defer s.stop()
				direct, unweighed := newForger(t, k, s, 0.5), newForger(t, k, s, 0)
				first, it := newForger(t, k, s, 1), newForger(t, k, s, 1)
				first.claims(t, s, other, Organisation{1})
				it.claims(t, s, Organisation{2}, tt.claim(s, direct, unweighed, first))
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
		k := newMemBroker(rand.New(rand.NewPCG(1, 1)))
		s := newSite(t, k, nil)
		defer s.stop()
		it := newForger(t, k, s, 1)
		old := &message{kind: kindHead, stamp: it.at, organisations: []Organisation{{1}, {2}}, from: it.id.public.hint()}
		it.claims(t, s, Organisation{1})
		it.bring(t, s, it.topic(old), appendMessage(nil, old, it.id))
		synctest.Wait()
		if got := s.peerOf(t, it.id).Organisations; got != 1 {
			t.Errorf("%d organisations after an old head, want 1", got)
		}
		bubble.Advance(time.Second)
		it.at.incarnation += 5
		it.at.boot, it.at.at, it.at.seq = it.at.incarnation+1, it.at.incarnation+2, 0
		it.claims(t, s, Organisation{1}, orgOf(s.id))
		if got := s.peerOf(t, it.id).Quarantine; got == "" {
			t.Error("a new life with this node in it is counted")
		}
	})
}

// TestChoose checks that members are the named peers of full weight, with all their organisations.
func TestChoose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMemBroker(rand.New(rand.NewPCG(1, 1)))
		s := newSite(t, k, nil)
		defer s.stop()
		a, half, sum := newForger(t, k, s, 1), newForger(t, k, s, 0.5), newForger(t, k, s, 1)
		sum.claims(t, s, Organisation{8}, Organisation{9})
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
			slices.SortFunc(orgs, compareOrganisations)
			slices.SortFunc(all, compareOrganisations)
			if !slices.Equal(keys, want) || !slices.Equal(all, orgs) || left != 0 {
				t.Errorf("%q: %v with %v, %d left; want %v with %v", named, keys, all, left, want, orgs)
			}
		}
		check(nil, nil)
		check([]string{a.id.ID(), half.id.ID()}, []*forger{a}, orgOf(a.id))
		check([]string{"*"}, []*forger{a, sum}, orgOf(a.id), Organisation{8}, Organisation{9})
		check([]string{"mail"}, nil)
		if err := s.editPeer(t.Context(), a.id.ID(), func(mem *member) error { mem.Group = "mail"; return nil }); err != nil {
			t.Fatal(err)
		}
		check([]string{"mail"}, []*forger{a}, orgOf(a.id))
		s.quarantine(t.Context(), a.id.public.hint(), "a test")
		check([]string{"mail"}, nil)
		many, err := parseOrganisations(organisations(maxOrganisations))
		if err != nil {
			t.Fatal(err)
		}
		sum.claims(t, s, many...)
		if keys, all, left := s.Choose([]string{"*"}); len(keys) != 0 || len(all) != 1 || left != 1 {
			t.Errorf("%d members with %d organisations, %d left; want the node alone", len(keys), len(all), left)
		}
	})
}
