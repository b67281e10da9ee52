package fuzzy

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/prototest"
)

// An ailing clearinghouse fails at one call, counted from when it was told to. What is
// asked in the background does not count.
type ailing struct {
	*prototest.Tally
	mu     sync.Mutex
	calls  int
	failAt int
	failed bool
}

func (a *ailing) arm(failAt int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls, a.failAt, a.failed = 0, failAt, false
}

func (a *ailing) hasFailed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func (a *ailing) call() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls++; a.calls == a.failAt {
		a.failed = true
		return prototest.ErrFault
	}
	return nil
}

func (a *ailing) Look(ctx context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	if sigs[0] != takenSignature() && sigs[0] != listSignature(0) {
		if err := a.call(); err != nil {
			return err
		}
	}
	return a.Tally.Look(ctx, sigs, out, what)
}

func (a *ailing) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	if err := a.call(); err != nil {
		return err
	}
	return a.Tally.Count(ctx, sigs, n)
}

func (a *ailing) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	if err := a.call(); err != nil {
		return bulkhead.Receipt{}, err
	}
	return a.Tally.Report(ctx, r)
}

// TestEveryFaultIsTold: whatever call to the clearinghouse fails, the client is told of
// an error, and sends again what was not done.
func TestEveryFaultIsTold(t *testing.T) {
	ctx := t.Context()
	text := randomShingles(rand.New(rand.NewPCG(11, 12)))
	for name, sh := range map[string]*[32]uint64{"digest": nil, "text": &text} {
		house := &ailing{Tally: prototest.NewTally(4)}
		s := &Server{Clearinghouse: house}
		c := dial(t, serve(t, s), nil)
		do := func(what string, f func() error) {
			t.Helper()
			for n := 1; ; n++ {
				house.arm(n)
				err := f()
				if failed := house.hasFailed(); failed != (err != nil) {
					t.Errorf("%s: %s with a fault at call %d: faulty %v, but the client is told %v", name, what, n, failed, err)
				} else if !failed {
					break
				}
			}
			house.arm(0)
		}
		check := func(d byte) func() error {
			return func() error { _, err := c.Check(ctx, digestOf(d), sh); return err }
		}
		for range 2 { // the second time something has been taken away
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

// TestStats: each request counts as what became of it.
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
		{name: "check of the digest", setUp: known, r: Request{Command: Check, Digest: digestOf(1), Shingled: true, Shingles: text}, want: stats{checks: 1, found: 1, writes: 1}},
		{name: "check of a near copy", setUp: known, r: Request{Command: Check, Digest: digestOf(2), Shingled: true, Shingles: text}, want: stats{checks: 1, found: 1, near: 1, writes: 1}},
		{name: "write", r: Request{Command: Write, Value: 3}, want: stats{writes: 1}},
		{name: "write sent twice", r: Request{Command: Write, Value: 3, Tag: 7}, twice: true, want: stats{writes: 1, repeated: 1}},
		{name: "write of nothing", r: Request{Command: Write}, want: stats{writes: 1}},
		{name: "delete", setUp: known, r: Request{Command: Delete, Digest: digestOf(1)}, want: stats{writes: 1, deletes: 1}},
		{name: "stat", r: Request{Command: Stat}, want: stats{stat: 1}},
		{name: "ping", r: Request{Command: Ping}, want: stats{ping: 1}},
		{name: "refused", s: &Server{ReadOnly: true}, r: Request{Command: Write, Value: 3}, want: stats{refused: 1}},
		{name: "encrypted", s: &Server{Keys: []*Key{{KeyPair: pair}}}, key: &pair.Public, r: Request{Command: Ping}, want: stats{ping: 1, encrypted: 1}},
		{name: "no answer", s: &Server{Blocked: door.Loopback()}, r: Request{Command: Ping}, want: stats{malformed: 1}},
		{name: "fault of a check", err: prototest.ErrFault, r: Request{Command: Check}, want: stats{checks: 1, faults: 1}},
		{name: "fault of a write", err: prototest.ErrFault, r: Request{Command: Write, Value: 1}, want: stats{faults: 1}},
		{name: "refused by the node", err: bulkhead.ErrForbidden, r: Request{Command: Write, Value: 1}, want: stats{refused: 1}},
		{name: "over the node's limit", err: bulkhead.ErrOverLimit, r: Request{Command: Check}, want: stats{checks: 1, refused: 1}},
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
			c.Timeout, c.Retransmits = 50*time.Millisecond, -1
		}
		_, err := c.Do(t.Context(), tt.r)
		if tt.twice {
			_, err = c.Do(t.Context(), tt.r)
		}
		if refused := tt.want.refused+tt.want.malformed+tt.want.faults > 0; (err != nil) != refused {
			t.Errorf("%s: %v", tt.name, err)
		}
		st := &s.Stats
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

// TestReplyBytes: docs/specs/rspamd-fuzzy.md#replies, byte by byte.
func TestReplyBytes(t *testing.T) {
	var extra []FlagValue
	for i := range 9 {
		extra = append(extra, FlagValue{Value: int32(-i), Flag: uint32(100 + i)})
	}
	reply := Reply{FlagValue: FlagValue{Value: -2, Flag: 0x01020304}, Tag: 0x0a0b0c0d, Prob: 1, Digest: digestOf(1), Stored: true, Time: 0x11223344, Extra: extra}
	digest := hex.EncodeToString(reply.Digest[:])
	head := "feffffff 04030201 0d0c0b0a 0000803f"
	long := head + digest + "44332211 07 01 0000"
	for i := range 7 {
		long += fmt.Sprintf("%02x%s %02x000000", byte(-i), strings.Repeat(map[bool]string{true: "ff", false: "00"}[i > 0], 3), 100+i)
	}
	for _, tt := range []struct {
		q    Request
		want string
	}{
		{Request{Version: 3}, head},
		{Request{Version: 4}, head + digest + "44332211 01" + strings.Repeat("00", 11)},
		{Request{Version: 4, LongForm: true}, long},
		{Request{Version: 5}, long},
	} {
		want := unhex(t, tt.want)
		got := tt.q.AppendReply([]byte("kept"), &reply)
		if string(got[:4]) != "kept" || !bytes.Equal(got[4:], want) {
			t.Errorf("version %d: %x, want %x", tt.q.Version, got, want)
		}
		back, err := ParseReply(want)
		if err != nil || back.FlagValue != reply.FlagValue || back.Tag != reply.Tag || back.Prob != 1 {
			t.Errorf("version %d: read back as %+v, %v", tt.q.Version, back, err)
		}
		if len(want) == replySizeLong && fmt.Sprint(back.Extra) != fmt.Sprint(extra[:7]) {
			t.Errorf("version %d: extra lists %v, want %v", tt.q.Version, back.Extra, extra[:7])
		}
		for _, n := range []int{len(want) - 1, len(want) + 1} {
			if _, err := ParseReply(append(want, 0)[:n]); !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("a reply of %d bytes: %v", n, err)
			}
		}
	}
	tooMany := unhex(t, long)
	tooMany[84] = 8
	if _, err := ParseReply(tooMany); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("eight extra lists: %v", err)
	}
	for flags, want := range map[byte]bool{0: false, 1: true, 2: false, 3: true} {
		data := make([]byte, replySize4)
		data[84] = flags
		if r, err := ParseReply(data); err != nil || r.Stored != want {
			t.Errorf("flags %d: stored %v, %v, want %v", flags, r.Stored, err, want)
		}
	}
	if (&Reply{Prob: 0.5}).OK() || !(&Reply{Prob: math.Nextafter32(0.5, 1)}).OK() {
		t.Error("found is above one half")
	}
}

