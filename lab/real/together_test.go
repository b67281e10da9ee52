package real

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A together plays one plan to two judges at once. The readers do what the answers of the first move them to,
// so the answers can be compared one by one.
type together struct {
	*testing.T
	one, other judge
	deliveries int
	differ     int
	logged     map[int]bool // campaigns whose first difference is in the log
}

func (b *together) turn(ctx context.Context, at time.Duration) error {
	return errors.Join(b.one.turn(ctx, at), b.other.turn(ctx, at))
}

func (b *together) deliver(ctx context.Context, d *Delivery, m *Mail) (Answer, error) {
	x, err1 := b.one.deliver(ctx, d, m)
	y, err2 := b.other.deliver(ctx, d, m)
	if b.deliveries++; x.Class != y.Class {
		b.differ++
		if !b.logged[d.Campaign] {
			b.logged[d.Campaign] = true
			b.Logf("delivery %d at %v, %s %v of campaign %d to %s:\n\t%v by %q: %s\n\t%v by %q: %s", b.deliveries, d.At,
				d.Kind, d.Groups, d.Campaign, d.To, x.Class, x.Rule, x.Reason, y.Class, y.Rule, y.Reason)
		}
	}
	return x, errors.Join(err1, err2)
}

func (b *together) vote(ctx context.Context, d *Delivery, m *Mail, a Answer, vote bulkhead.Vote) error {
	err1 := b.one.vote(ctx, d, m, a, vote)
	err2 := b.other.vote(ctx, d, m, a, vote)
	if errors.As(err1, new(refusal)) != errors.As(err2, new(refusal)) {
		b.Errorf("vote of %s on %s: %v and %v", d.To, d.Kind, err1, err2)
	}
	return err1
}

func (b *together) close() error { return errors.Join(b.one.close(), b.other.close()) }

// TestTogether compares each answer of processes with the answer of a node in this process.
func TestTogether(t *testing.T) {
	program, dir := processes(t)
	plan := NewWorld(5000, 1500).Plan()
	c, err := newCluster(t.Context(), program, plan, Options{Topology: OneNode, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	q, err := newQuick(t.Context(), plan)
	if err != nil {
		t.Fatal(errors.Join(err, c.close()))
	}
	b := &together{T: t, one: c, other: q, logged: make(map[int]bool)}
	if _, err := play(t.Context(), plan, b, Options{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d answers differ", b.differ, b.deliveries)
	if b.deliveries < 1000 || 100*b.differ > b.deliveries {
		t.Errorf("%d of %d answers differ, want at most 1 %%", b.differ, b.deliveries)
	}
}
