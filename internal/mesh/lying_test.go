package mesh

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A liar makes messages of every kind whose fields have any value. Each is well formed and signed.
type liar struct {
	*rand.Rand
	home, self wire.Hint
	begin      uint64 // generation that the node has open
}

// number returns a small number, one near the open generation, or any.
func (l *liar) number() uint64 {
	switch l.IntN(4) {
	case 0:
		return uint64(l.IntN(4))
	case 1:
		return l.begin + uint64(l.IntN(5)) - 2
	case 2:
		return l.Uint64() >> l.IntN(64)
	}
	return uint64(l.IntN(1 << 16))
}

func (l *liar) bytes(most int) []byte {
	b := make([]byte, l.IntN(most+1))
	for i := range b {
		b[i] = byte(l.Uint32())
	}
	return b
}

func (l *liar) ref() wire.Ref {
	kinds := []engine.Array{engine.ArrayCounts, engine.ArraySpam, engine.ArrayRevoked}
	return wire.Ref{Array: kinds[l.IntN(3)], Start: l.number()}
}

func (l *liar) geometry() filter.Geometry {
	return filter.Geometry{Kind: []filter.Kind{filter.Bitmap, filter.Cells, filter.Kind(l.IntN(256))}[l.IntN(3)],
		Lines: l.number() >> l.IntN(60), K: uint8(l.IntN(20)), KeyID: enginetest.Secret.ID()}
}

func (l *liar) lineage(boot uint64) (all wire.Lineage) {
	for range l.IntN(4) {
		all = append(all, wire.Epoch{Boot: boot - uint64(l.IntN(3)), Base: l.number()})
	}
	return all
}

func (l *liar) heads(boot uint64) (all []wire.ArrayHead) {
	for range l.IntN(8) {
		all = append(all, wire.ArrayHead{Ref: l.ref(), Version: l.number(), Boot: boot - uint64(l.IntN(3)),
			Partial: l.IntN(2) == 0, Geometry: l.geometry(), Lineage: l.lineage(boot)})
	}
	return all
}

// message returns a message of one kind.
func (l *liar) message(k wire.Kind, at wire.Stamp) *wire.Message {
	m := &wire.Message{Kind: k, Stamp: at, From: l.self, To: l.home, KeyID: 0}
	switch k {
	case wire.KindDelta: // counts and listings: tiny ones, many, and older ones than are held
		for range l.IntN(20) {
			from := l.number()
			m.Rounds = append(m.Rounds, wire.Round{Ref: l.ref(), From: from, To: from + uint64(l.IntN(3)),
				Geometry: l.geometry(), Announce: l.IntN(2) == 0, Lineage: l.lineage(at.Boot), Data: l.bytes(200)})
		}
	case wire.KindHead: // what it holds, and whose sum that is
		m.Name, m.Floors = "liar", [2]uint64{l.number(), l.number()}
		m.Heads = l.heads(at.Boot)
		for i := range l.IntN(5) {
			m.Organisations = append(m.Organisations, wire.Organisation{byte(i), byte(l.IntN(256))})
		}
	case wire.KindAsk:
		m.Incarnation, m.Boot, m.Wants = l.number(), l.number(), l.heads(at.Boot)
		for range l.IntN(3) {
			m.Proofs = append(m.Proofs, l.bytes(300))
		}
	case wire.KindImage:
		m.Image = wire.Image{Ref: l.ref(), At: l.number(), Geometry: l.geometry(), Lineage: l.lineage(at.Boot)}
		for range l.IntN(4) {
			m.Image.Pages = append(m.Image.Pages, l.bytes(400))
		}
	default:
		m.Lost = wire.LostPages{Ref: l.ref(), Geometry: l.geometry()}
		for range l.IntN(5) {
			m.Lost.List, m.Lost.Pages = append(m.Lost.List, l.number()), append(m.Lost.Pages, l.bytes(300))
		}
	}
	return m
}

