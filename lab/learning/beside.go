package learning

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// A Learner is a program with a Bayes classifier that learns whole messages.
type Learner interface {
	// Score returns the probability that a message is spam, from 0 to 1, and 0 if the program has none.
	Score(ctx context.Context, raw []byte) (float64, error)
	// Learn learns a message. A message that was learnt as the other kind is first unlearnt.
	Learn(ctx context.Context, raw []byte, spam bool) error
	// Close ends the program.
	Close() error
}

// Teaching is what teaches a program wanted mail.
type Teaching string

// The teachings.
const (
	// ByDeliveries takes each delivery for wanted that the program scores below 0.99, as bulkhead does, until
	// it is reported.
	ByDeliveries Teaching = "deliveries"
	// ByLabels takes as many wanted messages as spam: the share that readers report, marked by hand.
	ByLabels Teaching = "labels"
)

// Beside plays the letters to a program: all mail of one place, in their order. The same spam is reported as
// in [Run] with the same options. A program that has learnt too little has no score.
func Beside(ctx context.Context, letters []Letter, l Learner, teaching Teaching, o Options) (*Result, error) {
	rng := rand.New(rand.NewPCG(o.Seed, 0x6c6561726e))
	out := &Result{}
	reports := 0
	for i := range letters {
		x := &letters[i]
		raw, err := x.Raw()
		if err != nil {
			return nil, err
		}
		score, err := l.Score(ctx, raw)
		if err != nil {
			return nil, fmt.Errorf("learning: %s: %w", x.Name, err)
		}
		out.count(x, score, reports >= learn.FirstReports)
		rng.IntN(o.Sites) // as Run draws, so that the same messages are reported
		reported := rng.Float64() < o.Reported
		switch {
		case x.Spam && reported:
			reports++
			err = l.Learn(ctx, raw, true)
		case teaching == ByDeliveries && score < 0.99, teaching == ByLabels && !x.Spam && reported:
			err = l.Learn(ctx, raw, false)
		}
		if err != nil {
			return nil, fmt.Errorf("learning: %s: %w", x.Name, err)
		}
	}
	return out, nil
}
