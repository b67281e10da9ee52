package real

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
)

// Razor plays a plan to Razor's digests alone, as a measure of the mail: a message is spam if a part of it was
// reported more often than revoked.
func Razor(ctx context.Context, plan *Plan, o Options) (*Tally, error) {
	return play(ctx, plan, razorJudge{}, o)
}

// A razorJudge has the reports of each digest, less its revocations.
type razorJudge map[bulkhead.Signature]int

func (razorJudge) turn(context.Context, time.Duration) error { return nil }
func (razorJudge) close() error                              { return nil }

func (r razorJudge) deliver(ctx context.Context, _ *Delivery, m *Mail) (Answer, error) {
	sigs, err := razor.Signatures(ctx, m.Raw)
	for _, s := range sigs {
		if r[s] > 0 {
			return Answer{Class: bulkhead.ClassSpam}, err
		}
	}
	return Answer{Class: bulkhead.ClassUnknown}, err
}

func (r razorJudge) vote(ctx context.Context, _ *Delivery, m *Mail, _ Answer, vote bulkhead.Vote) error {
	sigs, err := razor.Signatures(ctx, m.Raw)
	for _, s := range sigs {
		if vote == bulkhead.Spam {
			r[s]++
		} else {
			r[s]--
		}
	}
	return err
}