// TestRequestBytes: docs/specs/rspamd-fuzzy.md#request, byte by byte.
func TestRequestBytes(t *testing.T) {
	r := Request{Version: 4, LongForm: true, Command: Write, Flag: 7, Value: -2, Tag: 0x01020304, Digest: digestOf(1), Shingled: true}
	for i := range r.Shingles {
		r.Shingles[i] = uint64(i)<<56 | 1
	}
	want := unhex(t, "14 01 20 07 feffffff 04030201", hex.EncodeToString(r.Digest[:]))
	for i := range 32 {
		want = append(want, 1, 0, 0, 0, 0, 0, 0, byte(i))
	}
	if got := r.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	var back Request
	for name, tail := range map[string]string{"nothing": "", "IPv4": "34 c0000201", "IPv6": "36" + strings.Repeat("00", 16), "domain": "64 02 6161", "empty domain": "64 00", "others": "80 00 ff 01 00"} {
		if err := ParseRequest(append(bytes.Clone(want), unhex(t, tail)...), &back); err != nil || back != r {
			t.Errorf("%s behind it: %+v, %v", name, back, err)
		}
	}
	for name, tail := range map[string]string{"IPv4": "34 c00002", "IPv6": "36" + strings.Repeat("00", 15), "domain": "64 02 61", "domain's length": "64", "other": "80 01", "other's length": "ff", "unknown": "7f 00", "below": "33 00"} {
		if err := ParseRequest(append(bytes.Clone(want), unhex(t, tail)...), &back); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s cut behind it: %v", name, err)
		}
	}
	if err := ParseRequest(want[:len(want)-1], &back); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("shingles cut: %v", err)
	}
	for c, name := range map[Command]string{Check: "check", Write: "write", Delete: "delete", Stat: "stat", Ping: "ping", 5: "invalid", 255: "invalid"} {
		if c.String() != name {
			t.Errorf("command %d is called %q, want %q", c, c, name)
		}
	}
}

