package fuzzy

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestEveryFaultIsTold: if any call to the clearinghouse fails, the client gets an error, and
// resends the update that was not done.
func TestEveryFaultIsTold(t *testing.T) {
	ctx := t.Context()
	text := randomShingles(rand.New(rand.NewPCG(11, 12)))
	for name, sh := range map[string]*[32]uint64{"digest": nil, "text": &text} {
		house := &prototest.Ailing{Tally: prototest.NewTally(4), Aside: func(sig bulkhead.Signature) bool {
			return sig == takenSignature() || sig == listSignature(0)
		}}
		s := &Server{Clearinghouse: house}
		c := dial(t, serve(t, s), nil)
		do := func(what string, f func() error) { t.Helper(); house.Test(t, name+": "+what, f) }
		check := func(d byte) func() error {
			return func() error { _, err := c.Check(ctx, digestOf(d), sh); return err }
		}
		for range 2 { // the second time, a weight has been taken away
			do("write", func() error { return c.Write(ctx, digestOf(1), sh, 1, 10) })
			do("check", check(1))
			do("check of another", check(9))
			do("taking away", func() error { return c.Write(ctx, digestOf(1), sh, 1, -3) })
			do("check after it", check(1))
			do("delete", func() error { return c.Delete(ctx, digestOf(1), sh) })
			do("check of what is deleted", check(1))
			do("check of another after it", check(9))
			if r := mustCheck(t, c, digestOf(1), sh); r.OK() {
				t.Errorf("%s: deleted, and found: %+v", name, r)
			}
		}
		if s.Stats.Faults.Load() == 0 {
			t.Errorf("%s: faults are not counted", name)
		}
	}
}

// TestLookPanics: a panic of the clearinghouse while a write is planned costs its answer
// and no more, and the write is done when it is sent again.
func TestLookPanics(t *testing.T) {
	house := &lookBomb{Counter: prototest.NewTally(2)}
	c := dial(t, serve(t, &Server{Clearinghouse: house}), nil)
	must(t, c.Write(t.Context(), digestOf(1), nil, 1, 5))
	must(t, c.Write(t.Context(), digestOf(1), nil, 1, -1)) // from now on a write looks first
	r := Request{Command: Write, Digest: digestOf(1), Flag: 1, Value: 3, Tag: 7}
	house.armed.Store(true)
	c.opts.Timeout, c.opts.Retransmits = 20*time.Millisecond, -1
	if _, err := c.Do(t.Context(), r); !errors.Is(err, ErrNoReply) {
		t.Errorf("a write that panics: %v", err)
	}
	for house.panics.Load() == 0 {
		runtime.Gosched()
	}
	house.armed.Store(false)
	c.opts.Timeout, c.opts.Retransmits = 0, 100
	if _, err := c.Do(t.Context(), r); err != nil {
		t.Errorf("sent again: %v", err)
	}
	if r := mustCheck(t, c, digestOf(1), nil); r.Value != 7 {
		t.Errorf("value %d, want 7", r.Value)
	}
}

// lookBomb panics at each look for counts of its own while it is armed.
type lookBomb struct {
	bulkhead.Counter
	armed  atomic.Bool
	panics atomic.Int32
}

func (b *lookBomb) Look(ctx context.Context, sigs []bulkhead.Signature,
	out []bulkhead.Look, what bulkhead.Aspect) error {
	if b.armed.Load() && sigs[0] != takenSignature() && sigs[0] != listSignature(0) {
		b.panics.Add(1)
		panic("boom")
	}
	return b.Counter.Look(ctx, sigs, out, what)
}

