package meshtest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
)

// An Engine returns what a test sets, and records its calls. Unset fields behave as in an engine
// without reports.
type Engine struct {
	*engine.Engine
	Mine      []engine.ArrayState // of [Engine.Own]
	Held      []engine.ArrayState // of [Engine.Replica], of every origin that HeldOf does not name
	HeldOf    map[string][]engine.ArrayState
	Taken     []engine.Part // of [Engine.TakeRounds], once; guarded by mu
	TakenErr  error
	Pages     []engine.Part // of [Engine.Images]
	ImagesErr error
	// With Full, RoomNow and RoomLater are what [Engine.Room] returns.
	Full, RoomNow, RoomLater bool
	Life                     uint64  // of [Engine.Incarnation]
	ShownShare               float64 // of [Engine.Shown]
	Expired                  uint64  // starts up to this are not kept
	Oldest                   uint64  // of [Engine.Floor]
	Former                   []engine.FormerIncarnation
	Failures
	Calls
	Repairs
}

// Failures are the errors of calls that change an engine.
type Failures struct {
	ApplyErr  error // of [Engine.ApplyRemote]
	RenameErr error // of [Engine.RenameOrigin]
	RenewErr  error // of [Engine.Renew]
	FormerErr error // of [Engine.ForgetFormer]
}

// Calls are the arguments of the calls that change an engine.
type Calls struct {
	Applied    [][]engine.Parsed
	Forgotten  []uint64
	Renewed    []uint64
	Renamed    [][2]string
	Needs      []engine.Need
	Superseded []engine.ArrayKey
	Dropped    []string // origins of which [Engine.ForgetFormer] dropped the former incarnations
}

// Repairs is what a test sets of the calls that bring lost pages back, and what these were called with.
type Repairs struct {
	mu           sync.Mutex
	Missing      engine.Wounds // of [Engine.Wounds], guarded by mu
	MissingErr   error
	HealErr      error
	RecordErr    error
	Published    int // pages that [Engine.HealPublished] restores
	PublishedErr error
	TakeErr      error // of [Engine.TakeBack]
	AdoptErr     error
	Copies       map[string][][]byte // of [Engine.ReplicaPages], by origin; an absent one gives [engine.ErrGap]
	CopiesErr    error

	Restored  []string // pages that [Engine.Heal] took
	TakenBack []string // pages that [Engine.TakeBack] took
	Ended     int      // calls of [Engine.EndHealing]
	Adoptions []uint64 // starts
	Recorded  int      // calls of [Engine.Record]
}

// Own implements [member.Engine].
func (e *Engine) Own() []engine.ArrayState {
	if e.Mine == nil {
		return e.Engine.Own()
	}
	return e.Mine
}

// Give sets Taken. Others may call the engine at the same time.
func (e *Engine) Give(parts ...engine.Part) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Taken = parts
}

// TakeRounds implements [member.Engine].
func (e *Engine) TakeRounds(ctx context.Context) ([]engine.Part, []engine.ArrayState, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	parts := e.Taken
	e.Taken = nil
	return parts, e.Own(), e.TakenErr
}

// Images implements [member.Engine].
func (e *Engine) Images(context.Context, engine.Array, uint64) (uint64, []engine.Part, error) {
	return 77, e.Pages, e.ImagesErr
}

// Replica implements [member.Engine].
func (e *Engine) Replica(origin string) []engine.ArrayState {
	if list, ok := e.HeldOf[origin]; ok {
		return list
	}
	return e.Held
}

// Incarnation implements [member.Engine].
func (e *Engine) Incarnation(string) uint64 { return e.Life }

// Shown implements [member.Engine].
func (e *Engine) Shown(string, engine.Array, uint64) float64 {
	return e.ShownShare
}

// ApplyRemote implements [member.Engine].
func (e *Engine) ApplyRemote(_ context.Context, _ string, parts []engine.Parsed) error {
	if e.ApplyErr == nil {
		e.Applied = append(e.Applied, slices.Clone(parts))
	}
	return e.ApplyErr
}

// Room implements [member.Engine].
func (e *Engine) Room(_ string, n engine.Need) (now, later bool) {
	e.Needs = append(e.Needs, n)
	if !e.Full {
		return true, false
	}
	return e.RoomNow, e.RoomLater
}

// ForgetGenerations implements [member.Engine].
func (e *Engine) ForgetGenerations(_ context.Context, _ string, since uint64) error {
	e.Forgotten = append(e.Forgotten, since)
	return nil
}

// FormerIncarnations implements [member.Engine].
func (e *Engine) FormerIncarnations(string) []engine.FormerIncarnation { return e.Former }

// ForgetFormer implements [member.Engine].
func (e *Engine) ForgetFormer(_ context.Context, origin string) error {
	if e.FormerErr == nil {
		e.Dropped = append(e.Dropped, origin)
	}
	return e.FormerErr
}

// Supersede implements [member.Engine].
func (e *Engine) Supersede(_ context.Context, _ string, keys []engine.ArrayKey) error {
	e.Superseded = append(e.Superseded, keys...)
	return nil
}

