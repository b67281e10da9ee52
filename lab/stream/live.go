package stream

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A Live node judges copies that are drawn elsewhere, one at a time: the judge of [Node] without
// a stream. It is for use by one goroutine.
type Live struct{ node *node }

// signaturesOfCopy is how many signatures a copy has at most, about.
const signaturesOfCopy = 64

// NewLive opens a node that a number of sites share, with room for a number of copies in
// each generation. The caller closes it.
func NewLive(ctx context.Context, sites, copies int) (*Live, error) {
	opts := &Options{Sites: sites}
	if err := opts.Complete(); err != nil {
		return nil, err
	}
	n, err := newNode(ctx, &plan{capacity: uint64(signaturesOfCopy * copies)}, opts)
	if err != nil {
		return nil, err
	}
	return &Live{n}, nil
}

// Turn moves the clock to a time after the beginning. It never goes back.
func (v *Live) Turn(ctx context.Context, at time.Duration) error {
	return v.node.turn(ctx, begin.Add(at))
}

// Deliver judges a copy for a user's address at a site, numbered from 0, and counts it. A site that
// refuses spam receives none of it, so it is not counted.
func (v *Live) Deliver(ctx context.Context, l *Letter, site int, to string, refuses bool) (bulkhead.Verdict, error) {
	if len(l.sigs) == 0 {
		return bulkhead.Verdict{}, nil
	}
	d := &delivery{letter: l, site: site, to: to}
	answer, err := v.node.verdict(ctx, d, false)
	if err != nil || refuses && answer.Class == bulkhead.ClassSpam {
		return answer, err
	}
	return answer, v.node.count(ctx, d)
}

// Vote takes what the user with an address says of a copy, and reports whether it could be taken: a
// copy with too little text has no signature.
func (v *Live) Vote(ctx context.Context, l *Letter, site int, user string, vote bulkhead.Vote) (bool, error) {
	if len(l.sigs) == 0 {
		return false, nil
	}
	return true, v.node.vote(ctx, &delivery{letter: l, site: site, to: user}, vote)
}

// Close closes the node.
func (v *Live) Close(ctx context.Context) error { return v.node.close(ctx) }
