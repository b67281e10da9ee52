package mesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// question asks a peer for the rounds or images that this node lacks, or for the peer's head if it
// lacks none.
func (s *sender) question(w wish) {
	s.send(topic{kind: kindAsk, origin: w.origin, key: s.m.opts.Identity.public.hint().String()},
		&message{kind: kindAsk, to: w.origin, life: w.life, boot: w.boot, wants: w.arrays, proofs: w.proofs})
}

// answer serves a peer's ask. Rounds go out at once. Images go out with the next interval, so that
// one copy serves every peer that asks.
func (s *sender) answer(ctx context.Context, m *message) {
	if m.kind == kindPages {
		s.refill(ctx, m)
		return
	}
	own := make(map[ref]engine.ArrayState)
	for _, a := range s.publish(ctx) {
		own[ref{a.Array, a.Start}] = a
	}
	s.m.mu.Lock()
	life := s.m.state.Incarnation
	s.m.mu.Unlock()
	same := m.life == life
	behind, heard := false, uint64(0) // the peer proves that this node has forgotten something
	for _, said := range m.proofs {
		if p, ok := s.proven(said); ok && s.forgot(&p, own) {
			behind, heard = true, max(heard, p.stamp.incarnation, p.stamp.boot)
		}
	}
	may := len(m.wants) == 0 || s.may(m.from, own)
	if !may {
		s.m.receiver.refuse(m.from, reasonAsks, "")
	}
	for _, w := range m.wants {
		a, ok := own[w.ref]
		if !same {
			w = arrayHead{ref: w.ref} // the peer's copy belongs to another incarnation
		}
		switch {
		case !ok, w.version > a.Version: // the peer claims more than this node has, without proof
		case !may, s.m.opts.Role == Subscribe: // publishes nothing
		case w.partial, w.version < a.Version && !s.resend(w.ref, w.version, m.from):
			s.needs(w.ref, m.from)
		}
	}
	s.m.opts.Log.Debug("asked", "by", m.from, "arrays", len(m.wants), "same_incarnation", same, "behind", behind,
		"images", len(s.wanted))
	if behind {
		p, _ := s.m.find(m.from)
		s.renew(p.label(), heard)
	}
	if len(m.wants) == 0 || behind {
		s.headSoon(ctx)
	}
}

// resend publishes the rounds since a version again, if all of them are still held. It does so now,
// or some time after the last resend, so that one copy serves every peer that asks. It reports
// whether the rounds will be sent.
func (s *sender) resend(r ref, version uint64, by hint) bool {
	a := s.arrays[r]
	if a == nil {
		return false
	}
	if n := len(a.rounds); n > 0 && a.rounds[n-1].to == version {
		return true // newer rounds go out with the next interval
	}
	i := slices.IndexFunc(a.rounds, func(x round) bool { return x.from == version })
	if i < 0 {
		return false
	}
	if !a.resent.IsZero() && time.Since(a.resent) < imageRest {
		if !a.due || version < a.dueFrom {
			a.due, a.dueFrom, a.dueTo = true, version, by
		}
		return true
	}
	a.resent, a.due = time.Now(), false
	list := slices.Clone(a.rounds[i:])
	size, first := 0, 0
	for j := range list {
		s.charge(by, len(list[j].data))
		if size += len(list[j].data); size > s.m.opts.imageBytes && j > first {
			s.again(list[first:j])
			first, size = j, len(list[j].data)
		}
	}
	s.again(list[first:])
	return len(a.rounds) > 0 // false: some rounds are too large for the broker
}

// again sends rounds of one array again, in messages of up to maxParts rounds.
func (s *sender) again(rounds []round) {
	for len(rounds) > 0 {
		n := min(len(rounds), maxParts)
		again := slices.Clone(rounds[:n])
		again[0].announce = true
		for i := range again {
			if again[i].announce {
				again[i].lineage = s.lineage(again[i].ref)
			}
		}
		s.send(s.own(), &message{kind: kindDelta, rounds: again})
		rounds = rounds[n:]
	}
}