// Renew implements [member.Engine].
func (e *Engine) Renew(_ context.Context, _ string, life uint64) error {
	if e.RenewErr == nil {
		e.Renewed = append(e.Renewed, life)
	}
	return e.RenewErr
}

// RenameOrigin implements [member.Engine].
func (e *Engine) RenameOrigin(_ context.Context, from, to string) error {
	e.Renamed = append(e.Renamed, [2]string{from, to})
	return e.RenameErr
}

// Keeps implements [member.Engine].
func (e *Engine) Keeps(_ engine.Array, start uint64) bool { return start > e.Expired }

// Horizon implements [member.Engine].
func (e *Engine) Horizon(engine.Array) uint64 { return e.Expired }

// Floor implements [member.Engine].
func (e *Engine) Floor(engine.Array) uint64 { return e.Oldest }

// Record implements [member.Engine].
func (e *Engine) Record(ctx context.Context, on bool) error {
	if e.Recorded++; e.RecordErr != nil {
		return e.RecordErr
	}
	return e.Engine.Record(ctx, on)
}

// Wounds implements [member.Engine].
func (e *Engine) Wounds(context.Context) (engine.Wounds, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Missing, e.MissingErr
}

// Lose sets the missing pages while a sender runs.
func (e *Engine) Lose(pages []engine.Wound) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Missing.Pages = pages
}

// Heal implements [member.Engine].
func (e *Engine) Heal(_ context.Context, _ string, _ engine.Array, _ uint64, image []byte) error {
	if e.HealErr == nil {
		e.Restored = append(e.Restored, string(image))
	}
	return e.HealErr
}

// HealPublished implements [member.Engine].
func (e *Engine) HealPublished(context.Context, engine.Array, uint64, [][]byte, []engine.Part) (int, error) {
	return e.Published, e.PublishedErr
}

// EndHealing implements [member.Engine].
func (e *Engine) EndHealing(context.Context) error {
	e.Ended++
	return nil
}

// Adopt implements [member.Engine].
func (e *Engine) Adopt(_ context.Context, start uint64, _ map[engine.Array]filter.Geometry) error {
	if e.AdoptErr == nil {
		e.Adoptions = append(e.Adoptions, start)
	}
	return e.AdoptErr
}

// TakeBack implements [member.Engine].
func (e *Engine) TakeBack(_ context.Context, _ string, _ engine.Array, _ uint64, image []byte) error {
	if e.TakeErr == nil {
		e.TakenBack = append(e.TakenBack, string(image))
	}
	return e.TakeErr
}

// ReplicaPages implements [member.Engine].
func (e *Engine) ReplicaPages(_ context.Context, origin string, _ engine.Array, _ uint64, _ filter.Geometry,
	list []int) ([][]byte, error) {
	if e.CopiesErr != nil {
		return nil, e.CopiesErr
	}
	pages, ok := e.Copies[origin]
	if !ok {
		return nil, engine.ErrGap
	}
	out := make([][]byte, len(list))
	for i, page := range list {
		if page < len(pages) {
			out[i] = pages[page]
		}
	}
	return out, nil
}

// A SentBus records published messages, or refuses them. Messages may be called while a sender runs.
type SentBus struct {
	*Bus
	Err error
	Max int // bytes of a message; 0: no limit

	mu   sync.Mutex
	Sent []Stored
}

// Publish implements [wire.Transport].
func (b *SentBus) Publish(t wire.Topic, msg []byte) error {
	if b.Max > 0 && len(msg) > b.Max {
		return wire.ErrTooLarge
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Err == nil {
		b.Sent = append(b.Sent, Stored{Topic: t, Data: msg})
	}
	return b.Err
}

// Messages parses the messages published since the last call.
func (b *SentBus) Messages(t *testing.T) (out []*wire.Message) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.Sent {
		m, err := Parse(q.Data, enginetest.Secret.ID())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	b.Sent = nil
	return out
}

// The shapes of the arrays of [Round]: counts, and lists.
var (
	Cells = filter.Geometry{Kind: filter.Cells, Lines: filter.PageLines, K: 4, KeyID: enginetest.Secret.ID()}
	Bits  = filter.Geometry{Kind: filter.Bitmap, Lines: filter.PageLines, K: 8, KeyID: enginetest.Secret.ID()}
)

// Round returns a round of keys keys that begins at a version.
func Round(t *testing.T, x wire.Ref, from uint64, keys int) wire.Round {
	t.Helper()
	var body []byte
	if x.Array == engine.ArrayCounts {
		c, err := arrays.NewCounting(Cells)
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
		return wire.Round{Ref: x, From: from, To: r.To, Geometry: Cells, Announce: true, Data: body, Boot: 5}
	}
	b, err := arrays.NewBits(Bits)
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
	return wire.Round{Ref: x, From: from, To: r.To, Geometry: Bits, Announce: true, Data: r.AppendBody(nil), Boot: 5}
}
