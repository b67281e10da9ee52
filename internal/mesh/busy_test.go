package mesh

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A busyEngine takes a report just before and just after each of its images is made.
type busyEngine struct {
	*engine.Engine
	t            *testing.T
	sent, images atomic.Uint32
}

func (e *busyEngine) report() {
	enginetest.Report(e.t, e.Engine, 1, bulkhead.Sighting, 1)
	e.sent.Add(1)
}

func (e *busyEngine) Images(ctx context.Context, a engine.Array, start uint64) (uint64, []engine.Part, error) {
	e.images.Add(1)
	e.report()
	defer e.report()
	return e.Engine.Images(ctx, a, start)
}

// TestImagesUnderLoad checks that a node that receives images of a constantly changing array
// continues with rounds from there.
func TestImagesUnderLoad(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home, busy := newSite(t, k, nil), &busyEngine{t: t}
		defer home.stop()
		peer := newSite(t, k, func(o *member.Options) {
			busy.Engine = o.Engine.(*engine.Engine)
			o.Engine = busy
		})
		defer peer.stop()
		busy.report()
		settle()
		k.Wipe()
		trust(t, home, 1, peer)
		bubble.Advance(time.Minute)
		if got, sent, images := enginetest.Check(t, home.engine,
			1).Sightings, busy.sent.Load(), busy.images.Load(); got != sent ||
			images > 2 {
			t.Errorf("%d sightings after %d images, want %d after one", got, images, sent)
		}
	})
}

// An eagerEngine takes a report just after each of its rounds was taken.
type eagerEngine struct {
	*engine.Engine
	t      *testing.T
	rounds int
}

func (e *eagerEngine) TakeRounds(ctx context.Context) ([]engine.Part, []engine.ArrayState, error) {
	parts, own, err := e.Engine.TakeRounds(ctx)
	enginetest.Report(e.t, e.Engine, 1, bulkhead.Sighting, 1)
	e.rounds++
	return parts, own, err
}

// TestHeadUnderLoad checks that the heads of a server that counts all the time cover only what it
// has sent, so that peers ask for nothing.
func TestHeadUnderLoad(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		busy := &eagerEngine{t: t}
		origin := newSite(t, k, func(o *member.Options) {
			busy.Engine = o.Engine.(*engine.Engine)
			o.Engine, o.Heartbeat = busy, 10*time.Second
		})
		home := newSite(t, k, nil)
		defer home.stop()
		defer origin.stop()
		settle()
		trust(t, home, 1, origin)
		bubble.Advance(time.Minute) // earlier counts are requested
		before := home.peer(t, origin).Asked
		bubble.Advance(10 * time.Minute)
		if p := home.peer(t, origin); p.Asked != before || p.Missing != 0 || len(p.Refusals) > 0 {
			t.Errorf("asked %d times, %d missing, refused %v", p.Asked-before, p.Missing, p.Refusals)
		}
		if busy.rounds < 300 {
			t.Errorf("%d rounds", busy.rounds)
		}
	})
}

// TestBeforeRun checks that counts from before the node has begun to share are shared as well.
func TestBeforeRun(t *testing.T) {
	id, err := member.OpenIdentity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := enginetest.Small(t, nil)
	m, err := prepare(t.Context(),
		member.Options{Dir: t.TempDir(), Engine: e, KeyID: enginetest.Secret.ID(), Mode: member.External, Identity: id})
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Report(t, e, 1, bulkhead.Sighting, 1)
	if parts, _, err := e.TakeRounds(t.Context()); err != nil || len(parts) != 1 {
		t.Errorf("%d rounds, %v", len(parts), err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