// TestPermissions: who may do what, and the code that tells who may not.
func TestPermissions(t *testing.T) {
	writers, readers := KeyPair{}, KeyPair{}
	for _, k := range []*KeyPair{&writers, &readers} {
		pair, err := NewKeyPair(nil)
		must(t, err)
		*k = pair
	}
	now := time.Unix(1_700_000_000, 0)
	elsewhere := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	keys := func() []*Key {
		return []*Key{{KeyPair: writers, Update: true, Account: "ann", Expires: now}, {KeyPair: readers, Expires: now.Add(-1)}}
	}
	for _, tt := range []struct {
		name    string
		s       restricted
		key     *[32]byte
		command Command
		old     bool // a client of the short form
		want    int32
		by      string // account of the vote
	}{
		{"here", restricted{}, nil, Write, false, 0, ""},
		{"elsewhere", restricted{from: elsewhere}, nil, Write, false, CodeForbidden, ""},
		{"elsewhere, old", restricted{from: elsewhere}, nil, Write, true, CodeRefused, ""},
		{"delete elsewhere", restricted{from: elsewhere}, nil, Delete, false, CodeForbidden, ""},
		{"check elsewhere", restricted{from: elsewhere}, nil, Check, false, 0, ""},
		{"plain", restricted{only: true}, nil, Check, false, CodeEncryption, ""},
		{"plain, old", restricted{only: true}, nil, Check, true, CodeRefused, ""},
		{"key to write", restricted{from: elsewhere}, &writers.Public, Write, false, 0, "ann"},
		{"key to write, read only", restricted{readOnly: true}, &writers.Public, Write, false, CodeForbidden, ""},
		{"key to write, only checks", restricted{readOnly: true}, &writers.Public, Check, false, 0, ""},
		{"key past its time", restricted{}, &readers.Public, Check, false, CodeForbidden, ""},
		{"key at its time", restricted{}, &writers.Public, Check, false, 0, ""},
	} {
		house := new(prototest.House)
		s := &Server{Clearinghouse: house, Keys: keys(), UpdateFrom: tt.s.from, EncryptedOnly: tt.s.only, ReadOnly: tt.s.readOnly, Now: func() time.Time { return now }}
		r := Request{Version: 4, LongForm: !tt.old, Command: tt.command, Digest: digestOf(1), Flag: 1, Value: 3}
		c := dial(t, serve(t, s), tt.key)
		_, err := c.Do(t.Context(), r)
		want := (&Reply{FlagValue: FlagValue{Value: tt.want}}).Err()
		if fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", tt.name, err, want)
		}
		for _, report := range house.Reports() {
			if report.Vote == bulkhead.Sighting {
				continue // what is counted
			}
			if report.Reporter.Account != tt.by || !report.Reporter.Addr.IsLoopback() || tt.want != 0 {
				t.Errorf("%s: voted by %+v", tt.name, report.Reporter)
			}
		}
	}
	// A key that allows no updates leaves them to who may update anyway.
	s := &Server{Clearinghouse: new(prototest.House), Keys: []*Key{{KeyPair: readers}}}
	must(t, dial(t, serve(t, s), &readers.Public).Write(t.Context(), digestOf(1), nil, 1, 1))
	// A request to a key that the server does not know is for the first.
	s = &Server{Clearinghouse: new(prototest.House), Keys: keys()}
	c := dial(t, serve(t, s), &writers.Public)
	unknown := writers.Public
	unknown[0] ^= 1
	c.server = &unknown
	if _, err := c.Do(t.Context(), Request{Command: Ping}); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("a request to an unknown key id: %v, want it served by the first key, which is past its time", err)
	}
}