// TestLyingMember checks that a member whose signed messages of every kind have any contents changes
// neither what a node counts nor what it has of another peer, is refused under its own name alone, and
// that its eviction leaves exactly what the others counted.
func TestLyingMember(t *testing.T) {
	kinds := []wire.Kind{wire.KindDelta, wire.KindHead, wire.KindAsk, wire.KindImage, wire.KindPages, wire.KindRefill}
	for seed := range uint64(3) {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			home, honest := newSite(t, k, nil), newSite(t, k, nil)
			defer home.stop()
			defer honest.stop()
			trust(t, home, 1, honest)
			f := newForger(t, k, home, 1)
			enginetest.Report(t, home.engine, 1, bulkhead.Sighting, 3)
			enginetest.Report(t, honest.engine, 1, bulkhead.Sighting, 40)
			enginetest.Report(t, honest.engine, 2, bulkhead.Spam, 1)
			settle()
			l := &liar{rand.New(rand.NewPCG(seed, 7)), home.id.Hint(), f.id.Hint(), home.engine.Own()[0].Start}
			for i := range 400 {
				m := l.message(kinds[i%len(kinds)], f.at)
				f.at.Seq++
				m.Stamp = f.at
				x := wire.Topic{Kind: m.Kind.Topic(), Origin: l.self}
				if x.Kind == wire.KindAsk {
					x = wire.Topic{Kind: x.Kind, Origin: l.home, Key: l.self.String()}
				}
				f.bring(t, home, x, wire.AppendMessage(nil, m, f.id))
				if i%40 == 0 {
					bubble.Advance(time.Second)
				}
			}
			settle()
			if c := enginetest.Check(t, home.engine, 1); c.Sightings < 43 {
				t.Errorf("seed %d: a count of 43 is %d", seed, c.Sightings)
			}
			if p := home.peer(t, honest); len(p.Refusals) > 0 {
				t.Errorf("seed %d: the honest peer is refused: %v", seed, p.Refusals)
			}
			if p := home.peerOf(t, f.id); len(p.Refusals) == 0 {
				t.Errorf("seed %d: nothing of the liar was refused", seed)
			}
			if err := home.EvictPeer(t.Context(), f.id.ID()); err != nil {
				t.Fatal(err)
			}
			enginetest.Report(t, honest.engine, 1, bulkhead.Sighting, 5)
			settle()
			if c := enginetest.Check(t, home.engine, 1); c.Sightings != 48 {
				t.Errorf("seed %d: without the liar a count of 48 is %d", seed, c.Sightings)
			}
			if c := enginetest.Check(t, home.engine, 2); c.Judged != bulkhead.JudgedSpam {
				t.Errorf("seed %d: what the honest peer listed is %+v", seed, c)
			}
		})
	}
}

// lesson returns a lesson, or a question for one, with any contents.
func (l *liar) lesson() *wire.Message {
	m := &wire.Message{Kind: wire.KindLesson, From: l.self, To: l.home}
	if l.IntN(4) == 0 {
		m.Kind, m.Teaching.Study = wire.KindStudy, &lesson.Study{Table: l.number()}
		for range l.IntN(lesson.MaxGenerations + 1) {
			m.Teaching.Study.Held = append(m.Teaching.Study.Held, lesson.Mark{Start: l.number(), Round: uint32(l.number())})
		}
		return m
	}
	entry := func(t learn.Token) lesson.Entry {
		return lesson.Entry{Token: t, Reported: uint32(l.number()), Withdrawn: uint32(l.number()),
			Delivered: uint32(l.number())}
	}
	out := &lesson.Lesson{Table: uint64(l.IntN(2)), Since: uint32(l.IntN(2)), Parts: uint32(1 + l.IntN(2))}
	for i := range 1 + l.IntN(lesson.MaxGenerations) {
		key := enginetest.Secret.ID()
		if l.IntN(4) == 0 {
			key = l.number() // of a secret that this node does not have
		}
		out.Live = append(out.Live, lesson.Mark{Start: l.begin + 10 - uint64(i), KeyID: key, Round: uint32(l.number()),
			All: entry(0)})
	}
	token := learn.Token(0)
	for range l.IntN(lesson.MaxEntries + 1) {
		token += learn.Token(1 + l.Uint64()>>20)
		out.Entries = append(out.Entries, entry(token))
	}
	m.Teaching.Lesson = out
	return m
}

