package mesh

import (
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestRefusals checks that each fault of a message is counted against its sender, once, under its
// name.
func TestRefusals(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		settle()
		now := uint64(time.Now().UnixMilli())
		deltas := wire.Topic{Kind: wire.KindDelta, Origin: f.id.Hint()}
		asks := wire.Topic{Kind: wire.KindAsk, Origin: home.id.Hint(), Key: f.id.Hint().String()}
		signed := func(at wire.Stamp, k wire.Kind) []byte {
			return wire.AppendMessage(nil, &wire.Message{Kind: k, Stamp: at, From: f.id.Hint()}, f.id)
		}
		year := uint64(wire.MaxAhead.Milliseconds())
		good := signed(wire.Stamp{Incarnation: now, Boot: now, Seq: 1, At: now}, wire.KindDelta)
		padded := func(n int) []byte { return append(slices.Clone(good), make([]byte, n-len(good))...) }
		changed := func(i int) []byte {
			b := slices.Clone(good)
			b[i] ^= 0x40
			return b
		}
		for _, tt := range []struct {
			name  string
			topic wire.Topic
			raw   []byte
			want  string
		}{
			{"as it should be", deltas, good, ""},
			{"a clock a year ahead", deltas, signed(wire.Stamp{Incarnation: now, Boot: now, Seq: 2, At: now + year - 60_000},
				wire.KindDelta), ""},
			{"and more", deltas, signed(wire.Stamp{Incarnation: now, Boot: now, Seq: 3, At: now + year + 60_000},
				wire.KindDelta), member.ReasonClock},
			{"a start later than that", deltas, signed(wire.Stamp{Incarnation: now, Boot: now + year + 60_000, Seq: 4,
				At: now + year + 60_000}, wire.KindDelta),
				member.ReasonClock},
			{"another kind than the subject's", deltas, signed(wire.Stamp{Incarnation: now, Boot: now, Seq: 5, At: now},
				wire.KindHead), member.ReasonSubject},
			{"another's key", deltas, changed(3), member.ReasonSubject},
			{"a later version", deltas, changed(0), member.ReasonVersion},
			{"a bit of the claim", deltas, changed(14), member.ReasonForged},
			{"a bit of the signature", deltas, changed(len(good) - 1), member.ReasonForged},
			{"nothing", deltas, nil, member.ReasonMalformed},
			{"no sender", deltas, good[:9], member.ReasonMalformed},
			{"half", deltas, good[:40], member.ReasonMalformed},
			{"more than a message has", deltas, padded(wire.MaxMessage + 1), member.ReasonLimit},
			{"as much", deltas, padded(wire.MaxMessage), member.ReasonForged},
			{"a question that is longer than any", asks, padded(wire.MaxAsk + 1), member.ReasonLimit},
			{"as long", asks, padded(wire.MaxAsk), member.ReasonForged},
		} {
			before := home.peerOf(t, f.id).Refusals
			f.bring(t, home, tt.topic, tt.raw)
			bubble.Advance(time.Second)
			after := home.peerOf(t, f.id)
			for reason, n := range after.Refusals {
				want := before[reason]
				if reason == tt.want {
					want++
				}
				if n != want {
					t.Errorf("%s: %d refused as %q, want %d", tt.name, n, reason, want)
				}
			}
			if tt.want != "" && after.Refusals[tt.want] == 0 {
				t.Errorf("%s: not refused as %q", tt.name, tt.want)
			}
		}
		if s := home.Status().Strangers; len(s) > 0 {
			t.Errorf("refusals of strangers: %v", s)
		}
	})
}
