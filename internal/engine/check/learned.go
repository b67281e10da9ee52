package check

import (
	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// mostWords is the largest number of words in the reason for a score.
const mostWords = 8

// learnt returns what the words and the style of a message say.
func (c *Checker) learnt(q *bulkhead.Query, from *Sources) verdict.Learned {
	if c.opts.Learned == nil || len(q.Source.Features) == 0 || !c.opts.Learned.On() {
		return verdict.Learned{}
	}
	secrets := from.View.Secrets
	s := c.opts.Learned.Score(secrets.All, secrets.IDs, q.Source.Features)
	out := verdict.Learned{Score: s.Score, Used: s.Used, Reports: s.Reports, Condemns: c.opts.Condemn}
	out.Without = s.Without
	if !q.Terse && s.Used > 0 {
		out.Words = s.Words(mostWords)
	}
	return out
}
