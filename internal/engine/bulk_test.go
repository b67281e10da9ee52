package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// A claimant is a peer with a claimed number of sightings of a message.
type claimant struct {
	weight float64
	claims uint32
}

func ring(n int, weight float64, claims uint32) []claimant {
	return slices.Repeat([]claimant{{weight, claims}}, n)
}

// TestBulkByPeers: peers that could not list a message together do not make it bulk, regardless of
// the sightings and days that they claim.
func TestBulkByPeers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		own   uint32
		peers []claimant
		want  uint32 // sightings, at the usual threshold of 20
		bulk1 bool   // where one sighting is bulk
	}{
		{"400 by a peer of little weight", 0, ring(1, 0.05, 400), 1, false},
		{"a million", 0, ring(1, 0.05, 1_000_000), 1, false},
		{"as many as there can be", 0, ring(1, 0.05, filter.Many), 1, false},
		{"one sighting", 0, ring(1, 0.05, 1), 1, false},
		{"beside the node's own", 18, ring(1, 0.05, 400), 19, true},
		{"half a weight", 0, ring(1, 0.5, 400), 10, false},
		{"half a weight, honestly", 0, ring(1, 0.5, 7), 4, false},
		{"nearly all", 0, ring(1, 0.99, 400), 19, false},
		{"all", 0, ring(1, 1, 400), 400, true},
		{"two halves that agree", 0, ring(2, 0.5, 400), 20, true},
		{"two halves, one of which has seen less", 0, append(ring(1, 0.5, 400), claimant{0.5, 15}), 18, true},
		{"one that has seen it once does not vouch for another", 0, append(ring(1, 0.05, 1_000_000), claimant{0.95, 1}), 2,
			true},
		{"a ring", 0, ring(19, 0.05, 1_000_000), 19, false},
		{"a ring with the weight of one who lists", 0, ring(20, 0.05, 1_000_000), 20, true},
		{"a ring of hardly any weight", 0, ring(40, 0.01, 1_000_000), 8, false},
		{"a ring beside an honest peer", 0, append(ring(4, 0.05, 1_000_000), claimant{1, 9}), 13, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, clock := context.Background(), newClock()
			home, s := open(t, Options{Now: clock.Now}), sig(bulkhead.Exact, 1)
			var peers []*Engine
			var origins []Origin
			for i, p := range tt.peers {
				peers = append(peers, open(t, Options{Now: clock.Now}))
				if err := peers[i].Record(ctx, true); err != nil {
					t.Fatal(err)
				}
				origins = append(origins, Origin{ID: fmt.Sprint("p", i), Weight: p.weight})
			}
			if err := home.SetOrigins(ctx, origins); err != nil {
				t.Fatal(err)
			}
			// Count is what the doors of old protocols count with.
			if tt.own > 0 {
				if err := home.Count(ctx, []bulkhead.Signature{s}, []uint32{tt.own}); err != nil {
					t.Fatal(err)
				}
			}
			for day := range 3 {
				for i, p := range tt.peers {
					if day > 0 && p.claims < 400 {
						continue // an honest one has seen it no more
					}
					if day > 0 && p.weight == 1 {
						continue
					}
					if err := peers[i].Count(ctx, []bulkhead.Signature{s}, []uint32{p.claims}); err != nil {
						t.Fatal(err)
					}
					pass(t, peers[i], home, origins[i].ID)
				}
				v := verdictOf(t, home, s)
				if v.Sightings != tt.want || v.Bulk != (tt.want >= 20) || v.Bulk != (v.Class == bulkhead.ClassBulk) {
					t.Errorf("day %d: %d sightings, bulk %v, %v; want %d", day, v.Sightings, v.Bulk, v.Class, tt.want)
				}
				var look [1]bulkhead.Look
				if err := home.Look(ctx, []bulkhead.Signature{s}, look[:], bulkhead.Counts); err != nil ||
					look[0].Sightings != tt.want {
					t.Errorf("day %d: a look shows %d sightings, want %d; %v", day, look[0].Sightings, tt.want, err)
				}
				v, err := home.Check(ctx, bulkhead.Query{Signatures: []bulkhead.Signature{s}, Threshold: 1})
				if err != nil || v.Bulk != tt.bulk1 {
					t.Errorf("day %d, where one sighting is bulk: %+v, %v", day, v, err)
				}
				if day < 2 {
					clock.Advance(24 * time.Hour)
				}
				for _, e := range append(peers, home) {
					e.turnOver()
				}
			}
		})
	}
}

// TestMergedSpeakAsOne: peers whose counts were merged for lack of memory have one share of the
// threshold together, including the counts in their own arrays.
func TestMergedSpeakAsOne(t *testing.T) {
	ctx := context.Background()
	home, peers := crowded(t, 4)
	origins := home.Origins()
	for i := range origins {
		origins[i].Weight = 0.5
	}
	if err := home.SetOrigins(ctx, origins); err != nil {
		t.Fatal(err)
	}
	g := peers[0].Own()[0].Geometry
	for n := 1; n < 1<<len(peers); n++ { // known to the peers whose bits it has
		for i, p := range peers {
			if n>>i&1 != 0 {
				report(t, p, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}, Count: 400})
			}
		}
	}
	for i, p := range peers {
		home.Room("", Need{Geometry: g, Pages: g.Pages()})
		settled(t, home)
		pass(t, p, home, origins[i].ID)
	}
	settled(t, home)
	merged := home.replicas.View().Counts
	if len(merged) == 0 {
		t.Fatal("nothing was merged")
	}
	for n := 1; n < 1<<len(peers); n++ {
		voices := make(map[string]bool)
		for i := range peers {
			if n>>i&1 == 0 {
				continue
			}
			name := origins[i].ID
			for _, m := range merged {
				if slices.Contains(m.Origins, name) {
					name = m.Origins[0]
				}
			}
			voices[name] = true
		}
		if v := verdictOf(t, home, sig(bulkhead.Exact, n)); v.Sightings != 10*uint32(len(voices)) ||
			v.Bulk != (len(voices) > 1) {
			t.Errorf("known to peers %04b: %d sightings, bulk %v; want 10 of each of %d voices", n, v.Sightings, v.Bulk,
				len(voices))
		}
	}
	if err := home.RenameOrigin(ctx, merged[0].Origins[0], "renamed"); err != nil {
		t.Fatal(err)
	}
	if all := home.replicas.View().Counts; !slices.Contains(all[0].Origins, "renamed") {
		t.Errorf("merged are %v, one of which has another name", all[0].Origins)
	}
}
