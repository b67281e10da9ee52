package real

import (
	"context"
	"net/netip"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/lab/stream"
)

// Quick plays a plan to one engine in this process, as "bulkhead-lab stream" does. No protocol
// lies between, so a vote by any way falls on the whole mail, and the engine is one for all sites.
// The answers are those that the sites' doors show.
func Quick(ctx context.Context, plan *Plan, o Options) (*Tally, error) {
	live, err := stream.NewLive(ctx, len(plan.Sites), len(plan.Deliveries))
	if err != nil {
		return nil, err
	}
	return play(ctx, plan, &quick{plan, live, o.Sources}, o)
}

// quick is the judge of [Quick].
type quick struct {
	plan *Plan
	live *stream.Live

	sources bool
}

func (q *quick) turn(ctx context.Context, at time.Duration) error { return q.live.Turn(ctx, at) }

func (q *quick) read(ctx context.Context, m *Mail) (*stream.Letter, error) {
	return stream.ReadCopy(ctx, m.Raw, m.Client, m.DKIM, m.SPF)
}

func (q *quick) deliver(ctx context.Context, d *Delivery, m *Mail) (Answer, error) {
	l, err := q.read(ctx, m)
	if err != nil {
		return Answer{}, err
	}
	class, err := q.live.Deliver(ctx, l, d.Site, d.User, q.plan.Sites[d.Site].Rejects)
	return shown(q.plan.Sites[d.Site].Door, class), err
}

func (q *quick) vote(ctx context.Context, d *Delivery, m *Mail, a Answer, vote bulkhead.Vote) error {
	s := &q.plan.Sites[d.Site]
	way := s.Users[d.User].Way
	voted := *m
	if !q.sources && way != Page && way != PyzorReport { // those name a message that the node remembers
		voted.Raw = stored(m, a, s.Door)
		voted.Client, voted.DKIM, voted.SPF = netip.Addr{}, nil, ""
	}
	l, err := q.read(ctx, &voted)
	if err != nil {
		return err
	}
	taken, err := q.live.Vote(ctx, l, d.Site, d.User, vote)
	if err == nil && !taken {
		return refusal{errTooShort}
	}
	return err
}

func (q *quick) close() error { return q.live.Close(context.Background()) }
