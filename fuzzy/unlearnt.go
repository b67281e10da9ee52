package fuzzy

import (
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
)

// unlearnt drops hits on spam lists that were revoked through another front door,
// because a list has counters of its own. For a near copy, enough of its bands must be
// revoked.
func (s *Server) unlearnt(ctx context.Context, sc *scratch) error {
	q := &sc.questions
	q.reset()
	for k := range sc.checks {
		c := &sc.checks[k]
		c.judge = len(q.judged)
		if c.asked = slices.ContainsFunc(c.hits, s.ofSpam); !c.asked {
			continue
		}
		q.judged = append(q.judged, plainSignature(&c.job.req.Digest))
		if c.job.req.Shingled && slices.ContainsFunc(c.hits, func(h hit) bool { return h.agree != 0 }) {
			q.judged = rspamd.AppendBands(q.judged, &c.job.req.Shingles, rspamd.Votes)
		}
	}
	if len(q.judged) == 0 {
		return nil
	}
	if err := q.ask(ctx, s.setup.house); err != nil {
		return err
	}
	for k := range sc.checks {
		c := &sc.checks[k]
		if !c.asked {
			continue
		}
		judges := q.judges[c.judge:]
		if k+1 < len(sc.checks) {
			judges = q.judges[c.judge:sc.checks[k+1].judge]
		}
		c.hits = slices.DeleteFunc(c.hits, func(h hit) bool { return s.ofSpam(h) && revokes(judges, h.agree != 0) })
	}
	return nil
}

func (s *Server) ofSpam(h hit) bool { return slices.Contains(s.SpamFlags, h.flag) }

// revokes reports whether the judgements of a digest, followed by the judgements of its bands,
// remove a hit.
func revokes(judges []bulkhead.Look, near bool) bool {
	if judges[0].Judged == bulkhead.Revoked {
		return true
	}
	revoked := 0
	for _, l := range judges[1:] {
		switch l.Judged {
		case bulkhead.JudgedSpam:
			return false
		case bulkhead.Revoked:
			revoked++
		}
	}
	return near && revoked >= minBands
}
