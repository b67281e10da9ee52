package member

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// replicas is an engine that has replicas of one peer.
type replicas struct {
	uncounted
	of     map[string][]engine.ArrayState
	former []engine.FormerIncarnation
	forgot []string
}

func (r *replicas) Replica(id string) []engine.ArrayState { return r.of[id] }

func (r *replicas) FormerIncarnations(string) []engine.FormerIncarnation { return r.former }

func (r *replicas) ForgetFormer(_ context.Context, id string) error {
	r.forgot = append(r.forgot, id)
	return nil
}

// TestFormer checks what a node reports of a peer's replicas: those of former incarnations, and what an eviction or a
// rollback drops of all.
func TestFormer(t *testing.T) {
	id := newIdentityOf(t)
	e := &replicas{former: []engine.FormerIncarnation{{ID: "old", Incarnation: 7}, {ID: "older", Incarnation: 5}},
		of: map[string][]engine.ArrayState{
			id.ID(): {{Array: engine.ArrayCounts, Start: 300, Keys: 1, Bytes: 10}},
			"old": {{Array: engine.ArrayCounts, Start: 100, Keys: 20, Bytes: 100},
				{Array: engine.ArraySpam, Start: 200, Keys: 300, Bytes: 1000},
				{Array: engine.ArrayRevoked, Start: 200, Keys: 4000, Bytes: 10_000}},
		}}
	o := &Options{Dir: t.TempDir(), Identity: newIdentityOf(t), Now: func() time.Time { return time.Unix(400, 0) },
		Role: Publish, Engine: e, Log: slog.New(slog.DiscardHandler)}
	b, err := OpenBook(o, unwatched{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.AddPeer(t.Context(), id.ID(), "", 1); err != nil {
		t.Fatal(err)
	}
	want := []FormerStatus{{Incarnation: 7, Arrays: 3, Keys: 4320, Listed: 300, Memory: 11_100}, {Incarnation: 5}}
	if got := b.Former(id.ID()); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for since, want := range map[int64]Loss{
		100: {Arrays: 4, Counted: 21, Listed: 300, Revoked: 4000, Bytes: 11_110, From: time.Unix(100, 0).UTC()},
		101: {Arrays: 3, Counted: 1, Listed: 300, Revoked: 4000, Bytes: 11_010, From: time.Unix(200, 0).UTC()},
		300: {Arrays: 1, Counted: 1, Bytes: 10, From: time.Unix(300, 0).UTC()},
		400: {},
	} {
		if got, err := b.Loss(id.ID(), time.Unix(since, 0)); err != nil || got != want {
			t.Errorf("since %d: %+v, %v; want %+v", since, got, err, want)
		}
	}
	if got, err := b.Loss(id.ID(), time.Time{}); err != nil || got.Arrays != 4 {
		t.Errorf("of all time: %+v, %v", got, err)
	}
	stranger := newIdentityOf(t).ID()
	for _, key := range []string{stranger, "U"} {
		if _, err := b.Loss(key, time.Time{}); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: %v", key, err)
		}
		if err := b.ForgetFormer(t.Context(), key); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := b.ForgetFormer(t.Context(), id.ID()); err != nil || len(e.forgot) > 0 {
		t.Errorf("a node that only publishes forgets %v, %v", e.forgot, err)
	}
	o.Role = Both
	if err := b.ForgetFormer(t.Context(), id.ID()); err != nil || !reflect.DeepEqual(e.forgot, []string{id.ID()}) {
		t.Errorf("forgets %v, %v", e.forgot, err)
	}
}