// restricted is what the cases of TestPermissions set of a Server.
type restricted struct {
	from     []netip.Prefix
	only     bool
	readOnly bool
}

// TestNewKeys: keys that are new cost, and are limited; those known are not.
func TestNewKeys(t *testing.T) {
	pair, err := NewKeyPair(nil)
	must(t, err)
	for _, tt := range []struct {
		exempt []netip.Prefix
		want   int // of 5
	}{{nil, 3}, {door.Loopback(), 5}} {
		address := serve(t, &Server{Clearinghouse: new(prototest.House), Keys: []*Key{{KeyPair: pair}}, NewKeys: door.Rate{PerSecond: 1e-6, Burst: 3}, Exempt: tt.exempt})
		answered := 0
		var first *Client
		for range 5 {
			c := dial(t, address, &pair.Public)
			if first == nil {
				first = c
			}
			c.Timeout, c.Retransmits = 200*time.Millisecond, -1
			if _, err := c.Do(t.Context(), Request{Command: Ping}); err == nil {
				answered++
			}
		}
		if answered != tt.want {
			t.Errorf("%d of 5 clients with keys of their own answered, want %d", answered, tt.want)
		}
		first.Timeout = 5 * time.Second
		if _, err := first.Do(t.Context(), Request{Command: Ping}); err != nil {
			t.Errorf("a known key: %v", err)
		}
	}
}

// TestVotesOfLists: a write to a list for spam or ham is a vote, a negative one the
// opposite; other lists say nothing.
func TestVotesOfLists(t *testing.T) {
	for _, tt := range []struct {
		flag      uint8
		value     int32
		spam, ham []uint8
		want      string
	}{
		{1, 5, nil, nil, "spam"}, {11, 5, nil, nil, "spam"}, {1, -5, nil, nil, "ham"},
		{3, 5, nil, nil, "ham"}, {13, 5, nil, nil, "ham"}, {3, -5, nil, nil, "spam"},
		{2, 5, nil, nil, ""}, {2, -5, nil, nil, ""}, {1, 0, nil, nil, ""}, {3, 0, nil, nil, ""},
		{1, 5, []uint8{}, []uint8{}, ""}, {3, 5, []uint8{}, []uint8{}, ""}, {7, 5, []uint8{7}, nil, "spam"}, {7, 5, nil, []uint8{7}, "ham"},
	} {
		house := new(prototest.House)
		c := dial(t, serve(t, &Server{Clearinghouse: house, SpamFlags: tt.spam, HamFlags: tt.ham}), nil)
		d := digestOf(1)
		must(t, c.Write(t.Context(), d, nil, tt.flag, tt.value))
		got := ""
		for _, r := range house.Reports() {
			if r.Vote == bulkhead.Sighting {
				continue // what is counted
			}
			got += r.Vote.String()
			if len(r.Signatures) != 1 || r.Signatures[0] != plainSignature(&d) {
				t.Errorf("%d on list %d: vote on %v", tt.value, tt.flag, r.Signatures)
			}
		}
		if got != tt.want {
			t.Errorf("%d on list %d of %v, %v: vote %q, want %q", tt.value, tt.flag, tt.spam, tt.ham, got, tt.want)
		}
	}
}

