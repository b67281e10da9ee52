package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
)

// maxLater is the number of bytes of rounds since the last checkpoint from which a cold array
// causes the next checkpoint.
const maxLater = 8 << 20

// A cold array is an array of a replica whose lines are on disk. Look-ups read the merged array of
// which it is a member. Its file and the later rounds keep it complete, so that it can be taken out
// of the merged array again.
//
// Only the writer changes it. Other goroutines read version and keys.
type cold struct {
	Key
	origin   string // whose array it is
	geometry filter.Geometry
	version  atomic.Uint64
	keys     atomic.Uint64

	file  string       // of the checkpoint in force
	later []laterRound // oldest first; some may be in the file already
	bytes int          // of later
}

// A laterRound is the body of a round, with the version at which it begins and the index of its
// journal entry. Pages of the file that already include the entry skip it.
type laterRound struct {
	index uint64
	from  uint64
	body  []byte
}

func (l *laterRound) parse(c *cold) (*arrays.Round, error) {
	return arrays.ParseRoundBody(l.body, c.geometry, c.Start, l.from)
}

func newCold(origin string, key Key, g filter.Geometry, version, keys uint64) *cold {
	c := &cold{Key: key, origin: origin, geometry: g}
	c.version.Store(version)
	c.keys.Store(keys)
	return c
}

// Geometry implements [replicated].
func (c *cold) Geometry() filter.Geometry { return c.geometry }

// Version implements [replicated].
func (c *cold) Version() uint64 { return c.version.Load() }

// Keys implements [replicated]. It assumes that all keys of later rounds are new.
func (c *cold) Keys() uint64 { return c.keys.Load() }

// take appends a round to the later rounds.
func (c *cold) take(index uint64, p Parsed) {
	body := bytes.Clone(p.Round) // without the message or entry that it came in
	c.later = append(c.later, laterRound{index, p.From, body})
	c.bytes += len(p.Round)
	c.version.Store(p.round.To)
	c.keys.Add(uint64(p.round.Len()))
}

// A coldState is a cold array at one moment. It does not change with the array.
type coldState struct {
	*cold
	file    string
	later   []laterRound
	version uint64
	keys    uint64
}

func (c *cold) now() coldState {
	return coldState{c, c.file, c.later, c.version.Load(), c.keys.Load()}
}

// written records that the checkpoint in force has the state s in a file.
func (c *cold) written(s coldState, file string) {
	c.file = file
	c.later = c.later[len(s.later):]
	c.bytes = 0
	for _, l := range c.later {
		c.bytes += len(l.body)
	}
}

// counted corrects the number of keys, given the true number of keys in the state s.
func (c *cold) counted(s coldState, keys uint64) { c.keys.Add(keys - s.keys) }

// thaw loads a cold array as it was in a state.
func (s *Set) thaw(c coldState) (loaded, error) {
	array, err := newReplicated(c.Array, c.Start, c.geometry)
	if err != nil {
		return nil, err
	}
	err = pages.Load(s.opts.Store, c.file, array)
	if name := s.last.Load().fileOf(c.cold); errors.Is(err, fs.ErrNotExist) && name != "" {
		// The last checkpoint is in force, and Written is yet to come. Its origin had another name before.
		err = pages.Load(s.opts.Store, name, array)
	}
	if err != nil {
		return nil, err
	}
	for _, l := range c.later {
		r, err := l.parse(c.cold)
		if err == nil {
			err = array.ApplyRound(l.index, r, true)
		}
		if err != nil {
			return nil, fmt.Errorf("replica: round after %s: %w", c.file, err)
		}
	}
	if v := array.Version(); v != c.version {
		return nil, pages.Damaged(c.file, fmt.Errorf("version %d with the rounds since, want %d", v, c.version))
	}
	return array, nil
}

// coldWriter returns a function that writes the array as it was in a state.
func (s *Set) coldWriter(c coldState, between func(func())) func(io.Writer) error {
	return func(w io.Writer) error {
		array, err := s.thaw(c)
		if err != nil {
			return err
		}
		between(func() { c.counted(c, array.Keys()) })
		return pages.Writer(array, func(f func()) { f() })(w)
	}
}

// ThawAll brings all cold arrays back into memory if there is room for them, for example after the
// limit was raised or origins were removed. It runs on start.
func (s *Set) ThawAll() error {
	next := s.View().clone()
	cold := next.coldArrays()
	bytes := uint64(0)
	for c := range cold {
		bytes += c.geometry.Bytes()
	}
	if len(cold) == 0 || s.lacks(next, bytes) > 0 {
		return nil
	}
	for c := range cold {
		array, err := s.thaw(c.now())
		if err != nil {
			return err
		}
		next.replace(&remoteArray{Key: c.Key, memory: array}, c)
	}
	s.view.Store(next)
	return nil
}

// warm brings the cold arrays of an origin that receive images back into memory.
func (s *Set) warm(origin string, parts []Parsed) error {
	for _, p := range parts {
		i := slices.IndexFunc(s.View().Origins, func(r *Held) bool { return r.ID == origin })
		if p.image == nil || i < 0 {
			continue
		}
		next := s.View().clone()
		x := next.Origins[i].find(Key{p.Array, p.Start})
		if x == nil || x.cold == nil {
			continue
		}
		array := x.memory
		if array == nil {
			var err error
			if array, err = s.thaw(x.cold.now()); err != nil {
				return err
			}
		}
		next.Origins[i] = next.Origins[i].clone()
		next.Origins[i].put(&remoteArray{Key: x.Key, memory: array})
		next.refresh() // in the same view
		s.view.Store(next)
		s.settle()
	}
	return nil
}

// Copy returns an array of an origin, page by page, and its version. It returns an error that wraps
// [ErrGap] if there is no such array or images of it are missing. It reads an array that is not in
// memory from its file. It must run between two batches.
func (s *Set) Copy(origin string, key Key) (version uint64, images []*arrays.Image, err error) {
	r := s.View().origin(origin)
	var x *remoteArray
	if r != nil {
		x = r.find(key)
	}
	if x == nil || r.marks[key].partial != 0 {
		return 0, nil, fmt.Errorf("%w: %s of generation %d of origin %.128q is not whole", ErrGap, key.Array, key.Start,
			origin)
	}
	array, err := s.whole(x)
	if err != nil {
		return 0, nil, err
	}
	for p := range array.Geometry().Pages() {
		images = append(images, array.Image(p))
	}
	return array.Version(), images, nil
}

// whole returns an array with all its content, if necessary from its file.
func (s *Set) whole(x *remoteArray) (loaded, error) {
	if x.memory != nil {
		return x.memory, nil
	}
	return s.thaw(x.cold.now())
}

// CopyPages returns pages of an array of an origin. A page that the replica does not have is nil,
// since images of the array may be missing. CopyPages returns an error that wraps [ErrGap] if there
// is no such array or it has another geometry.
func (s *Set) CopyPages(origin string, key Key, g filter.Geometry, list []int) ([]*arrays.Image, error) {
	var x *remoteArray
	if r := s.View().origin(origin); r != nil {
		x = r.find(key)
	}
	if x == nil || x.replicated().Geometry() != g {
		return nil, fmt.Errorf("%w: no %s of generation %d and that shape of origin %.128q", ErrGap, key.Array, key.Start,
			origin)
	}
	array, err := s.whole(x)
	if err != nil {
		return nil, err
	}
	images := make([]*arrays.Image, len(list))
	for i, p := range list {
		if p >= 0 && p < g.Pages() {
			images[i] = array.Image(p)
		}
	}
	return images, nil
}
