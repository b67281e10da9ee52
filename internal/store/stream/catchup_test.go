package stream

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestReplayInOrder reads a stream with entries of one and of several messages from each entry on, over a slow
// connection, while messages that are no entry's were removed from it.
func TestReplayInOrder(t *testing.T) {
	r := one(t)
	r.part = 10
	j, at := start(t, r, 0)
	rng := rand.New(rand.NewPCG(34, 1))
	want := [][]byte{nil}
	for i := range 60 {
		if i%7 == 3 { // what a writer leaves that dies
			m := message{writer: j.writer, index: j.at.Index + 1, before: j.at.Link, after: 1, parts: 3, data: []byte("torn")}
			seq, err := j.publish(t.Context(), &m, j.seq)
			if err == nil {
				err = j.stream.DeleteMsg(t.Context(), seq)
			}
			if err != nil {
				t.Fatal(err)
			}
			j.seq = seq
		}
		entry := bytes.Repeat([]byte{byte(i)}, 1+rng.IntN(35))
		if _, err := j.Append(entry); err != nil {
			t.Fatal(err)
		}
		want = append(want, entry)
	}
	wire := nodetest.NewWire(t, r.urls[0][len("nats://"):])
	wire.Delay.Store(int64(time.Millisecond))
	r.urls = []string{"nats://" + wire.Address()}
	slow := r.journal(t)
	if _, err := join(t, slow, at[0], false); err != nil {
		t.Fatal(err)
	}
	for from := uint64(1); from < uint64(len(want)); from += 1 + from/3 {
		next := from
		err := slow.Replay(t.Context(), from, func(index uint64, entry []byte) error {
			if index != next || !bytes.Equal(entry, want[index]) {
				return fmt.Errorf("entry %d is %q, want entry %d: %q", index, entry, next, want[next])
			}
			next++
			return nil
		})
		if err != nil || next != uint64(len(want)) {
			t.Errorf("from entry %d to %d: %v", from, next, err)
		}
	}
}

// BenchmarkCatchUp measures how fast a node reads a stream that it lacks, over a connection that delays each answer by
// up to a millisecond in each direction.
func BenchmarkCatchUp(b *testing.B) {
	address := natstest.Start(b)
	open := func(address string) *Journal {
		j, err := Open(Options{Servers: []string{"nats://" + address}, Name: "test", MaxBytes: 1 << 30, Key: [32]byte{1}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { j.Close() })
		return j
	}
	writer := open(address)
	if _, err := writer.Join(b.Context(), store.Position{}, true, nil); err != nil {
		b.Fatal(err)
	}
	const entries = 2000
	for range entries {
		if _, err := writer.Append(make([]byte, 1000)); err != nil {
			b.Fatal(err)
		}
	}
	wire := nodetest.NewWire(b, address)
	wire.Delay.Store(int64(time.Millisecond))
	reader := open(wire.Address())
	for b.Loop() {
		n := 0
		_, err := reader.Join(b.Context(), store.Position{}, false,
			func(_ context.Context, _ store.Position, es []store.Entry) error {
				n += len(es)
				return nil
			})
		if err != nil || n != entries {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(entries*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
