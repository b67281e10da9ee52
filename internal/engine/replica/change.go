package replica

import (
	"errors"
	"fmt"
	"maps"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// A Parsed is a part whose bytes have been decoded. Only [Set.Parse] makes one.
type Parsed struct {
	Part
	round *arrays.Round
	image *arrays.Image
}

// Adds returns the round, or nil if the part is an image. The caller must not change the round.
func (p *Parsed) Adds() *arrays.Round { return p.round }

// Parse decodes and checks a part, whose bytes are untrusted, and retains them. Any goroutine may
// call it.
func (s *Set) Parse(part Part) (Parsed, error) {
	p := Parsed{Part: part}
	kind := filter.Bitmap
	switch p.Array {
	case ArrayCounts:
		kind = filter.Cells
	case ArraySpam, ArrayRevoked:
	default:
		return p, fmt.Errorf("%w: part of array %.20q", bulkhead.ErrMalformed, p.Array)
	}
	if err := s.admitGeometry(p.Geometry, kind); err != nil {
		return p, err
	}
	if err := p.decode(); err != nil {
		return p, fmt.Errorf("%w: part of %s, generation %d: %v", bulkhead.ErrMalformed, p.Array, p.Start, err)
	}
	return p, nil
}

func (p *Parsed) decode() (err error) {
	switch {
	case len(p.Round) > 0 && len(p.Image) == 0:
		p.round, err = arrays.ParseRoundBody(p.Round, p.Geometry, p.Start, p.From)
		if err == nil && p.round.To != p.To {
			err = fmt.Errorf("a round from version %d to %d where %d is announced", p.From, p.round.To, p.To)
		}
		return err
	case len(p.Image) == 0 || len(p.Round) > 0:
		return errors.New("neither a round nor an image")
	}
	if p.image, err = arrays.ParseImage(p.Image, p.Geometry); err != nil {
		return err
	}
	if f := p.image.Floor(); f != 0 {
		return fmt.Errorf("a page with counts below a floor of %d, which its node does not share", f)
	}
	// The number of keys determines how full an array is, and how much a peer may add.
	if p.image.Info.Keys > maxImageKeys {
		return fmt.Errorf("%d keys in a page of %d cells or bits", p.image.Info.Keys, maxImageKeys)
	}
	if p.image.Generation != p.Start {
		return fmt.Errorf("generation %d in a part of %d", p.image.Generation, p.Start)
	}
	return nil
}

// maxImageKeys is more keys than a page of an unmerged array can have, since each key has set a
// cell or bit that was not set before. It is far below the number that makes a page unreadable,
// which a replica therefore cannot reach by rounds.
const maxImageKeys = arrays.PageBytes * 8

// maxRemoteLines bounds the array that a peer can make this node allocate: 1 GiB.
const maxRemoteLines = 1 << 24

func (s *Set) admitGeometry(g filter.Geometry, kind filter.Kind) error {
	if err := g.Validate(); err != nil {
		return fmt.Errorf("%w: %v", bulkhead.ErrGeometry, err)
	}
	switch {
	case g.Kind != kind:
		return fmt.Errorf("%w: %s array, want %s", bulkhead.ErrGeometry, g.Kind, kind)
	case !s.opts.Known(g.KeyID):
		return fmt.Errorf("%w: network key %016x, which this node has not", bulkhead.ErrGeometry, g.KeyID)
	case g.Lines > maxRemoteLines:
		return fmt.Errorf("%w: array of %d lines, limit %d", bulkhead.ErrOverLimit, g.Lines, maxRemoteLines)
	}
	return nil
}

// Prepare prepares the replica of an origin for Apply. It returns an error unless all the parts may
// be taken. The error wraps [ErrGap] if a round does not continue the replica, and
// [bulkhead.ErrForbidden] if the origin does not count. Only the writer calls it.
func (s *Set) Prepare(origin string, parts []Parsed) error {
	view := s.View()
	images, rounds := make(map[Key]bool), make(map[Key]bool)
	for _, p := range parts {
		// An entry gives one index to each page that it changes, so it has either images or one
		// round for an array.
		key := Key{p.Array, p.Start}
		if p.round != nil && (rounds[key] || images[key]) || p.image != nil && rounds[key] {
			return fmt.Errorf("%w: two rounds, or a round and images, of %s, generation %d, at once", bulkhead.ErrMalformed,
				p.Array, p.Start)
		}
		if p.round != nil {
			rounds[key] = true
		} else {
			images[key] = true
		}
		if !s.opts.Keeps(s.Book(p.Array), p.Start) {
			return fmt.Errorf("%w: part of a generation that starts at %d", bulkhead.ErrMalformed, p.Start)
		}
		if err := s.continues(view, origin, p); err != nil {
			return err
		}
	}
	return s.warm(origin, parts)
}

// continues returns an error unless the part continues the origin's replica.
func (s *Set) continues(view *View, origin string, p Parsed) error {
	r := view.origin(origin)
	if r == nil {
		return fmt.Errorf("%w: origin %.128q does not count here", bulkhead.ErrForbidden, origin)
	}
	var array Versioned
	if x := r.find(Key{p.Array, p.Start}); x != nil {
		array = x.replicated()
	}
	switch {
	case array != nil && array.Geometry() != p.Geometry:
		return fmt.Errorf("%w: part of %v for a replica of %v", bulkhead.ErrGeometry, p.Geometry, array.Geometry())
	case p.round == nil:
		return nil
	case r.marks[Key{p.Array, p.Start}].partial != 0:
		return fmt.Errorf("%w: images of the array are still missing", ErrGap)
	case array == nil && p.round.From != 0:
		return fmt.Errorf("%w: a round from version %d of an array that is not here", ErrGap, p.round.From)
	case array != nil && array.Version() != p.round.From:
		return fmt.Errorf("%w: a round from version %d, the replica is at %d", ErrGap, p.round.From, array.Version())
	}
	return nil
}

// Apply takes the parts of a durable journal entry into the replica. On replay it skips the parts
// of an origin that has been evicted since. Only the writer calls it.
func (s *Set) Apply(index uint64, origin string, parts []Parsed, replayed bool) error {
	if s.View().origin(origin) == nil {
		return nil
	}
	if err := s.warm(origin, parts); err != nil {
		return err
	}
	before, held := s.View(), s.View().origin(origin).resident()
	for _, p := range parts {
		if err := s.applyPart(index, origin, p, replayed); err != nil {
			return fmt.Errorf("replica of %s: %w", origin, err)
		}
	}
	s.mark(origin, parts)
	// Arrays take memory as they fill. Adding all of them up takes time with many origins.
	if view := s.View(); view != before || len(view.Merged) > 0 || view.origin(origin).resident() != held {
		s.trim()
	}
	return nil
}

// resident returns the memory of the arrays of a replica, without their share of merged arrays.
func (r *Held) resident() (sum uint64) {
	for _, x := range r.arrays {
		if x.memory != nil {
			sum += x.memory.Resident()
		}
	}
	return sum
}

func (s *Set) applyPart(index uint64, origin string, p Parsed, replayed bool) error {
	key := Key{p.Array, p.Start}
	if s.View().origin(origin).find(key) == nil {
		if err := s.openReplica(origin, p); err != nil {
			return err
		}
	}
	view := s.View()
	x := view.origin(origin).find(key)
	if p.image != nil {
		return x.memory.LoadAt(index, p.image)
	}
	if x.memory != nil {
		if err := x.memory.ApplyRound(index, p.round, replayed); err != nil {
			return err
		}
	}
	if x.cold != nil {
		x.cold.take(index, p)
		if x.cold.bytes > maxLater {
			s.opts.Checkpoint()
		}
	}
	if x.memory == nil || x.hidden {
		return view.addMerged(origin, x, p)
	}
	return nil
}

// mark records, after these parts, which arrays still lack images, and which boot of the origin led
// to them. Versions of pages only grow within an incarnation, so their sum shows whether all pages
// have reached the moment of the images.
func (s *Set) mark(origin string, parts []Parsed) {
	r := s.View().origin(origin)
	marks := maps.Clone(r.marks)
	if marks == nil {
		marks = make(map[Key]mark)
	}
	for _, p := range parts {
		key := Key{p.Array, p.Start}
		m := mark{partial: marks[key].partial, boot: p.Boot}
		if p.image != nil {
			m.partial = p.At
			if r.find(key).replicated().Version() >= p.At {
				m.partial = 0
			}
		}
		marks[key] = m
	}
	if !maps.Equal(marks, r.marks) {
		s.changeReplica(origin, func(r *Held) { r.marks = marks })
	}
}