// TestManyLists: 24 lists are served, seven are told beside the best, by their weight
// and then their number; a list more is refused, and takes nothing from the others.
func TestManyLists(t *testing.T) {
	house := prototest.NewTally(2)
	s := &Server{Clearinghouse: house, SpamFlags: []uint8{}}
	c := dial(t, serve(t, s), nil)
	ctx := t.Context()
	for i := range maxLists {
		must(t, c.Write(ctx, digestOf(1), nil, uint8(100-i), int32(1+i/2)))
	}
	if err := c.Write(ctx, digestOf(1), nil, 200, 1000); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("a list more: %v", err)
	}
	must(t, c.Write(ctx, digestOf(2), nil, 100, 5))
	r := mustCheck(t, c, digestOf(1), nil)
	got := append([]FlagValue{r.FlagValue}, r.Extra...)
	want := []FlagValue{{12, 77}, {12, 78}, {11, 79}, {11, 80}, {10, 81}, {10, 82}, {9, 83}, {9, 84}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("lists %v, want %v", got, want)
	}
	must(t, c.Delete(ctx, digestOf(1), nil))
	if r := mustCheck(t, c, digestOf(1), nil); r.OK() {
		t.Errorf("deleted on all lists: %+v", r)
	}
	// A node that starts where more are in use serves some, and goes on.
	house.Add(listSignature(200), 1)
	house.Add(listSignature(201), 1)
	again := &Server{Clearinghouse: house}
	again.prepare()
	for range 2 {
		again.followLists(ctx)
	}
	if n := len(again.lists.inUse()); n != maxLists {
		t.Errorf("%d lists in use, want %d", n, maxLists)
	}
}

// TestTimes: the time of a hit is that of its first write.
func TestTimes(t *testing.T) {
	for first, want := range map[int64]uint32{-5: 0, 0: 0, 1: 1, 1_700_000_000: 1_700_000_000, 1 << 40: math.MaxUint32} {
		if got := seconds(&bulkhead.Look{First: first}); got != want {
			t.Errorf("%d: %d, want %d", first, got, want)
		}
	}
}

// TestCleared: what the node's white list has is not found, and is asked for with all
// bands of a text.
func TestCleared(t *testing.T) {
	text := randomShingles(rand.New(rand.NewPCG(15, 16)))
	for name, sh := range map[string]*[32]uint64{"digest": nil, "text": &text} {
		clears, asked := false, 0
		s := &Server{Clearinghouse: new(prototest.House), Cleared: func(sigs []bulkhead.Signature) bool {
			if asked++; len(sigs) != map[bool]int{true: 1, false: 21}[sh == nil] {
				t.Errorf("%s: asked of %d signatures", name, len(sigs))
			}
			return clears
		}}
		c := dial(t, serve(t, s), nil)
		mustCheck(t, c, digestOf(1), sh)
		if asked != 0 {
			t.Errorf("%s: asked of what is not found", name)
		}
		must(t, c.Write(t.Context(), digestOf(1), sh, 1, 5))
		if r := mustCheck(t, c, digestOf(1), sh); !r.OK() || asked != 1 {
			t.Errorf("%s: not cleared: %+v, asked %d times", name, r, asked)
		}
		clears = true
		if r := mustCheck(t, c, digestOf(1), sh); r.OK() || r.Value != 0 || r.Flag != 0 {
			t.Errorf("%s: cleared: %+v", name, r)
		}
	}
}

