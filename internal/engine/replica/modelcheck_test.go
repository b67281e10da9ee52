package replica

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// live returns the slices of a peer that the set should hold.
func (w *world) live(p *peer) map[uint64]*slice { return w.kept(p, p.slices) }

func (w *world) kept(p *peer, all map[uint64]*slice) map[uint64]*slice {
	out := make(map[uint64]*slice)
	for start, g := range all {
		if p.counts && w.set.Book(ArrayCounts).Keeps(w.now, start) {
			out[start] = g
		}
	}
	return out
}

// compare compares look-ups with what the peers of each weight above 0 have.
func (w *world) compare(after string) {
	w.t.Helper()
	over := 0
	for _, weight := range []float64{0.5, 1} {
		counts, listed := make(map[uint64]uint32), [2]map[uint64]map[uint64]bool{{}, {}}
		for _, p := range w.peers {
			if p.Weight != weight {
				continue
			}
			lives := []map[uint64]*slice{w.live(p)}
			for _, f := range p.former {
				lives = append(lives, w.kept(p, f.slices))
			}
			for _, life := range lives {
				for start, g := range life {
					for k, n := range g.seen {
						counts[k] += n
					}
					for i := range listed {
						if listed[i][start] == nil {
							listed[i][start] = make(map[uint64]bool)
						}
						maps.Copy(listed[i][start], g.listed[i])
					}
				}
			}
		}
		for k := range uint64(modelKeys) {
			switch got := w.counted(weight, k); {
			case got < counts[k]:
				w.t.Fatalf("%s: key %d is counted %d times at weight %v, want %d", after, k, got, weight, counts[k])
			case got > counts[k]:
				over++
			}
			for i := range listed {
				for start, want := range listed[i] {
					if got := w.listed(weight, i, start, k); got != want[k] {
						w.t.Fatalf("%s: key %d of %s at weight %v, generation %d: %v, want %v", after, k, listArrays[i], weight, start,
							got, want[k])
					}
				}
			}
		}
	}
	if over > 1 { // some hundred keys in arrays for thousands
		w.t.Fatalf("%s: %d counts are too high", after, over)
	}
}

func (w *world) counted(weight float64, k uint64) (sum uint32) {
	out, v := make([]uint32, 1), w.set.View()
	for _, r := range v.Origins {
		for _, g := range r.Tally {
			if r.Weight == weight {
				g.Counts.CountBatch([]filter.Key{key(k)}, out)
				sum += out[0]
			}
		}
	}
	for _, m := range v.Counts {
		if m.Weight == weight {
			m.Counts.CountBatch([]filter.Key{key(k)}, out)
			sum += out[0]
		}
	}
	return sum
}

// listed reports whether an origin of the weight lists a key, or revokes it.
func (w *world) listed(weight float64, i int, start, k uint64) bool {
	var all []*arrays.Bits
	v := w.set.View()
	for _, r := range v.Origins {
		for _, g := range r.Block {
			if r.Weight == weight && g.Start == start {
				all = append(all, [2]*arrays.Bits{g.Spam, g.Revoked}[i])
			}
		}
	}
	for _, l := range v.Lists {
		if !slices.IsSortedFunc(l.Block, func(a, b *MergedBlock) int { return int(b.Start) - int(a.Start) }) {
			w.t.Fatal("merged lists are not in the order of their time")
		}
		for _, g := range l.Block {
			if l.Weight == weight && g.Start == start {
				all = append(all, [2][]*arrays.Bits{g.Spam, g.Revoked}[i]...)
			}
		}
	}
	return slices.ContainsFunc(all, func(b *arrays.Bits) bool { return b != nil && b.Has(key(k)) })
}

// held returns the states of all replicas.
func (w *world) held() (out []ArrayState) {
	for _, r := range w.set.View().Origins {
		out = append(out, w.set.Arrays(r.ID)...)
	}
	return out
}

// compareArrays compares the states of replicas with the arrays of the peers. exact says that a
// checkpoint has just been written, which counts the keys of cold arrays. The checkpoint itself
// stores the earlier number, which remains after a restart if nothing is merged.
func (w *world) compareArrays(exact bool) {
	w.t.Helper()
	sum := uint64(0)
	for _, p := range w.peers {
		states := w.set.Arrays(p.ID)
		if p.counts != (w.set.CheckOrigin(p.ID) == nil) || !p.counts && states != nil {
			w.t.Fatalf("%s counts: %v; held are %v", p.ID, p.counts, states)
		}
		if p.counts && p.life > 1 && w.set.Incarnation(p.ID) != p.life && w.done["gone"] == 0 {
			w.t.Fatalf("%s is in life %d, want %d", p.ID, w.set.Incarnation(p.ID), p.life)
		}
		sum += w.compareLife(p, p.ID, w.live(p), p.boots, exact)
		held := w.set.Former(p.ID)
		for _, f := range p.former {
			live := w.kept(p, f.slices)
			maps.DeleteFunc(live, func(_ uint64, g *slice) bool {
				return g.counts.Version()+g.lists[0].Version()+g.lists[1].Version() == 0
			})
			if len(live) == 0 {
				continue
			}
			if len(held) == 0 || held[0].Incarnation != f.life {
				w.t.Fatalf("former lives of %s are %v, want life %d next", p.ID, held, f.life)
			}
			sum += w.compareLife(p, held[0].ID, live, f.boots, exact)
			held = held[1:]
		}
		if len(held) > 0 {
			w.t.Fatalf("%s has former lives %v", p.ID, held)
		}
	}
	if got := w.set.View().Keys(); got != sum {
		w.t.Fatalf("%d keys, want %d", got, sum)
	}
}

