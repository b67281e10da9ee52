package shard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrRefused means that a change of a map is not possible, for the reason that the error has.
var ErrRefused = errors.New("shard: refused")

// refuse returns an error that wraps [ErrRefused].
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// next returns a copy of the map that may be changed, with the next version.
func (m *Map) next(note Note) *Map {
	n := *m
	n.Version++
	n.Shards = slices.Clone(m.Shards)
	n.Note = note
	// The clocks of administrators differ; edges follow the later note.
	n.Note.At = wire(note.At)
	if after := m.Note.At.Add(time.Millisecond); n.Note.At.Before(after) {
		n.Note.At = after
	}
	return &n
}

// Add returns a map with one more shard, which has no slots.
func (m *Map) Add(s Shard, note Note) (*Map, error) {
	if m.Has(s.Name) {
		return nil, refuse("shard %q is there already", s.Name)
	}
	if len(m.Shards) == maxShards {
		return nil, refuse("%d shards, limit %d", len(m.Shards)+1, maxShards)
	}
	n := m.next(note)
	at, _ := slices.BinarySearchFunc(n.Shards, s.Name, func(s Shard, name string) int { return cmp.Compare(s.Name, name) })
	n.Shards = slices.Insert(n.Shards, at, s)
	for slot, i := range n.owner {
		if int(i) >= at {
			n.owner[slot]++
		}
	}
	return n, n.validate()
}

// Set returns a map in which a shard has other addresses.
func (m *Map) Set(name string, urls []string, note Note) (*Map, error) {
	i := m.index(name)
	if i < 0 {
		return nil, m.unknown(name)
	}
	n := m.next(note)
	n.Shards[i].URLs = slices.Clone(urls)
	return n, n.validate()
}

// SetDefault returns a map in which another shard has the requests that name no mailbox.
func (m *Map) SetDefault(name string, note Note) (*Map, error) {
	n := m.next(note)
	n.Default = name
	if !m.Has(name) {
		return nil, m.unknown(name)
	}
	return n, nil
}

// Remove returns a map without a shard. The shard must have no slots, and must not be the default.
func (m *Map) Remove(name string, note Note) (*Map, error) {
	i := m.index(name)
	switch slots := len(m.SlotsOf(name)); {
	case i < 0:
		return nil, m.unknown(name)
	case slots > 0:
		return nil, refuse("shard %q has %d slots: drain it first", name, slots)
	case m.Default == name:
		return nil, refuse("shard %q is the default: name another one first", name)
	}
	n := m.next(note)
	n.Shards = slices.Delete(n.Shards, i, i+1)
	for slot, of := range n.owner {
		if int(of) > i {
			n.owner[slot]--
		}
	}
	return n, nil
}

// Level returns a map in which a shard has its even part of all slots. The slots come from the shards that have most,
// and each of these keeps at least the even part.
func (m *Map) Level(to string, note Note) (*Map, error) {
	if !m.Has(to) {
		return nil, m.unknown(to)
	}
	parts := 0
	for _, s := range m.Shards {
		if s.Name == to || len(m.SlotsOf(s.Name)) > 0 {
			parts++
		}
	}
	lacks := Slots/parts - len(m.SlotsOf(to))
	if lacks <= 0 {
		return nil, refuse("shard %q has its part of the slots, %d of %d", to, len(m.SlotsOf(to)), Slots)
	}
	return m.Move(to, "", lacks, note)
}

// Move returns a map in which some slots have another shard: the last ones of the shard from, or, if that is "", of the
// shards that have most.
func (m *Map) Move(to, from string, slots int, note Note) (*Map, error) {
	switch {
	case !m.Has(to):
		return nil, m.unknown(to)
	case from != "" && !m.Has(from):
		return nil, m.unknown(from)
	case from == to:
		return nil, refuse("from shard %q to itself", to)
	case slots <= 0:
		return nil, refuse("%d slots to move", slots)
	}
	counts := m.counts()
	others := Slots - counts[m.index(to)]
	if from != "" {
		others = counts[m.index(from)]
	}
	if slots > others {
		return nil, refuse("%d slots to move, %d are there", slots, others)
	}
	n, target := m.next(note), m.index(to)
	for range slots {
		source := m.index(from)
		if from == "" {
			source = most(counts, target)
		}
		n.take(source, target)
		counts[source]--
		counts[target]++
	}
	return n, nil
}

// Drain returns a map in which a shard has no slots. Each goes to the shard that has fewest of those that have any, or
// of all if no other has any: a shard without slots may be out of service.
func (m *Map) Drain(name string, note Note) (*Map, error) {
	source := m.index(name)
	counts := m.counts()
	switch {
	case source < 0:
		return nil, m.unknown(name)
	case len(m.Shards) == 1:
		return nil, refuse("%q is the only shard", name)
	case counts[source] == 0:
		return nil, refuse("shard %q has no slots", name)
	}
	n, empty := m.next(note), counts[source] == Slots
	for counts[source] > 0 {
		target := -1
		for i, c := range counts {
			if i != source && (c > 0 || empty) && (target < 0 || c < counts[target]) {
				target = i
			}
		}
		n.take(source, target)
		counts[source]--
		counts[target]++
	}
	return n, nil
}

// Restore returns a map with the shards and owners of an earlier one.
func (m *Map) Restore(earlier *Map, note Note) *Map {
	n := earlier.next(note)
	n.Version = m.Version + 1
	n.Note.At = m.next(note).Note.At
	return n
}

// take gives the last slot of a shard to another one. Both are indexes in Shards.
func (m *Map) take(from, to int) {
	for s := Slots - 1; s >= 0; s-- {
		if int(m.owner[s]) == from {
			m.owner[s] = uint8(to)
			return
		}
	}
}

// counts returns the number of slots of each shard.
func (m *Map) counts() []int {
	counts := make([]int, len(m.Shards))
	for _, i := range m.owner {
		counts[i]++
	}
	return counts
}

// most returns the index of the largest count except one; the first of several.
func most(counts []int, except int) int {
	at := -1
	for i, c := range counts {
		if i != except && (at < 0 || c > counts[at]) {
			at = i
		}
	}
	return at
}

func (m *Map) unknown(name string) error { return refuse("no shard is called %.40q", name) }

// Moved returns the number of slots that have another shard in the later map, by the names of both shards.
func Moved(earlier, later *Map) map[[2]string]int {
	out := make(map[[2]string]int)
	for s := range Slots {
		if from, to := earlier.Owner(s), later.Owner(s); from != to {
			out[[2]string{from, to}]++
		}
	}
	return out
}
