package origin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// question asks a peer for the rounds or images that this node lacks, or for the peer's head if it
// lacks none.
func (s *Sender) question(ask *wire.Message) {
	ask.Kind = wire.KindAsk
	s.sendTo(ask.To, ask)
}

// answer serves a peer's ask. Rounds go out at once. Images go out with the next interval, so that
// one copy serves every peer that asks.
func (s *Sender) answer(ctx context.Context, m *wire.Message) {
	switch m.Kind {
	case wire.KindPages:
		s.refill(ctx, m)
		return
	case wire.KindStudy:
		s.teach(m)
		return
	}
	own := make(map[wire.Ref]engine.ArrayState)
	for _, a := range s.publish(ctx) {
		own[wire.Ref{Array: a.Array, Start: a.Start}] = a
	}
	life, _ := s.state.Life()
	same := m.Incarnation == life
	behind, received := false, uint64(0) // the peer proves that this node has forgotten something
	for _, succession := range m.Proofs {
		if p, ok := s.proven(succession); ok && s.forgot(&p, own) {
			behind, received = true, max(received, p.Stamp.Incarnation, p.Stamp.Boot)
		}
	}
	may := len(m.Wants) == 0 || s.may(m.From, own)
	if !may {
		s.book.Refuse(m.From, member.ReasonAsks, "")
	}
	for _, w := range m.Wants {
		a, ok := own[w.Ref]
		if !same {
			w = wire.ArrayHead{Ref: w.Ref} // the peer's copy belongs to another incarnation
		}
		switch {
		case !ok, w.Version > a.Version: // the peer claims more than this node has, without proof
		case !may, s.opts.Role == member.Subscribe: // publishes nothing
		case w.Partial, w.Version < a.Version && !s.resend(w.Ref, w.Version, m.From):
			s.needs(w.Ref, m.From)
		}
	}
	s.opts.Log.Debug("asked", "by", m.From, "arrays", len(m.Wants), "same_incarnation", same, "behind", behind,
		"images", len(s.wanted))
	if behind {
		p, _ := s.book.Find(m.From)
		s.renew(p.Label(), received)
	}
	if len(m.Wants) == 0 || behind {
		s.headSoon(ctx)
	}
}

// resend publishes the rounds since a version again, if all of them are still held. It does so now,
// or some time after the last resend, so that one copy serves every peer that asks. It reports
// whether the rounds will be sent.
func (s *Sender) resend(r wire.Ref, version uint64, by wire.Hint) bool {
	a := s.arrays[r]
	if a == nil {
		return false
	}
	if n := len(a.rounds); n > 0 && a.rounds[n-1].To == version {
		return true // newer rounds go out with the next interval
	}
	i := slices.IndexFunc(a.rounds, func(x wire.Round) bool { return x.From == version })
	if i < 0 {
		return false
	}
	if a.roundsRest(by) {
		if a.resentFrom <= version {
			return true // on their way
		}
		if !a.due || version < a.dueFrom {
			a.due, a.dueFrom, a.dueTo = true, version, by
		}
		return true
	}
	a.due, a.resentFrom = false, version
	list := slices.Clone(a.rounds[i:])
	size, first, all := 0, 0, 0
	for j := range list {
		s.charge(by, len(list[j].Data))
		all += len(list[j].Data)
		if size += len(list[j].Data); size > s.opts.MessageBytes && j > first {
			s.again(list[first:j])
			first, size = j, len(list[j].Data)
		}
	}
	s.again(list[first:])
	a.resent, a.resentTo, a.resentRest = time.Now(), by, restAfter(all) // a slow link has taken its time by now
	return len(a.rounds) > 0                                            // false: some rounds are too large for the broker
}

// roundsRest reports whether the rounds that were last sent again may still be on their way to a peer.
func (a *ownArray) roundsRest(to wire.Hint) bool {
	return rests(a.resent, to == a.resentTo, a.resentRest)
}

// imagesRest reports whether the images that were last sent may still be on their way to a peer.
func (a *ownArray) imagesRest(to wire.Hint) bool {
	return rests(a.imaged, to == a.imagedTo && to != (wire.Hint{}), restAfter(a.image))
}

// rests reports whether something that was sent at a time is not sent again yet. The peer that asked for it waits until
// a slow link has passed it on. Others may have missed it, so they wait for imageRest only.
func rests(sent time.Time, asked bool, rest time.Duration) bool {
	if !asked {
		rest = imageRest
	}
	return !sent.IsZero() && time.Since(sent) < rest
}

// restAfter returns for how long a slow link may pass on rounds or images of some bytes, and at most the time until
// the next head.
func restAfter(bytes int) time.Duration {
	return min(max(imageRest, time.Duration(bytes)*time.Second/slowLink), longRest)
}