// TestStats: each request is counted by its outcome.
func TestStats(t *testing.T) {
	type stats struct {
		checks, found, near, writes, deletes, repeated, stat, ping, refused, malformed, encrypted, faults int64
	}
	pair, err := NewKeyPair(nil)
	must(t, err)
	text := randomShingles(rand.New(rand.NewPCG(13, 14)))
	known := func(t *testing.T, c *Client) { must(t, c.Write(t.Context(), digestOf(1), &text, 1, 5)) }
	for _, tt := range []struct {
		name  string
		s     *Server
		key   *[32]byte
		err   error
		setUp func(*testing.T, *Client) // one write, if any
		r     Request
		twice bool
		want  stats
	}{
		{name: "check of nothing", r: Request{Command: Check}, want: stats{checks: 1}},
		{name: "check of the digest", setUp: known, r: Request{Command: Check, Digest: digestOf(1), Shingled: true,
			Shingles: text}, want: stats{checks: 1, found: 1, writes: 1}},
		{name: "check of a near copy", setUp: known, r: Request{Command: Check, Digest: digestOf(2), Shingled: true,
			Shingles: text}, want: stats{checks: 1, found: 1, near: 1, writes: 1}},
		{name: "write", r: Request{Command: Write, Value: 3}, want: stats{writes: 1}},
		{name: "write sent twice", r: Request{Command: Write, Value: 3, Tag: 7}, twice: true,
			want: stats{writes: 1, repeated: 1}},
		{name: "write of nothing", r: Request{Command: Write}, want: stats{writes: 1}},
		{name: "delete", setUp: known, r: Request{Command: Delete, Digest: digestOf(1)}, want: stats{writes: 1, deletes: 1}},
		{name: "stat", r: Request{Command: Stat}, want: stats{stat: 1}},
		{name: "ping", r: Request{Command: Ping}, want: stats{ping: 1}},
		{name: "refused", s: &Server{ReadOnly: true}, r: Request{Command: Write, Value: 3}, want: stats{refused: 1}},
		{name: "encrypted", s: &Server{Keys: []*Key{{KeyPair: pair}}}, key: &pair.Public, r: Request{Command: Ping},
			want: stats{ping: 1, encrypted: 1}},
		{name: "no answer", s: &Server{Blocked: door.Loopback()}, r: Request{Command: Ping}, want: stats{malformed: 1}},
		{name: "fault of a check", err: prototest.ErrFault, r: Request{Command: Check}, want: stats{checks: 1, faults: 1}},
		{name: "fault of a write", err: prototest.ErrFault, r: Request{Command: Write, Value: 1}, want: stats{faults: 1}},
		{name: "refused by the node", err: bulkhead.ErrForbidden, r: Request{Command: Write, Value: 1},
			want: stats{refused: 1}},
		{name: "over the node's limit", err: bulkhead.ErrOverLimit, r: Request{Command: Check},
			want: stats{checks: 1, refused: 1}},
	} {
		s := tt.s
		if s == nil {
			s = new(Server)
		}
		s.Clearinghouse = &prototest.House{Err: tt.err}
		c := dial(t, serve(t, s), tt.key)
		if tt.setUp != nil {
			tt.setUp(t, c)
		}
		if tt.name == "no answer" {
			c.opts.Timeout, c.opts.Retransmits = 50*time.Millisecond, -1
		}
		_, err := c.Do(t.Context(), tt.r)
		if tt.twice {
			_, err = c.Do(t.Context(), tt.r)
		}
		if refused := tt.want.refused+tt.want.malformed+tt.want.faults > 0; (err != nil) != refused {
			t.Errorf("%s: %v", tt.name, err)
		}
		st := &s.Stats
		for tt.want.malformed > st.Malformed.Load() {
			runtime.Gosched() // a datagram without an answer may be read late
		}
		got := stats{
			st.Checks.Load(), st.Found.Load(), st.Near.Load(), st.Writes.Load(), st.Deletes.Load(), st.Repeated.Load(),
			st.Stat.Load(), st.Ping.Load(), st.Refused.Load(), st.Malformed.Load(), st.Encrypted.Load(), st.Faults.Load(),
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	c := dial(t, serve(t, &Server{Clearinghouse: new(prototest.House)}), nil)
	known(t, c)
	if r, err := c.Do(t.Context(), Request{Command: Stat}); err != nil || r.Flag != 1 || r.Value != 0 {
		t.Errorf("stat after one write: %+v, %v, want 1", r, err)
	}
}