// renew begins a new incarnation, numbered above every incarnation that this node has signed. A
// peer holds more of the node's counts than the node itself, so an older copy of the folder must
// have been restored.
func (s *sender) renew(from string, heard uint64) {
	s.renewed = slices.DeleteFunc(s.renewed, func(t time.Time) bool { return time.Since(t) > renewRest })
	if len(s.renewed) >= maxRenewals {
		return
	}
	now := s.m.opts.Now()
	s.m.mu.Lock()
	if t := s.m.twin; !t.IsZero() && time.Since(t) < twinRest*s.m.opts.Heartbeat {
		s.m.mu.Unlock()
		return // this node has not gone back: two servers use its key and would outbid each other
	}
	s.renewed = append(s.renewed, time.Now())
	st := &s.m.state
	st.Incarnation = max(uint64(max(now.UnixMilli(), 1)), st.Incarnation+1, st.Boot+1, heard+1)
	st.Boot = st.Incarnation + 1 + rand.Uint64N(1024)
	st.found(s.m.opts.Engine.Own(), 0)
	err := st.save(s.m.opts.Dir)
	s.m.mu.Unlock()
	s.imageAll()
	s.m.opts.Log.Warn(
		"peers have more of this node's counts than the node itself: it was set back to an older state, and begins a new incarnation",
		"shown_by", from, "err", err)
}

// imageAll requests images of all arrays: no round published before leads to their present
// versions.
func (s *sender) imageAll() {
	if s.m.opts.Role == Subscribe {
		return
	}
	for _, a := range s.m.opts.Engine.Own() {
		if a.Version > 0 {
			s.needs(ref{a.Array, a.Start}, hint{})
		}
	}
}

// needs requests images of an array on behalf of a peer; the zero hint is the node itself.
func (s *sender) needs(r ref, by hint) {
	if _, ok := s.wanted[r]; !ok {
		s.wanted[r] = by
	}
}

// images publishes the requested rounds and images, and the images whose stored copies are out of
// date.
func (s *sender) images(ctx context.Context) {
	for r, a := range s.arrays {
		if a.due && time.Since(a.resent) >= imageRest && !s.resend(r, a.dueFrom, a.dueTo) {
			a.due = false
			s.needs(r, a.dueTo)
		}
		if a.since > refreshLeast && a.since > refreshShare*a.image {
			s.needs(r, hint{})
		}
	}
	for r, by := range s.wanted {
		a := s.arrays[r]
		if a == nil {
			a = &ownArray{}
			s.arrays[r] = a
		}
		if !a.imaged.IsZero() && time.Since(a.imaged) < imageRest {
			continue // one copy serves every peer that asks
		}
		delete(s.wanted, r)
		if err := s.image(ctx, r, a); err != nil && ctx.Err() == nil {
			s.m.opts.Log.Warn("images not published", "array", r.array, "generation", r.start, "err", err)
		}
		a.imaged = time.Now()
		s.charge(by, a.image)
	}
}

func (s *sender) image(ctx context.Context, r ref, a *ownArray) error {
	version, parts, err := s.m.opts.Engine.Images(ctx, r.array, r.start)
	if errors.Is(err, bulkhead.ErrMalformed) {
		return nil // the array expired after the request
	}
	if err != nil {
		return err
	}
	a.image, a.since = 0, 0
	m := &message{kind: kindImage}
	size, first := 0, 0
	for i := range parts {
		if size > 0 && size+len(parts[i].Image) > s.m.opts.imageBytes || len(m.image.pages) == maxParts {
			s.pagesOf(r, version, first, m)
			m, size, first = &message{kind: kindImage}, 0, i
		}
		m.image.geometry = parts[i].Geometry
		m.image.pages = append(m.image.pages, parts[i].Image)
		size += len(parts[i].Image)
		a.image += len(parts[i].Image)
	}
	s.pagesOf(r, version, first, m)
	return nil
}

func (s *sender) pagesOf(r ref, version uint64, first int, m *message) {
	if len(m.image.pages) == 0 {
		return
	}
	m.image.ref, m.image.at, m.image.lineage = r, version, s.lineage(r)
	s.pages.Add(uint64(len(m.image.pages)))
	s.send(topic{kindImage, s.m.opts.Identity.public.hint(),
		fmt.Sprintf("%d-%d-%d", arrayByte(r.array), r.start, first)}, m)
}
