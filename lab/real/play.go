package real

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A judge answers deliveries, and learns from votes.
type judge interface {
	// turn lets time pass until at.
	turn(ctx context.Context, at time.Duration) error
	deliver(ctx context.Context, d *Delivery, m *Mail) (Answer, error)
	// vote takes what the reader of a delivery says of it. A [refusal] is no failure.
	vote(ctx context.Context, d *Delivery, m *Mail, a Answer, vote bulkhead.Vote) error
	close() error
}

// Options are how a plan is played.
type Options struct {
	Topology Topology
	Dir      string        // for the files of the processes
	After    time.Duration // deliveries before this time of the plan are not counted
	Config   string        // appended to the configuration of each node, and not of an edge
	Learn    string        // likewise, to its table [learn]
	// Progress is called with how many of how many deliveries were played. It may be nil.
	Progress func(done, total int)
	// Answered is called with each delivery that counts, its place in the plan, and the answer. It may be nil.
	// Each mail is then also checked over HTTP before its delivery, for its score and the rule.
	Answered func(place int, d *Delivery, a Answer)
}

// Run plays a plan to processes of a program.
func Run(ctx context.Context, program string, plan *Plan, o Options) (*Tally, error) {
	c, err := newCluster(ctx, program, plan, o)
	if err != nil {
		return nil, err
	}
	return play(ctx, plan, c, o)
}

// A ballot is a vote that will be cast.
type ballot struct {
	at     time.Duration
	of     int // index of the delivery
	answer Answer
	vote   bulkhead.Vote
}

// ballots is a heap in order of time, and of the deliveries.
type ballots []ballot

func (b ballots) Len() int { return len(b) }
func (b ballots) Less(i, j int) bool {
	return b[i].at < b[j].at || b[i].at == b[j].at && b[i].of < b[j].of
}
func (b ballots) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b *ballots) Push(x any)   { *b = append(*b, x.(ballot)) }
func (b *ballots) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}

// A player plays one plan to one judge.
type player struct {
	*Plan
	judge judge
	waits ballots
	tally *Tally
}

// play plays a plan, closes the judge, and returns what was counted.
func play(ctx context.Context, plan *Plan, j judge, o Options) (_ *Tally, err error) {
	defer func() { err = errors.Join(err, j.close()) }()
	began := time.Now()
	s := &player{Plan: plan, judge: j, tally: NewTally()}
	for i := range plan.Deliveries {
		d := &plan.Deliveries[i]
		if err := s.cast(ctx, d.At); err != nil {
			return nil, err
		}
		if err := j.turn(ctx, d.At); err != nil {
			return nil, err
		}
		m := d.Mail()
		answer, err := j.deliver(ctx, d, &m)
		if err != nil {
			return nil, fmt.Errorf("real: delivery %d, %s to %s: %w", i, d.Kind, plan.Sites[d.Site].Door, err)
		}
		if d.At >= o.After {
			s.tally.delivered(plan, d, answer)
			if o.Answered != nil {
				o.Answered(i, d, answer)
			}
		}
		s.decide(i, answer)
		if o.Progress != nil {
			o.Progress(i+1, len(plan.Deliveries))
		}
	}
	s.tally.Seconds = time.Since(began).Seconds()
	return s.tally, nil
}

// decide queues the vote of the reader of a delivery, if there is one. A reader cannot object to
// what the site has refused.
func (s *player) decide(i int, a Answer) {
	d := &s.Deliveries[i]
	b := ballot{at: d.At + d.Delay, of: i, answer: a, vote: bulkhead.Spam}
	flagged := a.Class == bulkhead.ClassSpam
	switch {
	case flagged && d.Objects && !d.Spam && !s.Sites[d.Site].Rejects:
		b.vote = bulkhead.Ham
	case flagged || !d.Reports:
		return
	}
	heap.Push(&s.waits, b)
}

// cast has those readers vote whose time comes by at.
func (s *player) cast(ctx context.Context, at time.Duration) error {
	for len(s.waits) > 0 && s.waits[0].at <= at {
		b := heap.Pop(&s.waits).(ballot)
		d := &s.Deliveries[b.of]
		if err := s.judge.turn(ctx, b.at); err != nil {
			return err
		}
		m := d.Mail()
		err := s.judge.vote(ctx, d, &m, b.answer, b.vote)
		way := s.Sites[d.Site].Users[d.User].Way
		if err != nil && !errors.As(err, new(refusal)) {
			return fmt.Errorf("real: vote of %s on delivery %d, %s, by %s: %w", d.To, b.of, d.Kind, way, err)
		}
		s.tally.voted(way, b.vote, err)
	}
	return nil
}
