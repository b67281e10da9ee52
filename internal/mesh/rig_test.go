package mesh

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
)

// A stubEngine returns what a test sets, and records its calls. Unset fields behave as in an engine
// without reports.
type stubEngine struct {
	*engine.Engine
	own, held  []engine.ArrayState
	taken      []engine.Part
	images     []engine.Part
	imagesErr  error
	now, later bool // room
	full       bool // now and later are in effect
	applyErr   error
	life       uint64
	shown      float64
	expired    uint64 // starts up to this are not kept
	floor      uint64

	applied   [][]engine.Parsed
	forgotten []uint64
	renewed   []uint64
	renamed   [][2]string
	renameErr error
	needs     []engine.Need

	former     []engine.FormerIncarnation
	superseded []engine.ArrayKey
}

func (e *stubEngine) Own() []engine.ArrayState {
	if e.own == nil {
		return e.Engine.Own()
	}
	return e.own
}

func (e *stubEngine) TakeRounds(ctx context.Context) ([]engine.Part, []engine.ArrayState, error) {
	parts := e.taken
	e.taken = nil
	return parts, e.Own(), nil
}

func (e *stubEngine) Images(context.Context, engine.Array, uint64) (uint64, []engine.Part, error) {
	return 77, e.images, e.imagesErr
}

func (e *stubEngine) Replica(string) []engine.ArrayState { return e.held }
func (e *stubEngine) Incarnation(string) uint64          { return e.life }
func (e *stubEngine) Shown(string, engine.Array, uint64) float64 {
	return e.shown
}

func (e *stubEngine) ApplyRemote(_ context.Context, _ string, parts []engine.Parsed) error {
	if e.applyErr == nil {
		e.applied = append(e.applied, slices.Clone(parts))
	}
	return e.applyErr
}

func (e *stubEngine) Room(_ string, n engine.Need) (now, later bool) {
	e.needs = append(e.needs, n)
	if !e.full {
		return true, false
	}
	return e.now, e.later
}

func (e *stubEngine) ForgetGenerations(_ context.Context, _ string, since uint64) error {
	e.forgotten = append(e.forgotten, since)
	return nil
}

func (e *stubEngine) FormerIncarnations(string) []engine.FormerIncarnation { return e.former }

func (e *stubEngine) Supersede(_ context.Context, _ string, keys []engine.ArrayKey) error {
	e.superseded = append(e.superseded, keys...)
	return nil
}

func (e *stubEngine) Renew(_ context.Context, _ string, life uint64) error {
	e.renewed = append(e.renewed, life)
	return nil
}

func (e *stubEngine) RenameOrigin(_ context.Context, from, to string) error {
	e.renamed = append(e.renamed, [2]string{from, to})
	return e.renameErr
}

func (e *stubEngine) Keeps(_ engine.Array, start uint64) bool { return start > e.expired }
func (e *stubEngine) Horizon(engine.Array) uint64             { return e.expired }
func (e *stubEngine) Floor(engine.Array) uint64               { return e.floor }

// A sentBus records published messages, or refuses them.
type sentBus struct {
	*memBus
	err  error
	sent []queued
	max  int // bytes of a message; 0: no limit
}

func (b *sentBus) Publish(t wire.Topic, msg []byte) error {
	if b.max > 0 && len(msg) > b.max {
		return wire.ErrTooLarge
	}
	if b.err == nil {
		b.sent = append(b.sent, queued{topic: t, msg: msg})
	}
	return b.err
}

// messages parses the messages published since the last call.
func (b *sentBus) messages(t *testing.T) (out []*wire.Message) {
	t.Helper()
	for _, q := range b.sent {
		m, err := ParseMessage(q.msg, enginetest.Secret.ID())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	b.sent = nil
	return out
}

// A rig is the parts of a mesh that does not run, on a stub of an engine, with one peer.
type rig struct {
	*Mesh
	e    *stubEngine
	bus  *sentBus
	peer *member.Identity
	p    *member.Peer // of t
	t    *origin
}

func newRig(t *testing.T, k *memBroker, change func(*member.Options)) *rig {
	t.Helper()
	r := &rig{e: &stubEngine{Engine: enginetest.Small(t, nil)}, peer: mustIdentity(t)}
	r.Mesh = closed(t, func(o *member.Options) {
		o.Engine = r.e
		if change != nil {
			change(o)
		}
	})
	r.bus = &sentBus{memBus: k.connect()}
	r.use(r.bus)
	if err := r.AddPeer(t.Context(), r.peer.ID(), "peer", 1); err != nil {
		t.Fatal(err)
	}
	r.again()
	return r
}

// again drops the receiver's state of the peer.
func (r *rig) again() {
	r.receiver.forget(r.peer.Hint())
	r.t = r.receiver.origin(r.peer.Hint())
	r.t.peer, _ = r.Find(r.peer.Hint())
	r.p = &r.t.peer
}

func (r *rig) status() PeerStatus { return r.Status().Peers[0] }

// refused returns the refusals that f causes.
func (r *rig) refused(f func()) string {
	before := r.status().Refusals
	f()
	var out []string
	for reason, n := range r.status().Refusals {
		if n > before[reason] {
			out = append(out, reason)
		}
	}
	return strings.Join(out, ", ")
}

var (
	cellsOf = filter.Geometry{Kind: filter.Cells, Lines: filter.PageLines, K: 4, KeyID: enginetest.Secret.ID()}
	bitsOf  = filter.Geometry{Kind: filter.Bitmap, Lines: filter.PageLines, K: 8, KeyID: enginetest.Secret.ID()}
)

// roundOf returns a round of keys keys that begins at a version.
func roundOf(t *testing.T, x wire.Ref, from uint64, keys int) wire.Round {
	t.Helper()
	var body []byte
	if x.Array == engine.ArrayCounts {
		c, err := arrays.NewCounting(cellsOf)
		if err != nil {
			t.Fatal(err)
		}
		c.SetGeneration(x.Start)
		r := c.NewRound()
		r.From = from
		for i := range keys {
			r.Record([]filter.Key{{Hi: uint64(i) << 40, Lo: from}}, []uint32{1}, []uint32{0})
		}
		r.Close()
		body = r.AppendBody(nil)
		return wire.Round{Ref: x, From: from, To: r.To, Geometry: cellsOf, Announce: true, Data: body, Boot: 5}
	}
	b, err := arrays.NewBits(bitsOf)
	if err != nil {
		t.Fatal(err)
	}
	b.SetGeneration(x.Start)
	r := b.NewRound()
	r.From = from
	for i := range keys {
		r.RecordBits([]filter.Key{{Hi: uint64(i) << 40, Lo: from}}, []bool{false})
	}
	r.Close()
	return wire.Round{Ref: x, From: from, To: r.To, Geometry: bitsOf, Announce: true, Data: r.AppendBody(nil), Boot: 5}
}
