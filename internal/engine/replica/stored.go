package replica

import (
	"fmt"
	"io"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
)

// A Stored is the record of one origin's replica in a checkpoint.
type Stored struct {
	Origin
	Of          string        `json:"of,omitempty"` // owner, if it is a former incarnation
	Incarnation uint64        `json:"incarnation,omitempty"`
	Arrays      []StoredArray `json:"arrays"`
}

// A StoredArray is the record of one array of an origin in a checkpoint.
type StoredArray struct {
	Array    Array           `json:"array"`
	Start    uint64          `json:"start"`
	Geometry filter.Geometry `json:"geometry"`
	File     string          `json:"file"`
	Partial  uint64          `json:"partial,omitempty"` // see ArrayState
	Boot     uint64          `json:"boot,omitempty"`
	Cold     *StoredCold     `json:"cold,omitempty"` // nil if it is in memory
}

// A StoredCold is the record of a cold array in a checkpoint, besides its file.
type StoredCold struct {
	Version uint64 `json:"version"`
	Keys    uint64 `json:"keys"`
}

// A Snapshot is the replicas at the moment that a checkpoint records.
type Snapshot struct {
	set   *Set
	view  *View
	cold  map[*cold]coldState
	files []coldFile
}

// A coldFile is a cold array in a file of the checkpoint.
type coldFile struct {
	coldState
	name string
}

// Snapshot returns the present replicas, including arrays that are leaving the memory. The pages of
// these are written as they are at the time of writing, and their recorded rounds are all retained
// until then. The writer calls it.
func (s *Set) Snapshot() *Snapshot {
	n := &Snapshot{set: s, view: s.View(), cold: make(map[*cold]coldState)}
	for _, r := range n.view.Origins {
		for _, x := range r.arrays {
			switch {
			case x.cold == nil:
			case x.memory == nil:
				n.cold[x.cold] = x.cold.now()
			default:
				n.cold[x.cold] = coldState{cold: x.cold}
			}
		}
	}
	return n
}

// Origins returns the records of the replicas for the checkpoint, and registers the files that they
// name. It calls add for an array in memory. It calls file for the name of an array that is not,
// with a function that writes it, or nil if the file already exists.
func (n *Snapshot) Origins(between func(func()), add func(name string, array pages.Array),
	file func(name string, write func(io.Writer) error)) (out []Stored) {
	for _, r := range n.view.Origins {
		o := Stored{Origin: r.Origin, Of: r.of, Incarnation: r.incarnation}
		for _, x := range r.arrays {
			mark := r.marks[x.Key]
			a := StoredArray{
				Array: x.Array, Start: x.Start, Geometry: x.replicated().Geometry(), Partial: mark.partial, Boot: mark.boot,
				File: fmt.Sprintf("replica-%s-%s-%d", r.ID, x.Array, x.Start),
			}
			state, leaves := n.cold[x.cold]
			if x.memory != nil {
				add(a.File, x.memory)
			} else {
				a.Cold = &StoredCold{state.version, state.keys}
				var write func(io.Writer) error
				if len(state.later) > 0 || state.file != a.File {
					write = n.set.coldWriter(state, between)
				}
				file(a.File, write)
			}
			if leaves {
				n.files = append(n.files, coldFile{state, a.File})
			}
			o.Arrays = append(o.Arrays, a)
		}
		out = append(out, o)
	}
	n.set.last.Store(n)
	return out
}

// fileOf returns the name of the file that a cold array has in the checkpoint; "" if it has none.
func (n *Snapshot) fileOf(c *cold) string {
	if n != nil {
		for _, f := range n.files {
			if f.cold == c {
				return f.name
			}
		}
	}
	return ""
}

// Written records that the files of the checkpoint are in force. The writer calls it.
func (n *Snapshot) Written() {
	for _, f := range n.files {
		f.written(f.coldState, f.name)
	}
	n.set.last.CompareAndSwap(n, nil)
}

// Load restores the replicas from the records of a checkpoint, on start.
func (s *Set) Load(stored []Stored) error {
	v := &View{}
	for _, o := range stored {
		r := &Held{Origin: o.Origin, of: o.Of, incarnation: o.Incarnation, marks: make(map[Key]mark)}
		for _, a := range o.Arrays {
			if err := s.loadArray(r, a); err != nil {
				return err
			}
		}
		v.Origins = append(v.Origins, r)
	}
	s.view.Store(v)
	return nil
}

func (s *Set) loadArray(r *Held, a StoredArray) error {
	if n := s.opts.Store.Salvaged(); n != nil && n.Damaged(a.File) {
		return nil // the peer has the whole array, and sends it again to a node without it
	}
	key := Key{a.Array, a.Start}
	r.marks[key] = mark{a.Partial, a.Boot}
	if a.Cold != nil {
		c := newCold(r.ID, key, a.Geometry, a.Cold.Version, a.Cold.Keys)
		c.file = a.File
		r.put(&remoteArray{Key: key, cold: c})
		return nil
	}
	array, err := newReplicated(a.Array, a.Start, a.Geometry)
	if err != nil {
		return pages.Damaged(a.File, err)
	}
	r.put(&remoteArray{Key: key, memory: array})
	return pages.Load(s.opts.Store, a.File, array)
}