// TestClientReads: the client passes over what is not its answer, sends again what is
// not answered, and gives up in time.
func TestClientReads(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	requests := make(chan []byte, 16)
	var mu sync.Mutex
	var answer func(Request, int) [][]byte
	done := make(chan struct{})
	t.Cleanup(func() { pc.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for n := 0; ; {
			size, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			n++
			var r Request
			ParseRequest(buf[:size], &r)
			select {
			case requests <- bytes.Clone(buf[:size]):
			default:
			}
			mu.Lock()
			all := answer(r, n)
			mu.Unlock()
			for _, a := range all {
				pc.WriteTo(a, from)
			}
		}
	}()
	to := func(r Request, reply Reply, tag uint32) []byte {
		reply.Tag = tag
		return r.AppendReply(nil, &reply)
	}
	set := func(f func(Request, int) [][]byte) { mu.Lock(); defer mu.Unlock(); answer = f }
	found := Reply{FlagValue: FlagValue{Value: 5, Flag: 1}, Prob: 1}
	c := dial(t, pc.LocalAddr().String(), nil)
	set(func(r Request, _ int) [][]byte {
		good := to(r, found, r.Tag)
		return [][]byte{{}, good[:20], to(r, Reply{Prob: 1}, r.Tag+1), good}
	})
	if r, err := c.Check(t.Context(), digestOf(1), nil); err != nil || r.Value != 5 {
		t.Errorf("%+v, %v, want the answer with the request's tag", r, err)
	}
	var sent Request
	must(t, ParseRequest(<-requests, &sent))
	if sent.Version != 4 || !sent.LongForm || sent.Tag == 0 || sent.Command != Check || sent.Digest != digestOf(1) {
		t.Errorf("sent %+v", sent)
	}
	for name, do := range map[string]func() error{
		"write":  func() error { return c.Write(t.Context(), digestOf(1), nil, 1, 1) },
		"delete": func() error { return c.Delete(t.Context(), digestOf(1), nil) },
	} {
		for prob, want := range map[float32]error{1: nil, 0: bulkhead.ErrForbidden} {
			set(func(r Request, _ int) [][]byte { return [][]byte{to(r, Reply{Prob: prob}, r.Tag)} })
			if err := do(); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%s answered with %v: %v, want %v", name, prob, err, want)
			}
		}
	}
	// Silent until the third transmission of one request.
	for _, tt := range []struct {
		again int
		want  error
	}{{-1, ErrNoReply}, {1, ErrNoReply}, {2, nil}, {0, nil}} {
		c.Timeout, c.Retransmits = 20*time.Millisecond, tt.again
		first := 0
		set(func(r Request, n int) [][]byte {
			if first == 0 {
				first = n
			}
			if n < first+2 {
				return nil
			}
			return [][]byte{to(r, found, r.Tag)}
		})
		if _, err := c.Check(t.Context(), digestOf(1), nil); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("sent again %d times: %v, want %v", tt.again, err, tt.want)
		}
	}
	set(func(Request, int) [][]byte { return nil })
	c.Timeout, c.Retransmits = time.Minute, 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Check(ctx, digestOf(1), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Check(ctx, digestOf(1), nil); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrNoReply) {
		t.Errorf("after the deadline of the context: %v", err)
	}
	if _, err := Dial(t.Context(), "127.0.0.1:nothing", nil); err == nil || !strings.HasPrefix(err.Error(), "fuzzy: ") {
		t.Errorf("an address that is none: %v", err)
	}
	if _, err := Dial(t.Context(), "127.0.0.1:1", new([32]byte)); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("a key of low order: %v", err)
	}
}

