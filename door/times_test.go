package door

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestTimes compares the histogram with a list of the times.
func TestTimes(t *testing.T) {
	var times Times
	rng := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	for range 2000 {
		d := time.Duration(math.Exp(rng.Float64()*math.Log(20e9)) * 1.5) // about 1 ns to 30 s
		if rng.IntN(10) == 0 {
			d = time.Duration(rng.IntN(40)) * 10 * time.Millisecond // bounds among them
		}
		n := 1 + rng.IntN(3)
		times.Add(d, n)
		for range n {
			all = append(all, d)
		}
	}
	times.Add(-time.Hour, 1)
	all = append(all, 0)
	answers, seconds, within := times.Read()
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	if answers != uint64(len(all)) || math.Abs(seconds-sum.Seconds()) > 1e-6*seconds {
		t.Errorf("%d answers in %v s, want %d in %v", answers, seconds, len(all), sum.Seconds())
	}
	if len(within) < 10 {
		t.Fatalf("%d bounds", len(within))
	}
	for bound, got := range within {
		want := 0
		for _, d := range all {
			if d.Seconds() <= bound {
				want++
			}
		}
		if got != uint64(want) {
			t.Errorf("%d within %v s, want %d", got, bound, want)
		}
	}
}

// counted returns how many answers were timed.
func counted(times *Times) uint64 {
	answers, _, _ := times.Read()
	return answers
}

// TestPacketTimes: every answer is timed once, detached or not, and nothing else is.
func TestPacketTimes(t *testing.T) {
	s := &PacketServer{}
	s.Handler = s.Each(func(_ context.Context, p *Packet) {
		switch p.Data[0] {
		case 'n': // no answer
		case 'd':
			if p.Detach() {
				go func() {
					p.Reply = append(p.Reply, p.Data...)
					p.Finish()
				}()
				return
			}
			t.Error("not detached")
		default:
			p.Reply = append(p.Reply, p.Data...)
		}
	})
	port, stop := startPackets(t, s, "127.0.0.1:0", 1)
	c := dialUDP(t, "127.0.0.1", port)
	buf := make([]byte, 16)
	for i, ask := range slices.Repeat([]string{"n", "d", "a"}, 5) {
		if _, err := c.Write([]byte(ask)); err != nil {
			t.Fatal(err)
		}
		if ask == "n" {
			continue
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := c.Read(buf); err != nil || string(buf[:n]) != ask {
			t.Fatalf("%d: %q, %v", i, buf[:n], err)
		}
	}
	stop()
	if got := counted(&s.Stats.Times); got != 10 {
		t.Errorf("%d answers timed, want 10", got)
	}
}

// TestStreamTimes: the time of an answer begins when its request has been read, however
// long that took.
func TestStreamTimes(t *testing.T) {
	s := &StreamServer{Handler: func(_ context.Context, c *Conn) {
		_, _ = c.Write([]byte("hello\n")) // answers no request
		buf := make([]byte, 1)
		for {
			for buf[0] = 0; buf[0] != '\n'; {
				if _, err := c.Read(buf); err != nil {
					return
				}
			}
			_, _ = c.Write([]byte("one "))
			_, _ = c.Write([]byte("two\n")) // of the same answer
		}
	}}
	addr, stop := start(t, s, "127.0.0.1:0")
	c := dial(t, addr)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	read := func(want string) {
		t.Helper()
		buf := make([]byte, len(want))
		for n := 0; n < len(buf); {
			m, err := c.Read(buf[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
		}
		if string(buf) != want {
			t.Fatalf("got %q", buf)
		}
	}
	read("hello\n")
	for range 3 {
		if _, err := c.Write([]byte("as")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("k\n")); err != nil {
			t.Fatal(err)
		}
		read("one two\n")
	}
	stop()
	if got := counted(&s.Stats.Times); got != 3 {
		t.Errorf("%d answers timed, want 3", got)
	}
}
