package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// parsedPart is a part whose bytes have been decoded.
type parsedPart struct {
	*Part
	round *filter.Round
	image *filter.Image
}

// parseParts decodes and checks the parts. Nothing of them is believed before.
func (e *Engine) parseParts(parts []Part) ([]parsedPart, error) {
	out := make([]parsedPart, 0, len(parts))
	for i := range parts {
		p := parsedPart{Part: &parts[i]}
		kind := filter.Bitmap
		switch p.Array {
		case ArrayCounts:
			kind = filter.Cells
		case ArraySpam, ArrayRevoked:
		default:
			return nil, fmt.Errorf("%w: part of array %.20q", bulkhead.ErrMalformed, p.Array)
		}
		if err := e.admitGeometry(p.Geometry, kind); err != nil {
			return nil, err
		}
		var err error
		var generation uint64
		switch {
		case len(p.Round) > 0 && len(p.Image) == 0:
			if p.round, err = filter.ParseRound(p.Round, p.Geometry); err == nil {
				generation = p.round.Generation
			}
		case len(p.Image) > 0 && len(p.Round) == 0:
			if p.image, err = filter.ParseImage(p.Image, p.Geometry); err == nil {
				generation = p.image.Generation
			}
		default:
			err = errors.New("neither a round nor an image")
		}
		// How full an array is judged by, and what a peer may add, is its keys.
		if err == nil && p.image != nil && p.image.Info.Keys > maxImageKeys {
			err = fmt.Errorf("%d keys in a page of %d cells or bits", p.image.Info.Keys, maxImageKeys)
		}
		if err == nil && generation != p.Start {
			err = fmt.Errorf("generation %d in a part of %d", generation, p.Start)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: part of %s, generation %d: %v", bulkhead.ErrMalformed, p.Array, p.Start, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// maxImageKeys is more keys than an image of an array that nothing was merged into
// can have: each of them has set a cell or a bit that was not set before. It is far
// below what makes a page unreadable, so that no rounds can lift a replica there.
const maxImageKeys = filter.PageBytes * 8

// maxRemoteLines bounds the array that a peer can make this node allocate:
// 1 GiB.
const maxRemoteLines = 1 << 24

func (e *Engine) admitGeometry(g filter.Geometry, kind filter.Kind) error {
	if err := g.Validate(); err != nil {
		return fmt.Errorf("%w: %v", bulkhead.ErrGeometry, err)
	}
	switch {
	case g.Kind != kind:
		return fmt.Errorf("%w: %s array, want %s", bulkhead.ErrGeometry, g.Kind, kind)
	case g.KeyID != e.opts.Secret.ID():
		return fmt.Errorf("%w: network key %016x, this node has %016x", bulkhead.ErrGeometry, g.KeyID, e.opts.Secret.ID())
	case g.Lines > maxRemoteLines:
		return fmt.Errorf("%w: array of %d lines, limit %d", bulkhead.ErrOverLimit, g.Lines, maxRemoteLines)
	}
	return nil
}

// do is the writer's part of ApplyRemote.
func (c *remoteChange) do(e *Engine) error {
	if err := e.refusing(); err != nil {
		return err
	}
	parts := c.parsed
	view := e.view.Load()
	now := e.opts.Now()
	images, rounds := make(map[arrayKey]bool), make(map[arrayKey]bool)
	for _, p := range parts {
		// One index goes to each page of an entry, so an array takes images or
		// one round at a time.
		key := arrayKey{p.Array, p.Start}
		if p.round != nil && (rounds[key] || images[key]) || p.image != nil && rounds[key] {
			return fmt.Errorf("%w: two rounds, or a round and images, of %s, generation %d, at once", bulkhead.ErrMalformed, p.Array, p.Start)
		}
		if p.round != nil {
			rounds[key] = true
		} else {
			images[key] = true
		}
		if !e.bookOf(p.Array).Keeps(now, p.Start) {
			return fmt.Errorf("%w: part of a generation that starts at %d", bulkhead.ErrMalformed, p.Start)
		}
		if err := e.continues(view, c.Origin, p); err != nil {
			return err
		}
	}
	if err := e.warm(c.Origin, parts); err != nil {
		return err
	}
	index, err := e.journal(c.entry)
	if err != nil {
		return err
	}
	return e.applyRemote(index, c.Origin, parts, false)
}

// apply takes the parts on start.
func (c *remoteChange) apply(e *Engine, index uint64) error {
	parts, err := e.parseParts(c.Parts)
	if err != nil {
		return err
	}
	return e.applyRemote(index, c.Origin, parts, true)
}

// continues returns an error unless the part continues the origin's replica.
func (e *Engine) continues(view *view, origin string, p parsedPart) error {
	r := view.origin(origin)
	if r == nil {
		return fmt.Errorf("%w: origin %.128q does not count here", bulkhead.ErrForbidden, origin)
	}
	var array replicated
	if x := r.find(arrayKey{p.Array, p.Start}); x != nil {
		array = x.replicated()
	}
	switch {
	case array != nil && array.Geometry() != p.Geometry:
		return fmt.Errorf("%w: part of %v for a replica of %v", bulkhead.ErrGeometry, p.Geometry, array.Geometry())
	case p.round == nil:
		return nil
	case r.marks[arrayKey{p.Array, p.Start}].partial != 0:
		return fmt.Errorf("%w: images of the array are still missing", ErrGap)
	case array == nil && p.round.From != 0:
		return fmt.Errorf("%w: a round from version %d of an array that is not here", ErrGap, p.round.From)
	case array != nil && array.Version() != p.round.From:
		return fmt.Errorf("%w: a round from version %d, the replica is at %d", ErrGap, p.round.From, array.Version())
	}
	return nil
}

// applyRemote takes durable parts into the replica. On replay parts of an
// origin that has been evicted since are passed over.
func (e *Engine) applyRemote(index uint64, origin string, parts []parsedPart, replayed bool) error {
	if e.view.Load().origin(origin) == nil {
		return nil
	}
	if err := e.warm(origin, parts); err != nil {
		return err
	}
	for _, p := range parts {
		if err := e.applyPart(index, origin, p, replayed); err != nil {
			return fmt.Errorf("engine: replica of %s: %w", origin, err)
		}
	}
	e.mark(origin, parts)
	if slices.ContainsFunc(parts, func(p parsedPart) bool { return p.image != nil }) {
		e.trim()
	}
	return nil
}

func (e *Engine) applyPart(index uint64, origin string, p parsedPart, replayed bool) error {
	key := arrayKey{p.Array, p.Start}
	if e.view.Load().origin(origin).find(key) == nil {
		if err := e.openReplica(origin, p); err != nil {
			return err
		}
		e.trim()
	}
	view := e.view.Load()
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
			e.wakeCheckpoint()
		}
	}
	if x.memory == nil || x.hidden {
		return view.addMerged(origin, x, p)
	}
	return nil
}

// mark notes which arrays lack images after these parts, which no longer do, and
// which boot of the origin led to them. Versions of pages only grow within an
// incarnation, so the sum tells: the array has reached the moment of the images
// when all pages have.
func (e *Engine) mark(origin string, parts []parsedPart) {
	r := e.view.Load().origin(origin)
	marks := maps.Clone(r.marks)
	if marks == nil {
		marks = make(map[arrayKey]mark)
	}
	for _, p := range parts {
		key := arrayKey{p.Array, p.Start}
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
		e.changeReplica(origin, func(r *replica) { r.marks = marks })
	}
}

// do is the writer's part of Renew and RenameOrigin.
func (c *renewChange) do(e *Engine) error {
	view := e.view.Load()
	switch r := view.origin(c.Origin); {
	case r == nil:
		return fmt.Errorf("%w: origin %.128q does not count here", bulkhead.ErrForbidden, c.Origin)
	case c.To != "" && view.origin(c.To) != nil:
		return fmt.Errorf("%w: origin %.128q is here already", bulkhead.ErrMalformed, c.To)
	case c.To == "" && c.Incarnation <= r.incarnation:
		return fmt.Errorf("%w: incarnation %d of an origin that is at %d", bulkhead.ErrMalformed, c.Incarnation, r.incarnation)
	}
	entry, err := encodeJSONEntry(entryRenew, c)
	if err != nil {
		return err
	}
	if _, err := e.journal(entry); err != nil {
		return err
	}
	return c.apply(e, 0)
}

func (c *renewChange) apply(e *Engine, _ uint64) error {
	if c.To != "" {
		for _, m := range e.view.Load().merged {
			m.rename(c.Origin, c.To)
		}
	}
	e.changeReplica(c.Origin, func(r *replica) {
		if c.To != "" {
			r.ID = c.To
			for _, x := range r.arrays {
				if x.cold != nil {
					x.cold.origin = c.To
				}
			}
			return
		}
		*r = replica{Origin: r.Origin, incarnation: c.Incarnation}
	})
	e.settle()
	return nil
}

// do is the writer's part of SetOrigins.
func (c *originsChange) do(e *Engine) error {
	entry, err := encodeJSONEntry(entryOrigins, c)
	if err != nil {
		return err
	}
	if _, err := e.journal(entry); err != nil {
		return err
	}
	return c.apply(e, 0)
}

func (c *originsChange) apply(e *Engine, _ uint64) error {
	old := e.view.Load()
	next := old.clone()
	next.remote = nil
	for _, o := range c.Origins {
		r := &replica{}
		if kept := old.origin(o.ID); kept != nil {
			r = kept.clone()
		}
		r.Origin = o
		next.remote = append(next.remote, r)
	}
	e.view.Store(next)
	e.settle()
	return nil
}

// do is the writer's part of ForgetGenerations.
func (c *forgetChange) do(e *Engine) error {
	if e.view.Load().origin(c.Origin) == nil {
		return fmt.Errorf("%w: origin %.128q does not count here", bulkhead.ErrForbidden, c.Origin)
	}
	entry, err := encodeJSONEntry(entryForget, c)
	if err != nil {
		return err
	}
	if _, err := e.journal(entry); err != nil {
		return err
	}
	return c.apply(e, 0)
}

func (c *forgetChange) apply(e *Engine, _ uint64) error {
	e.changeReplica(c.Origin, func(r *replica) {
		r.keep(func(key arrayKey) bool { return key.start < c.Since })
	})
	e.settle()
	return nil
}
