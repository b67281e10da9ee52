package real

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/abuse"
	"github.com/bulkhead-mail/bulkhead/lab/stream"
)

// Quick plays a plan to one node in this process, without protocols, as "bulkhead-lab stream" does. All
// sites ask this node. Mail with too little text is refused as doors refuse it, a site's refusals are
// not counted as delivered, and votes carry what the readers' ways carry: the node joins them with their
// deliveries. The answers are those that the sites' doors show.
func Quick(ctx context.Context, plan *Plan, o Options) (*Tally, error) {
	q, err := newQuick(ctx, plan)
	if err != nil {
		return nil, err
	}
	return play(ctx, plan, q, o)
}

func newQuick(ctx context.Context, plan *Plan) (*quick, error) {
	live, err := stream.NewLive(ctx, len(plan.Sites), len(plan.Deliveries))
	return &quick{plan, live}, err
}

// quick is the judge of [Quick].
type quick struct {
	plan *Plan
	live *stream.Live
}

func (q *quick) turn(ctx context.Context, at time.Duration) error { return q.live.Turn(ctx, at) }

// delivered returns a mail as the door read it.
func delivered(ctx context.Context, m *Mail) (*stream.Letter, error) {
	return stream.ReadCopy(ctx, &stream.Copy{Raw: m.Raw, Client: m.Client, Envelope: m.Sender, DKIM: m.DKIM, SPF: m.SPF})
}

func (q *quick) deliver(ctx context.Context, d *Delivery, m *Mail) (Answer, error) {
	l, err := delivered(ctx, m)
	if err != nil {
		return Answer{}, err
	}
	s := &q.plan.Sites[d.Site]
	refuses := s.Rejects && s.Door != Dccifd || s.Door == SpamAssassin // whose plugin counts no spam
	v, err := q.live.Deliver(ctx, l, d.Site, d.To, refuses)
	if s.Door == Milter && v.Class < bulkhead.ClassBulk && v.Sightings+1 >= v.Threshold && v.Threshold > 0 {
		v.Class = bulkhead.ClassBulk // the milter counts the message itself
	}
	a := shown(s.Door, v.Class)
	a.Rule = v.Rule
	if len(v.Reasons) > 0 {
		a.Reason = v.Reasons[0]
	}
	return a, err
}

func (q *quick) vote(ctx context.Context, d *Delivery, m *Mail, a Answer, vote bulkhead.Vote) error {
	s := &q.plan.Sites[d.Site]
	l, err := voted(ctx, s.Users[d.User].Way, m, stored(m, a, s.Door), vote)
	if err != nil {
		return err
	}
	user := d.To
	if s.Users[d.User].Way == PyzorReport {
		user = pyzorName(d.To) // an account, not a mailbox
	}
	taken, err := q.live.Vote(ctx, l, d.Site, user, vote)
	if err == nil && !taken {
		return refusal{errTooShort}
	}
	return err
}

// voted returns a mail as a vote by a way carries it.
func voted(ctx context.Context, way Way, m *Mail, original []byte, vote bulkhead.Vote) (*stream.Letter, error) {
	switch way {
	case Page: // the node's own entry
		return delivered(ctx, m)
	case Gmail, Outlook, AppleMail:
		messages, _, err := abuse.Messages(forward(way, m, original, abuseAddressFor(vote)))
		if err == nil && len(messages) != 1 {
			err = errors.New("real: no single message in a forward")
		}
		if err != nil {
			return nil, err
		}
		original = messages[0]
	}
	l, err := stream.ReadCopy(ctx, &stream.Copy{Raw: original})
	if err == nil && way == PyzorReport {
		l = l.Digest(bulkhead.PyzorDigest)
	}
	return l, err
}

func (q *quick) close() error { return q.live.Close(context.Background()) }
