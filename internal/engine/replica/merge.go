package replica

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// An arrangement is a plan of the arrays of replicas to merge.
type arrangement struct {
	groups  []*group
	leaving []member // members that are still in memory
	idle    []member // members that leave the memory without being merged: their origin has no weight
	back    []member // cold lists that may no longer be merged
	stale   bool     // some group differs from the view's
}

// A group is the members of one future merged array.
type group struct {
	mergeKey
	old     *Merged // the existing merged array of the same members; nil if there is none
	members []member
	load    uint64 // keys
}

type member struct {
	origin string
	*remoteArray
}

// arrange groups the cold arrays of v, and enough arrays in memory to free lacks bytes. It takes
// counts before lists, and old generations first, because they no longer grow. Within a generation
// it takes the arrays with the fewest keys first, which lose the least accuracy.
func (s *Set) arrange(v *View, lacks uint64) *arrangement {
	a := &arrangement{}
	live := v.coldArrays()
	for _, m := range v.Merged {
		if !s.mayMerge(m.Array, m.weight) {
			continue
		}
		g := &group{mergeKey: m.mergeKey, old: m, load: m.load()}
		for _, c := range m.members {
			r := live[c]
			if r == nil || r.Weight != m.weight {
				g.old, a.stale = nil, true
				continue
			}
			g.members = append(g.members, member{r.ID, r.find(c.Key)})
			delete(live, c)
		}
		if len(g.members) > 0 {
			a.groups = append(a.groups, g)
		}
		if g.old == nil {
			g.load = 0
			for _, x := range g.members {
				g.load += x.keys()
			}
		}
	}
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			switch {
			case x.memory != nil || live[x.cold] == nil || r.Weight == 0:
			case !s.mayMerge(x.Array, r.Weight):
				a.stale = true
				a.back = append(a.back, member{r.ID, x})
			default:
				a.stale = true
				a.place(s, mergeKey{x.Key, r.Weight, x.cold.geometry}, member{r.ID, x})
			}
		}
	}
	if lacks > 0 {
		a.free(s, v, lacks+s.opts.Bytes/16)
	}
	return a
}

func (m member) keys() uint64 { return m.replicated().Keys() }

// place puts a member into the first group that takes it, or else into a new one.
func (a *arrangement) place(s *Set, key mergeKey, m member) {
	if !a.join(s, key, m) {
		a.groups = append(a.groups, &group{mergeKey: key, members: []member{m}, load: m.keys()})
	}
}

func (a *arrangement) join(s *Set, key mergeKey, m member) bool {
	for _, g := range a.groups {
		if g.mergeKey == key && g.load+m.keys() <= s.mergedKeys(key.geometry) {
			g.old, g.members, g.load = nil, append(g.members, m), g.load+m.keys()
			return true
		}
	}
	return false
}

// A candidate is an array that may leave the memory if it is merged.
type candidate struct {
	mergeKey
	member
}

// free chooses arrays that leave the memory.
func (a *arrangement) free(s *Set, v *View, goal uint64) {
	list, freed := a.candidates(s, v)
	alone := make(map[mergeKey]member) // members that wait for a second one
	for _, c := range list {
		if freed >= goal {
			break
		}
		key := c.mergeKey
		first, ok := alone[key]
		switch {
		case a.join(s, key, c.member):
			a.leaving = append(a.leaving, c.member)
		case ok && first.keys()+c.keys() <= s.mergedKeys(c.geometry):
			delete(alone, key)
			a.groups = append(a.groups, &group{mergeKey: key, members: []member{first, c.member}, load: first.keys() + c.keys()})
			a.leaving = append(a.leaving, first, c.member)
		default:
			if !ok {
				alone[key] = c.member
			}
			continue
		}
		freed += charged(c.memory)
	}
}

// mayMerge reports whether arrays of origins of the weight may be merged. Lists may not be merged
// if one such origin cannot list alone, because then the number of origins that list matters.
func (s *Set) mayMerge(a Array, weight float64) bool {
	return a == ArrayCounts || weight >= s.opts.Promotion()
}

// candidates returns the arrays that may leave the memory to be merged, in order. Arrays of origins
// without weight leave at once; freed is their memory in bytes.
func (a *arrangement) candidates(s *Set, v *View) (list []candidate, freed uint64) {
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			m := member{r.ID, x}
			switch {
			case x.memory == nil || x.cold != nil || x.hidden || r.marks[x.Key].partial != 0:
			case r.Weight == 0:
				a.idle, a.leaving = append(a.idle, m), append(a.leaving, m)
				freed += charged(x.memory)
			case s.mayMerge(x.Array, r.Weight):
				list = append(list, candidate{mergeKey{x.Key, r.Weight, x.memory.Geometry()}, m})
			}
		}
	}
	slices.SortStableFunc(list, func(x, y candidate) int {
		lists := func(c candidate) int {
			if c.mergeKey.Array == ArrayCounts {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(lists(x), lists(y)), cmp.Compare(x.mergeKey.Start, y.mergeKey.Start),
			cmp.Compare(x.keys(), y.keys()))
	})
	return list, freed
}

// Merge makes missing merged arrays. If it may write a checkpoint, it also reduces the replicas to
// their memory limit as far as merging can. It must run in the goroutine that writes checkpoints,
// since they replace the files that it reads.
//
// between runs a function between two batches of the writer. checkpoint writes a checkpoint,
// and is nil if none may be written.
func (s *Set) Merge(ctx context.Context, between func(func()), checkpoint func(context.Context) error) error {
	var a *arrangement
	leaving := make(map[*remoteArray]*cold)
	between(func() {
		view, lacks := s.View(), uint64(0)
		if checkpoint != nil {
			lacks = s.lacks(view, s.wanted.Swap(0))
		}
		a = s.arrange(view, lacks)
		for _, m := range a.leaving {
			leaving[m.remoteArray] = s.beginLeaving(m)
		}
	})
	if len(leaving) == 0 && !a.stale {
		return nil
	}
	err := s.makeMerged(ctx, a, leaving, between, checkpoint)
	if err != nil {
		between(func() {
			for x, c := range leaving {
				s.stopLeaving(x, c)
			}
		})
	}
	if errors.Is(err, ErrChanged) {
		s.Wake() // the leaving arrays stay, and nothing else might wake Merge again
	}
	return err
}