// compareLife compares the states of a peer's replica, or of one of its former incarnations, with
// the peer's arrays, and returns the number of keys.
func (w *world) compareLife(p *peer, id string, live map[uint64]*slice, boots map[Key]uint64, exact bool) (sum uint64) {
	w.t.Helper()
	states := w.set.Arrays(id)
	want := make(map[Key]Versioned)
	for start, g := range live {
		for a, array := range map[Array]Versioned{ArrayCounts: g.counts, ArraySpam: g.lists[0], ArrayRevoked: g.lists[1]} {
			if array.Version() > 0 {
				want[Key{a, start}] = array
			}
		}
	}
	if !slices.IsSortedFunc(states, func(a, b ArrayState) int { return int(b.Start) - int(a.Start) }) {
		w.t.Fatalf("the arrays of %s are not in the order of their time: %v", id, states)
	}
	for _, s := range states {
		key := Key{s.Array, s.Start}
		array := want[key]
		delete(want, key)
		sum += s.Keys
		if array == nil {
			w.t.Fatalf("%s has %+v here, and nothing like it there", id, s)
		}
		keys := array.Keys()
		if s.Version != array.Version() || s.Geometry != array.Geometry() || s.Partial != 0 || s.Boot != boots[key] ||
			s.Keys < keys || s.Keys > keys && (!s.Merged || exact && p.Weight > 0) {
			w.t.Fatalf("%s has %+v, want %d keys in version %d, boot %d", id, s, keys, array.Version(), boots[key])
		}
		if s.Merged != (s.Bytes == 0) || s.Bytes > s.Geometry.Bytes()*5/4 {
			w.t.Fatalf("%s has %+v", id, s)
		}
		if shown := w.set.Shown(id, s.Array, s.Start); s.Merged && shown != 0 || shown > 0.01 {
			w.t.Fatalf("%s shows %v of %+v", id, shown, s)
		}
		w.compareMerged(p, id, s)
	}
	if len(want) > 0 {
		w.t.Fatalf("%s lacks %v", id, want)
	}
	return sum
}

// compareMerged checks that a cold array whose origin has weight is in one merged array, of
// its name and weight.
func (w *world) compareMerged(p *peer, id string, s ArrayState) {
	w.t.Helper()
	n, ghost := 0, 0.0
	for _, m := range w.set.View().Merged {
		if m.Array == s.Array && m.Start == s.Start && slices.Contains(m.Origins(), id) {
			n, ghost = n+1, m.Ghost()
			if m.Weight() != p.Weight {
				w.t.Fatalf("%+v of weight %v is merged at weight %v", s, p.Weight, m.Weight())
			}
		}
	}
	if want := s.Merged && p.Weight > 0; want != (n == 1) || n > 1 {
		w.t.Fatalf("%+v of %s, weight %v, is in %d merged arrays", s, id, p.Weight, n)
	}
	if n > 0 && s.Ghost != ghost || !s.Merged && s.Ghost != s.Geometry.GhostError(s.Keys) {
		w.t.Fatalf("%+v, and the merged array shows %v", s, ghost)
	}
	if s.Merged && p.Weight == 0 {
		w.done["put aside"]++
	}
	if name := fmt.Sprint(id, s.Array, s.Start); s.Array != ArrayCounts {
		if w.aside[name] && !s.Merged && p.Weight == 0.5 {
			w.done["back"]++
		}
		w.aside[name] = s.Merged
	}
}

// compareMemory checks that the set reports the merged arrays correctly, and merges as much as
// helps.
func (w *world) compareMemory() {
	w.t.Helper()
	v, m := w.set.View(), w.set.Memory()
	merged, into := 0, 0
	bytes := uint64(0)
	type kind struct {
		Key
		weight   float64
		geometry filter.Geometry
	}
	alone := make(map[kind]ArrayState)
	for _, r := range v.Origins {
		for _, s := range w.set.Arrays(r.ID) {
			bytes += s.Bytes
			k := kind{Key{s.Array, s.Start}, r.Weight, s.Geometry}
			switch other, ok := alone[k]; {
			case s.Merged && r.Weight > 0:
				merged++
			case s.Merged || m.Bytes <= m.Limit:
			case r.Weight == 0:
				w.t.Fatalf("%+v, and %+v of weight 0 is in memory", m, s)
			case s.Array != ArrayCounts && r.Weight < promotion:
			case ok:
				w.t.Fatalf("%+v, and %+v and %+v could be merged", m, s, other)
			default:
				alone[k] = s
			}
		}
	}
	for _, x := range v.Merged {
		into++
		w.done["merged "+string(x.Array)]++
		if x.Array != ArrayCounts && x.Weight() < promotion {
			w.t.Fatalf("lists of weight %v are merged", x.Weight())
		}
		bytes += charged(x.cells)
	}
	if m.Merged != merged || m.Into != into || m.Bytes != bytes || m.Limit == 0 {
		w.t.Fatalf("%+v, want %d merged into %d, %d bytes", m, merged, into, bytes)
	}
}