// TestFrames: on a connection each request has its length before it; what breaks that,
// or is not to be answered, ends it.
func TestFrames(t *testing.T) {
	ping := (&Request{Version: 4, Command: Ping, Value: 7}).Append(nil)
	frame := func(n int, data []byte) []byte {
		return append(binary.LittleEndian.AppendUint16(nil, uint16(n)), data...)
	}
	good := frame(len(ping), ping)
	padded := append(bytes.Clone(ping), bytes.Repeat([]byte{0x80, 0}, (8192-len(ping))/2)...)
	few := door.Rate{PerSecond: 1e-6, Burst: 2}
	for _, tt := range []struct {
		name string
		s    *Server
		in   []byte
		want int // answers
	}{
		{"two", &Server{}, append(bytes.Clone(good), good...), 2},
		{"nothing", &Server{}, append(append(bytes.Clone(good), 0, 0), good...), 1},
		{"largest", &Server{}, append(frame(len(padded), padded), good...), 2},
		{"larger", &Server{}, append(frame(8193, append(padded, 0)), good...), 0},
		{"cut", &Server{}, append(bytes.Clone(good), good[:20]...), 1},
		{"half a length", &Server{}, append(bytes.Clone(good), 1), 1},
		{"noise", &Server{}, append(frame(5, []byte("noise")), good...), 0},
		{"blocked", &Server{Blocked: door.Loopback()}, good, 0},
		{"over the rate", &Server{Rate: few}, bytes.Repeat(good, 3), 2},
		{"exempt", &Server{Rate: few, Exempt: door.Loopback()}, bytes.Repeat(good, 3), 3},
	} {
		tt.s.Clearinghouse = new(prototest.House)
		address := prototest.ServeStream(t, "127.0.0.1:0", tt.s)
		conn, err := net.Dial("tcp", address.String())
		must(t, err)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		conn.Write(tt.in)
		conn.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(conn)
		if err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if len(got) != tt.want*(2+replySize4) {
			t.Errorf("%s: %d bytes, want %d answers", tt.name, len(got), tt.want)
			continue
		}
		for i := range tt.want {
			one := got[i*(2+replySize4):]
			if r, err := ParseReply(one[2 : 2+replySize4]); err != nil || r.Value != 7 || binary.LittleEndian.Uint16(one) != replySize4 {
				t.Errorf("%s: answer %d: %+v, %v", tt.name, i+1, r, err)
			}
		}
	}
	l, err := net.Listen("tcp", ":0")
	must(t, err)
	if err := (&Server{Clearinghouse: new(prototest.House)}).Serve(l); err == nil || errors.Is(err, door.ErrServerClosed) {
		t.Errorf("an open server on all addresses ends with %v, want a refusal", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("its listener is open: %v", err)
	}
}

// TestKeys: what is read and written of keys, at its bounds.
func TestKeys(t *testing.T) {
	for n := range 40 {
		b := bytes.Repeat([]byte{0xa5}, n)
		text := EncodeBase32(b)
		if got, err := DecodeBase32(strings.ToUpper(text)); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes: %q is read as %x, %v", n, text, got, err)
		}
		if want := (8*n + 4) / 5; len(text) != want {
			t.Errorf("%d bytes: %d characters, want %d", n, len(text), want)
		}
	}
	if got, err := DecodeBase32(strings.Repeat("y", 1024)); err != nil || len(got) != 640 {
		t.Errorf("1024 characters: %d bytes, %v", len(got), err)
	}
	for _, bad := range []string{strings.Repeat("y", 1025), "y", "yyy", "yo", "y@", "y[", "y`", "y{", "yyyyyy", "\xff"} {
		if _, err := DecodeBase32(bad); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%.20q of %d characters: %v", bad, len(bad), err)
		}
	}
	if _, err := ParseSecret("short"); !errors.Is(err, bulkhead.ErrMalformed) || strings.Contains(err.Error(), "short") {
		t.Errorf("a secret that is none: %v", err)
	}
	if _, err := NewKeyPair(strings.NewReader("too little")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a key pair of ten bytes: %v", err)
	}
	pair, err := NewKeyPair(bytes.NewReader(unhex(t, vectorSecret)))
	if err != nil || hex.EncodeToString(pair.Public[:]) != vectorPublic {
		t.Errorf("key pair %x, %v", pair.Public, err)
	}
}
