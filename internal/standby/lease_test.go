package standby

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/standby/lease"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// leaseFor is the time of a lease in these tests.
const leaseFor = 600 * time.Millisecond

// openLease opens the lease of a machine that has a witness and knows the other node.
func (m *machine) openLease(s State) {
	m.t.Helper()
	m.lease = nil
	if m.witness == nil || s.Peer == "" {
		return
	}
	l, err := lease.Open(lease.Options{Servers: []string{"nats://" + m.witness.Address()}, Own: m.key.Public(),
		Other: s.Peer, For: leaseFor, Log: m.options(s).Log})
	if err != nil {
		m.t.Fatal(err)
	}
	m.lease = l
}

// takeOver takes over if the node of the machine should do so by itself, and reports whether it did.
func (m *machine) takeOver() bool {
	m.mu.Lock()
	f, l := m.follow, m.lease
	m.mu.Unlock()
	if f == nil || l == nil || !f.MayTakeOver(l, leaseFor) {
		return false
	}
	last := max(m.term.Load()[0], f.Status().Term)
	ctx, cancel := context.WithTimeout(context.Background(), 2*leaseFor)
	defer cancel()
	if err := l.Take(ctx, last+1); err != nil {
		return false
	}
	m.begin(last)
	return true
}

// pairWithWitness opens a pair whose nodes reach a witness by wires of their own.
func pairWithWitness(t *testing.T) (a, b *machine) {
	t.Helper()
	address := natstest.Start(t)
	a, b = newMachine(t, "a"), newMachine(t, "b")
	for _, m := range []*machine{a, b} {
		m.witness, m.alone = nodetest.NewWire(t, address), true
	}
	meetFirst(t, a, b)
	a.close() // it knows the other node now
	a.open()
	await.True(t, "a standby that has everything", func() bool { return follows(a, b) })
	return a, b
}

// TestTakeOverAlone closes the first node, and expects the second one to take over by itself, and the first
// one to follow when it is back.
func TestTakeOverAlone(t *testing.T) {
	a, b := pairWithWitness(t)
	first := a.acknowledged(1)
	await.True(t, "a lease without a debt", func() bool { return b.lease.Holder() == "other" && inStep(b) })
	a.close()
	await.True(t, "a take-over", b.takeOver)
	second := b.acknowledged(2)
	a.open()
	if a.decide(3) {
		t.Error("the former first node acknowledges")
	}
	await.True(t, "the former first node follows", func() bool { return follows(b, a) })
	for _, n := range []uint64{first, second} {
		for _, m := range []*machine{a, b} {
			if got := m.numbers()[n]; got != 1 {
				t.Errorf("number %d is there %d times", n, got)
			}
		}
	}
}

// inStep reports whether the witness knows that the second node, of machine m, lacks nothing.
func inStep(m *machine) bool { return !m.lease.Behind() }

// TestNoTakeOverBehind checks that a second node that may lack what was acknowledged does not take over by
// itself, however long the first node is dead.
func TestNoTakeOverBehind(t *testing.T) {
	a, b := pairWithWitness(t)
	await.True(t, "a lease without a debt", func() bool { return inStep(b) })
	b.close()
	await.True(t, "an acknowledgement without the standby", func() bool { return a.decide(1) })
	a.close()
	b.open()
	await.True(t, "the debt at the witness", func() bool { return b.lease.Behind() })
	await.True(t, "the end of the lease", func() bool { return b.lease.Holder() == "none" })
	if b.takeOver() {
		t.Error("a node that lacks an acknowledged number takes over")
	}
	a.open()
	await.True(t, "a standby that has everything", func() bool { return follows(a, b) && inStep(b) })
}

// TestWitnessAway checks that a pair whose nodes see each other acknowledges without the witness, and that a
// lone node without it acknowledges nothing.
func TestWitnessAway(t *testing.T) {
	a, b := pairWithWitness(t)
	a.witness.Partition(true)
	b.witness.Partition(true)
	await.True(t, "the end of the lease", func() bool { return !a.lease.Valid() })
	a.acknowledged(1)
	b.close()
	await.True(t, "a standby that is away", func() bool { return !a.lead.Status().Connected })
	if a.decide(2) {
		t.Error("a lone node without the witness acknowledges")
	}
	a.witness.Partition(false)
	await.True(t, "an acknowledgement under the lease", func() bool { return a.decide(3) })
}

