package stream

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A voice is what a recipient is going to say of a delivery.
type voice struct {
	at   time.Time
	of   int // index of the delivery
	vote bulkhead.Vote
}

// voices is a heap of them in order of time, and of the deliveries.
type voices []voice

func (v voices) Len() int { return len(v) }
func (v voices) Less(i, j int) bool {
	if c := v[i].at.Compare(v[j].at); c != 0 {
		return c < 0
	}
	return v[i].of < v[j].of
}
func (v voices) Swap(i, j int) { v[i], v[j] = v[j], v[i] }
func (v *voices) Push(x any)   { *v = append(*v, x.(voice)) }
func (v *voices) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}

// An answer is what a judge says of a copy.
type answer struct {
	class      bulkhead.Class
	confidence int // 0 to 100; 0 of rules that state none
}

// A judge classifies copies, and learns from people's votes on them.
type judge interface {
	// turn sets the clock, which never goes back.
	turn(ctx context.Context, now time.Time) error
	// deliver judges a copy and counts it.
	deliver(ctx context.Context, d *delivery) (answer, error)
	// vote takes what the recipient of a copy says of it.
	vote(ctx context.Context, d *delivery, vote bulkhead.Vote) error
	close(ctx context.Context) error
}

// newJudge returns the judge that the options name.
func newJudge(ctx context.Context, p *plan, opts *Options) (judge, error) {
	switch opts.Rule {
	case TextAlone, TextOrLink:
		return newTextAlone(opts), nil
	case FirstReport, FirstReportOfPart:
		return newOracle(p, opts), nil
	}
	return newNode(ctx, p, opts)
}

// A player plays one plan before one judge.
type player struct {
	*plan
	opts    *Options
	judge   judge
	pending voices
	tally   *tally
}

// play plays a plan and returns what was counted.
func play(ctx context.Context, p *plan, opts *Options) (run *RunResult, err error) {
	j, err := newJudge(ctx, p, opts)
	if err != nil {
		return nil, err
	}
	s := newPlayer(p, opts, j)
	defer func() { err = errors.Join(err, j.close(ctx)) }()
	for i := range p.deliveries {
		if err := s.speak(ctx, p.deliveries[i].at); err != nil {
			return nil, err
		}
		if err := s.deliver(ctx, i); err != nil {
			return nil, err
		}
		opts.Progress("delivering", i+1, len(p.deliveries))
	}
	if err := s.speak(ctx, time.Time{}); err != nil {
		return nil, err
	}
	run = s.tally.result(p)
	if opts.Rule == Node {
		run.Reliability = &s.tally.reliability
	}
	return run, nil
}

func newPlayer(p *plan, opts *Options, j judge) *player {
	return &player{plan: p, opts: opts, judge: j, tally: newTally(p)}
}

// deliver has a copy judged, and its recipient make up his mind.
func (s *player) deliver(ctx context.Context, i int) error {
	d := &s.deliveries[i]
	if err := s.judge.turn(ctx, d.at); err != nil {
		return err
	}
	verdict := answer{class: bulkhead.ClassUnknown}
	if len(d.letter.sigs) > 0 {
		var err error
		if verdict, err = s.judge.deliver(ctx, d); err != nil {
			return err
		}
	}
	s.tally.delivered(d, verdict)
	if vote := s.opts.reaction(d, verdict.class); vote != bulkhead.Sighting && len(d.letter.sigs) > 0 {
		heap.Push(&s.pending, voice{d.at.Add(d.delay), i, vote})
	}
	return nil
}

// reaction is what the recipient will say of a copy that was given a class;
// [bulkhead.Sighting] stands for nothing.
func (o *Options) reaction(d *delivery, class bulkhead.Class) bulkhead.Vote {
	kind := d.letter.Kind
	rate, vote := o.Mistakes*kinds[kind].mistaken, bulkhead.Spam
	switch flagged := class == bulkhead.ClassSpam; {
	case flagged && kind.Spam():
		return bulkhead.Sighting
	case flagged:
		rate, vote = o.Objecting, bulkhead.Ham
	case kind.Spam():
		rate = o.Reporting
	}
	if d.luck < rate {
		return vote
	}
	return bulkhead.Sighting
}

// speak lets everybody speak whose time comes by the given one; the zero time means
// everybody.
func (s *player) speak(ctx context.Context, end time.Time) error {
	for len(s.pending) > 0 && (end.IsZero() || !s.pending[0].at.After(end)) {
		v := heap.Pop(&s.pending).(voice)
		d := &s.deliveries[v.of]
		if err := s.judge.turn(ctx, v.at); err != nil {
			return err
		}
		if err := s.judge.vote(ctx, d, v.vote); err != nil {
			return err
		}
		s.tally.spoke(d, v.vote)
	}
	return nil
}