// beginLeaving makes an array in memory record its rounds from now on, because its file will not
// have them.
func (s *Set) beginLeaving(m member) *cold {
	c := newCold(m.origin, m.Key, m.memory.Geometry(), m.memory.Version(), m.memory.Keys())
	s.changeReplica(m.origin, func(r *Held) { r.put(&remoteArray{Key: m.Key, memory: m.memory, cold: c}) })
	return c
}

// stopLeaving cancels beginLeaving: the array stays in memory.
func (s *Set) stopLeaving(x *remoteArray, c *cold) {
	if r := s.View().holder(c); r != nil && r.find(c.Key).memory != nil {
		s.changeReplica(r.ID, func(r *Held) { r.put(x) })
	}
}

// holder returns the replica that has c, or nil.
func (v *View) holder(c *cold) *Held {
	for _, r := range v.Origins {
		if x := r.find(c.Key); x != nil && x.cold == c {
			return r
		}
	}
	return nil
}

// replace puts x in the place of c. The caller owns v.
func (v *View) replace(x *remoteArray, c *cold) {
	r := v.holder(c)
	i := slices.Index(v.Origins, r)
	v.Origins[i] = r.clone()
	v.Origins[i].put(x)
}

// ErrChanged means that the replicas changed during a merge. Another attempt will follow.
var ErrChanged = errors.New("replica: origins changed while they were merged")

func (s *Set) makeMerged(ctx context.Context, a *arrangement, leaving map[*remoteArray]*cold, between func(func()),
	checkpoint func(context.Context) error) error {
	if len(leaving) > 0 {
		if err := checkpoint(ctx); err != nil {
			return err
		}
	}
	var made []*making
	for _, g := range a.groups {
		if g.old != nil {
			continue
		}
		k := &making{Merged: &Merged{mergeKey: g.mergeKey}}
		for _, m := range g.members {
			c := m.cold
			if c == nil {
				c = leaving[m.remoteArray]
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := k.add(s, c, between); err != nil {
				return err
			}
		}
		k.filled = int64(k.cells.Stats().Effective) - int64(k.cells.Keys())
		made = append(made, k)
	}
	var back []*making
	for _, m := range a.back {
		k := &making{Merged: new(Merged)}
		if err := k.add(s, m.cold, between); err != nil {
			return err
		}
		back = append(back, k)
	}
	var err error
	between(func() { err = s.adopt(a, made, back, leaving) })
	return err
}

// A making is a merged array with the states that it was made from.
type making struct {
	*Merged
	states []coldState
	keys   []uint64 // in those states
}

func (k *making) add(s *Set, c *cold, between func(func())) error {
	var state coldState
	err := ErrChanged
	between(func() {
		if s.View().holder(c) != nil {
			state, err = c.now(), nil
		}
	})
	if err != nil {
		return err
	}
	array, err := s.thaw(state)
	if err != nil {
		return err
	}
	k.members, k.states, k.keys = append(k.members, c), append(k.states, state), append(k.keys, array.Keys())
	if k.cells == nil {
		k.cells = array
		return nil
	}
	return mergeInto(k.cells, array)
}

// catchUp adds later rounds to a merged array, or to the one array that returns to memory.
func (k *making) catchUp(back bool) error {
	for i, c := range k.members {
		for _, l := range c.later[len(k.states[i].later):] {
			r, err := l.parse(c)
			switch {
			case err != nil:
			case back:
				err = k.cells.ApplyRound(l.index, r, true)
			default:
				err = k.cells.AddRound(r)
			}
			if err != nil {
				return err
			}
		}
		c.counted(k.states[i], k.keys[i])
	}
	return nil
}

// adopt publishes a view with the arrangement, or returns an error and changes
// nothing.
func (s *Set) adopt(a *arrangement, made, back []*making, leaving map[*remoteArray]*cold) error {
	view := s.View()
	next := view.clone()
	next.Merged = nil
	for _, g := range a.groups {
		if g.old != nil && slices.Contains(view.Merged, g.old) {
			next.Merged = append(next.Merged, g.old)
		}
	}
	for _, k := range made {
		for _, c := range k.members {
			if r := view.holder(c); r == nil || r.Weight != k.weight {
				return ErrChanged
			}
		}
		next.Merged = append(next.Merged, k.Merged)
	}
	for _, m := range a.idle {
		if r := view.holder(leaving[m.remoteArray]); r == nil || r.Weight != 0 {
			return ErrChanged
		}
	}
	for _, k := range back {
		if r := view.holder(k.members[0]); r == nil || s.mayMerge(k.members[0].Array, r.Weight) {
			return ErrChanged
		}
	}
	for _, k := range made {
		if err := k.catchUp(false); err != nil {
			return err
		}
	}
	for _, k := range back {
		if err := k.catchUp(true); err != nil {
			return err
		}
		next.replace(&remoteArray{Key: k.members[0].Key, memory: k.cells}, k.members[0])
	}
	for _, c := range leaving {
		next.replace(&remoteArray{Key: c.Key, cold: c}, c)
	}
	next.refresh()
	s.view.Store(next)
	s.Crowd()
	s.trim()
	return nil
}
