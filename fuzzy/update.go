package fuzzy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// update does the write or delete of j and sets its reply.
func (s *Server) update(ctx context.Context, j *job) {
	var err error
	if j.req.Command == Write {
		err = s.write(ctx, j)
	} else {
		err = s.delete(ctx, j)
	}
	if err != nil {
		s.recent.forget(j.recent)
		j.refuse(s.status(err))
		return
	}
	s.recent.finish(j.recent)
	j.accept()
}

// A counted signature is raised by n.
type counted struct {
	sig bulkhead.Signature
	n   uint32
}

// write adds the request's value to its digest and bands. A negative value is
// added to what was taken from them.
func (s *Server) write(ctx context.Context, j *job) error {
	r := &j.req
	if !s.lists.add(r.Flag) {
		return fmt.Errorf("fuzzy: %w: list %d would be one more than the %d that are served", bulkhead.ErrForbidden, r.Flag, maxLists)
	}
	if r.Value == 0 {
		s.Stats.Writes.Add(1)
		return nil
	}
	kind, n := added, uint32(min(int64(r.Value), bulkhead.Many))
	if r.Value < 0 {
		kind, n = taken, uint32(min(-int64(r.Value), bulkhead.Many))
	}
	counters, err := s.counters(ctx, j, r.Flag)
	if err != nil {
		return err
	}
	var raise []counted
	for i := range counters {
		c := &counters[i]
		m := n
		if kind == added && c.minus > c.plus {
			// What was deleted has aged out and its deletion has not: make up for it.
			m = addSat(m, c.minus-c.plus)
		}
		raise = append(raise, counted{c.sig[kind], m})
	}
	due := s.lists.due(r.Flag, s.Now())
	if due {
		raise = append(raise, counted{listSignature(r.Flag), n})
	}
	if err := s.raise(ctx, j, raise); err != nil {
		if due {
			s.lists.undue(r.Flag)
		}
		return err
	}
	s.Stats.Writes.Add(1)
	return s.vote(ctx, j)
}

func addSat(a, b uint32) uint32 { return min(a+b, bulkhead.Many) }

// vote tells the other front doors of a write to a list for spam or ham.
func (s *Server) vote(ctx context.Context, j *job) error {
	vote := bulkhead.Spam
	switch positive := j.req.Value > 0; {
	case slices.Contains(s.SpamFlags, j.req.Flag) && positive, slices.Contains(s.HamFlags, j.req.Flag) && !positive:
	case slices.Contains(s.HamFlags, j.req.Flag), slices.Contains(s.SpamFlags, j.req.Flag):
		vote = bulkhead.Ham
	default:
		return nil
	}
	_, err := s.House.Report(ctx, bulkhead.Report{
		Signatures: []bulkhead.Signature{plainSignature(&j.req.Digest)}, Vote: vote, Reporter: j.reporter(),
	})
	return tolerate(err)
}

// tolerate drops the refusal of a vote: whoever may write to a list need not
// have a say on the blocklist.
func tolerate(err error) error {
	if errors.Is(err, bulkhead.ErrForbidden) || errors.Is(err, bulkhead.ErrUnauthorised) || errors.Is(err, bulkhead.ErrOverLimit) {
		return nil
	}
	return err
}

// delete takes away all that was ever added to the digest, on all lists, and
// to the bands if shingles came along, and revokes it.
func (s *Server) delete(ctx context.Context, j *job) error {
	var raise []counted
	for _, flag := range s.lists.inUse() {
		counters, err := s.counters(ctx, j, flag)
		if err != nil {
			return err
		}
		for i := range counters {
			if c := &counters[i]; c.plus > c.minus {
				raise = append(raise, counted{c.sig[taken], c.plus - c.minus})
			}
		}
	}
	if err := s.raise(ctx, j, raise); err != nil {
		return err
	}
	s.Stats.Deletes.Add(1)
	_, err := s.House.Revoke(ctx, bulkhead.Report{
		Signatures: []bulkhead.Signature{plainSignature(&j.req.Digest)}, Reporter: j.reporter(),
	})
	return tolerate(err)
}

// A counter is a digest or band on one list, with its two counts.
type counter struct {
	sig         [2]bulkhead.Signature // added, taken
	plus, minus uint32
}

// counters returns the counters of the digest of j on a list and, if shingles
// came along, those of its bands.
func (s *Server) counters(ctx context.Context, j *job, flag uint8) ([]counter, error) {
	r := &j.req
	plus := []bulkhead.Signature{digestSignature(&r.Digest, flag, added)}
	minus := []bulkhead.Signature{digestSignature(&r.Digest, flag, taken)}
	if r.Shingled {
		plus = appendBands(plus, r, flag, added)
		minus = appendBands(minus, r, flag, taken)
	}
	v, err := s.House.Check(ctx, bulkhead.Query{Signatures: append(slices.Clone(plus), minus...), Reporter: j.reporter(), Terse: true})
	if err != nil {
		return nil, err
	}
	counters := make([]counter, len(plus))
	for i := range counters {
		counters[i] = counter{
			sig:  [2]bulkhead.Signature{plus[i], minus[i]},
			plus: v.Findings[i].Sightings, minus: v.Findings[len(plus)+i].Sightings,
		}
	}
	return counters, nil
}

// raise reports the signatures, those with equal counts together.
func (s *Server) raise(ctx context.Context, j *job, raise []counted) error {
	for len(raise) > 0 {
		report := bulkhead.Report{Vote: bulkhead.Sighting, Count: raise[0].n, Reporter: j.reporter()}
		rest := raise[:0]
		for _, c := range raise {
			if c.n == report.Count {
				report.Signatures = append(report.Signatures, c.sig)
			} else {
				rest = append(rest, c)
			}
		}
		if _, err := s.House.Report(ctx, report); err != nil {
			return err
		}
		raise = rest
	}
	return nil
}