// TestLyingTeacher checks that a member whose signed lessons and questions have any contents changes nothing of what
// the others teach, takes no more memory than its share, is refused under its own name alone, and is forgotten with
// its eviction. Lessons that a broker repeats, or that others have signed in its name, change nothing.
func TestLyingTeacher(t *testing.T) {
	for seed := range uint64(3) {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			const share = 20_000
			lessons := func(o *member.Options) {
				o.Lessons = lesson.New(lesson.Options{Source: noSource{}, Bytes: 2 * share * 24,
					Known: func(id uint64) bool { return id == enginetest.Secret.ID() }, Set: func(*learn.Others) {}})
			}
			home, honest := newSite(t, k, lessons), newSite(t, k, nil)
			defer home.stop()
			defer honest.stop()
			trust(t, home, 1, honest)
			f := newForger(t, k, home, 1)
			settle()
			class := home.opts.Lessons.Class
			own := &lesson.Lesson{Table: 5, Live: []lesson.Mark{{Start: 9, KeyID: enginetest.Secret.ID(), Round: 1}}, Parts: 1,
				Entries: []lesson.Entry{{Token: 3, Reported: 2, Delivered: 8}}}
			if err := class.Take(honest.id.ID(), own); err != nil {
				t.Fatal(err)
			}
			class.Combine()
			of := func(id string) (out lesson.OriginState) {
				for _, s := range class.State() {
					if s.ID == id {
						out = s
					}
				}
				return out
			}
			before := of(honest.id.ID())
			l := &liar{rand.New(rand.NewPCG(seed, 9)), home.id.Hint(), f.id.Hint(), home.engine.Own()[0].Start}
			var repeated []byte
			topic := wire.Topic{Kind: wire.KindAsk, Origin: l.home, Key: l.self.String()}
			for i := range 300 {
				m := l.lesson()
				f.at.Seq++
				m.Stamp = f.at
				raw := wire.AppendMessage(nil, m, f.id)
				f.bring(t, home, topic, raw)
				if i == 0 {
					repeated = raw
				}
				if i%20 == 0 {
					f.bring(t, home, topic, repeated)
					forged := slices.Clone(raw) // in the honest peer's name
					h := honest.id.Hint()
					copy(forged[2:], h[:])
					f.bring(t, home, wire.Topic{Kind: wire.KindAsk, Origin: l.home, Key: h.String()}, forged)
					bubble.Advance(time.Second)
				}
				if s := of(f.id.ID()); s.Features > share {
					t.Fatalf("seed %d: %d words of the liar, its share is %d", seed, s.Features, share)
				}
			}
			settle()
			if got := of(honest.id.ID()); got != before {
				t.Errorf("seed %d: of the honest peer is held %+v, before %+v", seed, got, before)
			}
			if p := home.peerOf(t, f.id); len(p.Refusals) == 0 {
				t.Errorf("seed %d: nothing of the liar was refused", seed)
			}
			if err := home.EvictPeer(t.Context(), f.id.ID()); err != nil {
				t.Fatal(err)
			}
			settle()
			if s := of(f.id.ID()); s.Features > 0 {
				t.Errorf("seed %d: %+v is held of an evicted liar", seed, s)
			}
			if got := of(honest.id.ID()); got != before {
				t.Errorf("seed %d: of the honest peer is held %+v, before %+v", seed, got, before)
			}
		})
	}
}

// A noSource has counted nothing.
type noSource struct{}

func (noSource) Entries(uint64, []learn.Token) (all lesson.Entry, entries []lesson.Entry, ok bool) {
	return
}
