package door

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// settled waits until f holds.
func settled(t *testing.T, what string, f func() bool) {
	t.Helper()
	await.True(t, what, f)
}

func heldOf(m *Memory) int64 {
	_, held, _ := m.Usage()
	return held
}

// TestPacketMemory: datagrams being processed hold their share of the memory, datagrams that find
// none are dropped and counted, and all memory is given back when they are answered.
func TestPacketMemory(t *testing.T) {
	for _, tt := range []struct {
		size, limit int
		fit         int64 // datagrams of that size at once
		held        int64
	}{
		{10, 1000, 10, 1000}, // each takes its buffer of 100 bytes
		{25, 1099, 10, 1000},
		{60, 1000, 4, 960}, // each takes 4 times its size
		{60, 240, 1, 240},
		{60, 50, 1, 50}, // one takes all memory
	} {
		t.Run(fmt.Sprintf("%d bytes of %d", tt.size, tt.limit), func(t *testing.T) {
			memory := NewMemory(int64(tt.limit))
			s := &PacketServer{MaxPacket: 99, Batch: 7, Memory: memory}
			out := make(chan *Packet, 100)
			s.Handler = s.Each(func(_ context.Context, p *Packet) {
				if !p.Detach() {
					t.Error("no packet can be detached")
				}
				out <- p
			})
			port, stop := startPackets(t, s, "127.0.0.1:0", 1)
			c := dialUDP(t, "127.0.0.1", port)
			send := func(n int) {
				before := s.Stats.Received.Load() + s.Stats.Crowded.Load()
				for range n {
					if _, err := c.Write([]byte(strings.Repeat("x", tt.size))); err != nil {
						t.Fatal(err)
					}
				}
				settled(t, "every datagram is taken or dropped", func() bool {
					return s.Stats.Received.Load()+s.Stats.Crowded.Load() == before+int64(n)
				})
			}
			finish := func(n int64) {
				for range n {
					p := <-out
					p.Reply = append(p.Reply, "done"...)
					p.Finish()
				}
				for range n {
					if _, err := c.Read(make([]byte, 100)); err != nil {
						t.Fatal(err)
					}
				}
				settled(t, "all is given back", func() bool { return heldOf(memory) == 0 })
			}
			send(30)
			if got := s.Stats.Received.Load(); got != tt.fit {
				t.Errorf("%d are worked on, want %d", got, tt.fit)
			}
			if _, held, refused := memory.Usage(); held != tt.held || refused != 30-tt.fit {
				t.Errorf("%d bytes are held, and %d refused, want %d and %d", held, refused, tt.held, 30-tt.fit)
			}
			finish(tt.fit)

			// A message of another door holds all memory, and then releases it.
			mail := memory.Hold()
			if err := mail.Take(t.Context(), int64(tt.limit), 0); err != nil {
				t.Fatal(err)
			}
			before := s.Stats.Crowded.Load()
			send(3)
			if got := s.Stats.Crowded.Load() - before; got != 3 {
				t.Errorf("%d of 3 are dropped beside a message", got)
			}
			mail.Release()
			send(1)
			finish(1)
			stop()
		})
	}
}

// TestPacketMemoryAtOnce: handlers never hold more than the memory allows, whether they answer at
// once, later or never, or panic. No memory stays held.
func TestPacketMemoryAtOnce(t *testing.T) {
	const limit = 1200
	memory := NewMemory(limit)
	s := &PacketServer{MaxPacket: 99, Batch: 16, Memory: memory}
	var now, most atomic.Int64
	var workers sync.WaitGroup
	at := func(n int64) {
		x := now.Add(n)
		for m := most.Load(); x > m && !most.CompareAndSwap(m, x); m = most.Load() {
		}
	}
	var turn atomic.Int64
	s.Handler = func(_ context.Context, batch []*Packet) {
		here := 100 * int64(len(batch))
		at(here)
		defer func() { at(-here) }()
		for _, p := range batch {
			p.Reply = append(p.Reply, p.Data...)
			if turn.Add(1)%3 == 0 && p.Detach() {
				here -= 100
				workers.Go(func() {
					at(-100) // before it is given back
					if turn.Load()%2 == 0 {
						p.Reply = p.Reply[:0]
					}
					p.Finish()
				})
			}
		}
		if turn.Load()%7 == 0 {
			panic("as asked")
		}
	}
	port, stop := startPackets(t, s, "127.0.0.1:0", 3)
	const clients, rounds, each = 4, 20, 15
	for round := range rounds { // no more at once than the kernel's buffer takes
		var sending sync.WaitGroup
		for range clients {
			c := dialUDP(t, "127.0.0.1", port)
			sending.Go(func() {
				for range each {
					if _, err := c.Write([]byte("0123456789")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		sending.Wait()
		sent := int64((round + 1) * clients * each)
		settled(t, "every datagram is taken or dropped", func() bool {
			return s.Stats.Received.Load()+s.Stats.Crowded.Load() == sent
		})
	}
	stop()
	workers.Wait()
	if got := most.Load(); got > limit || got == 0 {
		t.Errorf("%d bytes were worked on at once, want at most %d", got, limit)
	}
	if got := heldOf(memory); got != 0 {
		t.Errorf("%d bytes stay held", got)
	}
}