// again sends rounds of one array again, in messages of up to maxParts rounds.
func (s *Sender) again(rounds []wire.Round) {
	for len(rounds) > 0 {
		n := min(len(rounds), wire.MaxParts)
		again := slices.Clone(rounds[:n])
		again[0].Announce = true
		for i := range again {
			if again[i].Announce {
				again[i].Lineage = s.state.Lineage(again[i].Ref)
			}
		}
		s.send(s.own(), &wire.Message{Kind: wire.KindDelta, Rounds: again})
		rounds = rounds[n:]
	}
}

// renew begins a new incarnation, numbered above every incarnation that this node has signed. A
// peer holds more of the node's counts than the node itself, so an older copy of the folder must
// have been restored.
func (s *Sender) renew(from string, received uint64) {
	s.renewals = slices.DeleteFunc(s.renewals, func(t time.Time) bool { return time.Since(t) > renewRest })
	if len(s.renewals) >= maxRenewals {
		return
	}
	if s.state.Twin(member.TwinRest * s.opts.Heartbeat) {
		return // this node has not gone back: two servers use its key and would outbid each other
	}
	s.renewals = append(s.renewals, time.Now())
	err := s.state.Renew(s.opts.Engine.Own(), received)
	s.imageAll()
	s.opts.Log.Warn("peers have more of this node's counts than the node itself", "shown_by", from, "err", err,
		"reason", "the node was set back to an older state", "consequence", "it begins a new incarnation")
}

// imageAll requests images of all arrays: no round published before leads to their present
// versions.
func (s *Sender) imageAll() {
	if s.opts.Role == member.Subscribe {
		return
	}
	for _, a := range s.opts.Engine.Own() {
		if a.Version > 0 {
			s.needs(wire.Ref{Array: a.Array, Start: a.Start}, wire.Hint{})
		}
	}
}

// needs requests images of an array on behalf of a peer; the zero hint is the node itself.
func (s *Sender) needs(r wire.Ref, by wire.Hint) {
	if first, ok := s.wanted[r]; !ok || s.arrays[r] != nil && s.arrays[r].imagesRest(first) {
		s.wanted[r] = by
	}
}

// images publishes the requested rounds and images, and the images whose stored copies are out of
// date.
func (s *Sender) images(ctx context.Context) {
	for r, a := range s.arrays {
		if a.due && !a.roundsRest(a.dueTo) && !s.resend(r, a.dueFrom, a.dueTo) {
			a.due = false
			s.needs(r, a.dueTo)
		}
		if a.since > refreshLeast && a.since > refreshShare*a.image {
			s.needs(r, wire.Hint{})
		}
	}
	for r, by := range s.wanted {
		a := s.arrays[r]
		if a == nil {
			a = &ownArray{}
			s.arrays[r] = a
		}
		if a.imagesRest(by) {
			continue // one copy serves every peer that asks
		}
		delete(s.wanted, r)
		if err := s.image(ctx, r, a); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("images not published", "array", r.Array, "generation", r.Start, "err", err)
		}
		a.imaged, a.imagedTo = time.Now(), by
		s.charge(by, a.image)
	}
}

func (s *Sender) image(ctx context.Context, r wire.Ref, a *ownArray) error {
	version, parts, err := s.opts.Engine.Images(ctx, r.Array, r.Start)
	if errors.Is(err, bulkhead.ErrMalformed) {
		return nil // the array expired after the request
	}
	if err != nil {
		return err
	}
	a.image, a.since = 0, 0
	m := &wire.Message{Kind: wire.KindImage}
	size, first := 0, 0
	for i := range parts {
		if size > 0 && size+len(parts[i].Image) > s.opts.MessageBytes || len(m.Image.Pages) == wire.MaxParts {
			s.pagesOf(r, version, first, m)
			m, size, first = &wire.Message{Kind: wire.KindImage}, 0, i
		}
		m.Image.Geometry = parts[i].Geometry
		m.Image.Pages = append(m.Image.Pages, parts[i].Image)
		size += len(parts[i].Image)
		a.image += len(parts[i].Image)
	}
	s.pagesOf(r, version, first, m)
	return nil
}

func (s *Sender) pagesOf(r wire.Ref, version uint64, first int, m *wire.Message) {
	if len(m.Image.Pages) == 0 {
		return
	}
	m.Image.Ref, m.Image.At, m.Image.Lineage = r, version, s.state.Lineage(r)
	s.pages.Add(uint64(len(m.Image.Pages)))
	s.send(wire.Topic{Kind: wire.KindImage, Origin: s.opts.Identity.Hint(),
		Key: fmt.Sprintf("%d-%d-%d", wire.ArrayByte(r.Array), r.Start, first)}, m)
}
