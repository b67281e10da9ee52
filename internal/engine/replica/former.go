package replica

import (
	"fmt"
	"slices"
)

// maxFormer is the maximum number of former incarnations of one origin that are kept, so that an
// origin that renews itself repeatedly takes a bounded number of replicas.
const maxFormer = 8

// Owner returns the ID of the origin that made the counts of r. It is r's own ID, unless r is the
// replica of a former incarnation, which has an ID of its own.
func (r *Held) Owner() string {
	if r.of != "" {
		return r.of
	}
	return r.ID
}

// A Former is the replica of an incarnation that its origin has lost.
type Former struct {
	ID          string // as [Set.Forget] and [Set.Arrays] take it
	Incarnation uint64
}

// Former returns the former incarnations of an origin that have replicas here, oldest first.
func (s *Set) Former(origin string) (out []Former) {
	for _, r := range s.View().Origins {
		if r.of == origin {
			out = append(out, Former{r.ID, r.incarnation})
		}
	}
	return out
}

// Renew begins a new incarnation of an origin. The replica of the previous incarnation continues to
// count, as a separate origin with the weight of its owner.
func (s *Set) Renew(origin string, incarnation uint64) {
	old := s.View().origin(origin)
	if old == nil {
		return
	}
	next := s.View().clone()
	if len(old.arrays) > 0 {
		next.keepFormer(old)
	}
	// In the same view, or a look-up in between would count the old arrays twice.
	i := slices.Index(next.Origins, old)
	next.Origins[i] = &Held{Origin: old.Origin, incarnation: incarnation}
	next.refresh()
	s.view.Store(next)
	s.settle()
}

// keepFormer adds a copy of old to v as a former incarnation. The caller owns v.
func (v *View) keepFormer(old *Held) {
	former := old.clone()
	// An owner's ID has up to 64 characters; this one has fewer, and survives its renaming.
	former.of, former.ID = old.ID, fmt.Sprintf("former%d%.24s", old.incarnation, old.ID)
	// A merged array may also have content that is back in memory, hidden until the array is made
	// again.
	for _, m := range v.Merged {
		m.rename(old.ID, former.ID)
	}
	for _, x := range former.arrays {
		if x.cold != nil {
			x.cold.origin = former.ID
		}
	}
	all := slices.DeleteFunc(slices.Clone(v.Origins), func(r *Held) bool { return r.of != old.ID })
	v.Origins = slices.DeleteFunc(v.Origins, func(r *Held) bool {
		return r.ID == former.ID || len(all) >= maxFormer && r == all[0]
	})
	v.Origins = append(v.Origins, former)
}

// Supersede drops arrays of an origin's former incarnations whose counts are in the restored
// present incarnation.
func (s *Set) Supersede(origin string, keys []Key) {
	next := s.View().clone()
	for i, r := range next.Origins {
		if r.of == origin {
			r = r.clone()
			r.keep(func(k Key) bool { return !slices.Contains(keys, k) })
			next.Origins[i] = r
		}
	}
	next.dropEmpty()
	s.view.Store(next)
	s.settle()
}

// dropEmpty drops the former incarnations without arrays. The caller owns v.
func (v *View) dropEmpty() {
	v.Origins = slices.DeleteFunc(v.Origins, func(r *Held) bool { return r.of != "" && len(r.arrays) == 0 })
}
