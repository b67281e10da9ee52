package lists

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A Difference describes how a newer list differs from an older one.
type Difference struct {
	// Old and New are the numbers of different entries.
	Old, New uint64
	// Added counts the entries that only the newer list has, Removed those that only the older one
	// has.
	Added, Removed uint64
	// Exact is set if texts were compared. Otherwise the numbers are estimates, or too low by the
	// error rate.
	Exact bool
}

// DiffText compares two text files exactly. It calls added and removed, either of which may be nil,
// with each entry that differs. It holds a hash of 16 bytes for each entry in maps.
func DiffText(ctx context.Context, older, newer string, added, removed func(Entry)) (Difference, error) {
	was, err := hashes(ctx, older)
	if err != nil {
		return Difference{}, err
	}
	d := Difference{Old: uint64(len(was)), Exact: true}
	is := make(map[filter.Key]struct{}, len(was))
	err = eachEntry(ctx, newer, ParseEntry, func(e Entry) {
		k := hashOf(e)
		if _, again := is[k]; again {
			return
		}
		is[k] = struct{}{}
		if _, old := was[k]; !old {
			d.Added++
			if added != nil {
				added(e)
			}
		}
	})
	if err != nil {
		return Difference{}, err
	}
	d.New = uint64(len(is))
	err = eachEntry(ctx, older, ParseEntry, func(e Entry) {
		k := hashOf(e)
		if _, kept := is[k]; kept {
			return
		}
		is[k] = struct{}{} // report it once
		d.Removed++
		if removed != nil {
			removed(e)
		}
	})
	return d, err
}

// hashOf returns a hash that identifies e, with a collision probability of 2^-128 for each pair of
// entries.
func hashOf(e Entry) filter.Key { return filter.Secret{}.Key([]byte(e.Text)) }

func hashes(ctx context.Context, name string) (map[filter.Key]struct{}, error) {
	set := make(map[filter.Key]struct{})
	err := eachEntry(ctx, name, ParseEntry, func(e Entry) { set[hashOf(e)] = struct{}{} })
	return set, err
}

func eachEntry(ctx context.Context, name string, parse func(string) (Entry, error), f func(Entry)) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	defer file.Close()
	return eachLine(file, func(n int, line string) error {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch at := valueAt(line); {
		case at == 0:
			return nil
		case at > 0:
			line = strings.TrimSpace(line[:at])
		}
		e, err := parse(line)
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", name, n, err)
		}
		f(e)
		return nil
	})
}

// DiffNewer calls added, which may be nil, with the entries of a text file that the list does not
// hold. It misses a share of them, [List.ErrorRate], and never reports one that the list holds.
// Entries that only the list holds cannot be found. Lines are read as [Build] reads them. DiffNewer
// holds a hash of 16 bytes for each entry in a map.
func (l *List) DiffNewer(ctx context.Context, newer string, added func(Entry)) (Difference, error) {
	d := Difference{Old: l.Count()}
	seen := make(map[filter.Key]struct{})
	err := eachEntry(ctx, newer, l.parse, func(e Entry) {
		k := hashOf(e)
		if _, again := seen[k]; again {
			return
		}
		seen[k] = struct{}{}
		d.New++
		if !l.has(e) {
			d.Added++
			if added != nil {
				added(e)
			}
		}
	})
	return d, err
}

// Diff estimates how two lists that were built like each other differ, from the fill of both and
// the fill of their union.
func Diff(older, newer *List) (Difference, error) {
	if err := errors.Join(older.changeable(), newer.changeable()); err != nil {
		return Difference{}, err
	}
	var union List
	err := union.emptyLike(older)
	if err == nil {
		err = union.merge(older)
	}
	if err == nil {
		err = union.merge(newer)
	}
	if err != nil {
		return Difference{}, fmt.Errorf("lists: build one list like the other to compare them: %w", err)
	}
	d := Difference{Old: older.estimate(), New: newer.estimate()}
	both := union.estimate()
	d.Added, d.Removed = both-min(both, d.Old), both-min(both, d.New)
	return d, nil
}

// estimate returns the approximate number of elements of a list that can be changed. It inverts the
// expected fill; for a two-part filter that is the fill of section one.
func (l *List) estimate() uint64 {
	if l.bits != nil {
		return l.bits.Count()
	}
	fill, _ := l.filter.Fill()
	if fill >= 1 {
		return math.MaxUint64
	}
	s := l.filter.Shape()
	return uint64(math.Round(-float64(s.M1) / float64(s.K) * math.Log1p(-fill)))
}
