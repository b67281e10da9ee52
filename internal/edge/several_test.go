package edge

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// A torn upstream loses the answers to counts.
type torn struct {
	Upstream
	counts int
}

func (u *torn) Count(context.Context, []bulkhead.Signature, []uint32) error {
	u.counts++
	return errors.New("connection reset")
}

// TestSeveralQuestions checks that questions and counts go to the next node while the first is away, and that a count
// whose answer was lost is not repeated: it may have arrived.
func TestSeveralQuestions(t *testing.T) {
	first, second := new(desk), new(desk)
	u, ctx := Several(first, second), t.Context()
	for name, ask := range map[string]func() error{
		"look":  func() error { return u.Look(ctx, query(1).Signatures, make([]bulkhead.Look, 1), 0) },
		"count": func() error { return u.Count(ctx, query(1).Signatures, []uint32{1}) },
		"node": func() error {
			state, err := u.Node(ctx)
			if err == nil && state == nil {
				err = errors.New("no state")
			}
			return err
		},
		"checks": func() error {
			got, err := u.CheckBatch(ctx, []bulkhead.Query{query(1)})
			if err == nil && len(got) != 1 {
				err = errors.New("no verdict")
			}
			return err
		},
	} {
		for _, away := range []*desk{first, second} {
			away.set(true)
			if err := ask(); err != nil {
				t.Errorf("%s: one of two is away: %v", name, err)
			}
			away.set(false)
		}
		first.set(true)
		second.set(true)
		if err := ask(); !errors.Is(err, errDial) {
			t.Errorf("%s: both are away: %v", name, err)
		}
		first.set(false)
		second.set(false)
	}
	one := new(torn)
	if err := Several(one, second).Count(ctx, query(1).Signatures, []uint32{1}); err == nil || one.counts != 1 {
		t.Errorf("a count whose answer was lost: %v, %d times", err, one.counts)
	}
	house := &flaky{}
	if _, err := Several(&flaky{fault: 1}, house).Check(ctx, query(1)); err != nil {
		t.Errorf("check: one of two is away: %v", err)
	}
	if Several(house) != Upstream(house) {
		t.Error("one node is not asked directly")
	}
}

// TestEach checks that a function runs once for each shard of the map in use, and ends with its shard.
func TestEach(t *testing.T) {
	d := newDivided(t, Options{})
	if all := d.Shards(); all != nil {
		t.Errorf("without a map: %+v", all)
	}
	d.Use(d.m)
	var mu sync.Mutex
	var runs []string
	began := 0
	ctx, cancel := context.WithCancel(t.Context())
	var each sync.WaitGroup
	each.Go(func() {
		d.each(ctx, func(ctx context.Context, on *target) {
			mu.Lock()
			runs = append(runs, on.name)
			began++
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			runs = slices.DeleteFunc(runs, func(name string) bool { return name == on.name })
		})
	})
	running := func(want ...string) {
		t.Helper()
		await.True(t, "a run for each shard", func() bool {
			mu.Lock()
			defer mu.Unlock()
			now := slices.Clone(runs)
			slices.Sort(now)
			return slices.Equal(now, want)
		})
	}
	running("a", "b", "c")
	d.move(t, "c", "b")
	m, err := d.m.Remove("b", shard.Note{At: time.Unix(3e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	d.Use(m)
	running("a", "c")
	cancel()
	each.Wait()
	running()
	if began != 3 {
		t.Errorf("%d runs began, want one for each shard", began)
	}
}