// TestUnfinishedTakeOver has a second node die after the first entry of its term, before it was the first node. The
// other node has learnt of the term and follows then, so both do. The one with the lease takes over without a command.
func TestUnfinishedTakeOver(t *testing.T) {
	a, b := pairWithWitness(t)
	number := a.acknowledged(1)
	await.True(t, "a lease without a debt", func() bool { return b.lease.Holder() == "other" && inStep(b) })
	a.close()
	if err := b.lease.Take(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	b.close()
	st, err := store.Open(filepath.Join(b.dir, "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = st.Append(binary.BigEndian.AppendUint64(nil, 2|beginsTerm))
	if err = errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	b.open()
	a.open()
	w := &trio{t: t, both: [2]*machine{a, b}, acked: make(map[uint64]bool)}
	// On a busy machine the other node may take over from this one afterwards.
	await.True(t, "a take-over", func() bool { w.step(); return w.takeOvers > 0 })
	if term := b.term.Load()[0]; w.takeOvers != 1 || term != 3 {
		t.Errorf("%d take-overs, term %d, want 1 and 3", w.takeOvers, term)
	}
	w.heal()
	for _, m := range w.both {
		if got := m.numbers()[number]; got != 1 {
			t.Errorf("the acknowledged number is there %d times", got)
		}
	}
}

// TestPartitionsWithWitness kills the first node, or cuts connections of the pair and its witness, at random. The
// second node takes over by itself whenever it should. Each node may go on alone. It checks that both nodes
// end with every number that was acknowledged, once, and that the second node takes over from a dead one.
func TestPartitionsWithWitness(t *testing.T) {
	eachSeed(t, 4, 1, func(t *testing.T, seed uint64) { partitionsWithWitness(t, rand.New(rand.NewPCG(seed, 34))) })
}

// A trio is a pair with its witness, under faults.
type trio struct {
	t         *testing.T
	both      [2]*machine
	n         uint64
	acked     map[uint64]bool
	takeOvers int
}

// step lets each node do what it would do by itself.
func (w *trio) step() {
	for _, m := range w.both {
		select {
		case <-m.reopen:
			m.close()
			m.open()
		default:
		}
		if m.takeOver() {
			w.takeOvers++
		}
	}
}

func (w *trio) write() {
	for _, m := range w.both {
		if w.n++; m.decide(w.n) {
			w.acked[w.n] = true
		}
	}
}

// heal ends all faults, and returns the first and the second node once they are in step.
func (w *trio) heal() (first, second *machine) {
	w.t.Helper()
	for _, m := range w.both {
		m.wire.Partition(false)
		m.witness.Partition(false)
	}
	await.True(w.t, "a pair in step", func() bool {
		w.step()
		for i, m := range w.both {
			if other := w.both[1-i]; follows(m, other) && m.lease.Valid() && inStep(other) {
				first, second = m, other
				return true
			}
		}
		return false
	})
	return first, second
}

// during writes, and lets the nodes do what they would do, for a time.
func (w *trio) during(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.step()
		w.write()
		<-time.After(leaseFor / 20)
	}
}

func partitionsWithWitness(t *testing.T, rng *rand.Rand) {
	a, b := pairWithWitness(t)
	w := &trio{t: t, both: [2]*machine{a, b}, acked: make(map[uint64]bool)}
	for range 6 {
		first, second := w.heal()
		w.during(leaseFor / 4)
		before := w.takeOvers
		switch rng.IntN(4) {
		case 0: // the first node dies
			first.close()
			await.True(t, "a take-over", func() bool { w.step(); return w.takeOvers > before })
			w.during(leaseFor / 2)
			first.open()
		case 1: // the first node is cut off from everything
			first.wire.Partition(true)
			second.wire.Partition(true)
			first.witness.Partition(true)
		case 2: // the nodes do not see each other
			first.wire.Partition(true)
			second.wire.Partition(true)
		default:
			for _, m := range w.both {
				m.wire.Partition(rng.IntN(2) == 0)
				m.witness.Partition(rng.IntN(2) == 0)
			}
		}
		w.during(time.Duration(rng.Int64N(int64(3 * leaseFor))))
	}
	w.heal()
	if len(w.acked) == 0 {
		t.Fatal("nothing was acknowledged")
	}
	t.Logf("%d of %d numbers acknowledged, %d take-overs", len(w.acked), w.n, w.takeOvers)
	for _, m := range w.both {
		got := m.numbers()
		for n := range w.acked {
			if got[n] != 1 {
				t.Errorf("number %d was acknowledged and is there %d times", n, got[n])
			}
		}
	}
}
