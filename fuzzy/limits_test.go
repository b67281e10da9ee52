package fuzzy

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestPermissions: the rights of each client, and the code of each refusal.
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
		return []*Key{{KeyPair: writers, Update: true, Account: "ann", Expires: now},
			{KeyPair: readers, Expires: now.Add(-1)}}
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
		s := &Server{Clearinghouse: house, Keys: keys(), UpdateFrom: tt.s.from, EncryptedOnly: tt.s.only,
			ReadOnly: tt.s.readOnly, Now: func() time.Time { return now }}
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
	// A key that allows no updates does not affect the clients that may update anyway.
	s := &Server{Clearinghouse: new(prototest.House), Keys: []*Key{{KeyPair: readers}}}
	must(t, dial(t, serve(t, s), &readers.Public).Write(t.Context(), digestOf(1), nil, 1, 1))
	// A request to a key that the server does not know is for the first.
	s = &Server{Clearinghouse: new(prototest.House), Keys: keys()}
	c := dial(t, serve(t, s), &writers.Public)
	unknown := writers.Public
	unknown[0] ^= 1
	c.opts.ServerKey = &unknown
	if _, err := c.Do(t.Context(), Request{Command: Ping}); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("a request to an unknown key id: %v, want it served by the first key, which is past its time", err)
	}
}

// restricted holds the fields of a Server that the cases of TestPermissions set.
type restricted struct {
	from     []netip.Prefix
	only     bool
	readOnly bool
}

// TestNewKeys: new keys cost a multiplication and are limited; known keys are not.
func TestNewKeys(t *testing.T) {
	pair, err := NewKeyPair(nil)
	must(t, err)
	for _, tt := range []struct {
		exempt []netip.Prefix
		want   int64 // of 5
	}{{nil, 3}, {door.Loopback(), 5}} {
		s := &Server{Clearinghouse: new(prototest.House), Keys: []*Key{{KeyPair: pair}},
			NewKeys: door.Rate{PerSecond: 1e-6, Burst: 3}, Exempt: tt.exempt}
		address := serve(t, s)
		first := dial(t, address, &pair.Public)
		if _, err := first.Do(t.Context(), Request{Command: Ping}); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			c := dial(t, address, &pair.Public)
			c.opts.Timeout, c.opts.Retransmits = 1, -1
			c.Do(t.Context(), Request{Command: Ping}) // a client that is answered is counted
		}
		for s.Stats.Ping.Load()+s.Stats.Malformed.Load() < 5 {
			runtime.Gosched()
		}
		if got := s.Stats.Ping.Load(); got != tt.want {
			t.Errorf("%d of 5 clients with keys of their own answered, want %d", got, tt.want)
		}
		if _, err := first.Do(t.Context(), Request{Command: Ping}); err != nil {
			t.Errorf("a known key: %v", err)
		}
	}
}

// TestVotesOfLists: a write to a list for spam or ham is a vote, a negative write is the opposite
// vote, and a write to another list is not a vote.
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
		{1, 5, []uint8{}, []uint8{}, ""}, {3, 5, []uint8{}, []uint8{}, ""}, {7, 5, []uint8{7}, nil, "spam"},
		{7, 5, nil, []uint8{7}, "ham"},
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

// TestManyLists: 24 lists are served. An answer has seven lists besides the best, ordered by weight
// and then by number. One more list is refused, and does not affect the others.
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
	// A node that starts when more lists are in use serves some of them, and keeps running.
	house.Add(listSignature(200), 1)
	house.Add(listSignature(201), 1)
	var log strings.Builder
	again := &Server{Clearinghouse: house, Log: slog.New(slog.NewTextHandler(&log, nil))}
	again.prepare()
	for range 2 {
		again.followLists(ctx)
	}
	if n := len(again.lists.inUse()); n != maxLists || strings.Count(log.String(), "more lists in use") != 1 {
		t.Errorf("%d lists in use, want %d, log %q, want it said once", n, maxLists, log.String())
	}
}

// TestOneAnswerForAList: a near copy of a text on the spam list, whose bands others also call spam,
// is answered once, with the written weight.
func TestOneAnswerForAList(t *testing.T) {
	text := randomShingles(rand.New(rand.NewPCG(17, 18)))
	house := prototest.NewTally(2)
	if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: rspamd.AppendBands(nil, &text, rspamd.Votes),
		Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, serve(t, &Server{Clearinghouse: house}), nil)
	if r := mustCheck(t, c, digestOf(9), &text); r.Flag != 1 || !r.OK() || r.Stored || len(r.Extra) != 0 {
		t.Errorf("called spam: %+v", r)
	}
	for _, flag := range []uint8{1, 2} {
		must(t, c.Write(t.Context(), digestOf(1), &text, flag, 9))
		if r := mustCheck(t, c, digestOf(9), &text); r.Flag != 1 || r.Value != 9 || len(r.Extra) != int(flag)-1 {
			t.Errorf("written to list %d too: %+v", flag, r)
		}
	}
	must(t, c.Delete(t.Context(), digestOf(1), &text))
	must(t, c.Write(t.Context(), digestOf(1), &text, 1, 7))
	if r := mustCheck(t, c, digestOf(9), &text); r.Flag != 1 || r.Value != 7 || len(r.Extra) != 0 {
		t.Errorf("deleted and written anew: %+v", r)
	}
}

// TestNothingLeftOver: an answer contains nothing of the previous one, which was built in the same
// memory.
func TestNothingLeftOver(t *testing.T) {
	c := dial(t, serve(t, &Server{Clearinghouse: new(prototest.House)}), nil)
	must(t, c.Write(t.Context(), digestOf(1), nil, 1, 5))
	must(t, c.Write(t.Context(), digestOf(1), nil, 2, 5))
	for _, command := range []Command{Ping, Stat, Check} {
		if r := mustCheck(t, c, digestOf(1), nil); !r.Stored || r.Time == 0 || len(r.Extra) != 1 {
			t.Fatalf("%+v", r)
		}
		r, err := c.Do(t.Context(), Request{Command: command, Digest: digestOf(7)})
		if err != nil || r.Stored || r.Time != 0 || len(r.Extra) != 0 || r.Digest != digestOf(7) {
			t.Errorf("%s: %+v, %v", command, r, err)
		}
	}
}

// TestUsedKeysStay: a shared key that is in use is not forgotten, however many others
// come.
func TestUsedKeysStay(t *testing.T) {
	cache := newSharedKeys(4)
	used := sharedID{client: [32]byte{1: 1}}
	cache.put(&used, &sharedKey{9})
	for i := range 100 {
		cache.put(&sharedID{client: [32]byte{byte(i)}}, &sharedKey{byte(i)})
		if k := cache.get(&used); k == nil || k[0] != 9 {
			t.Fatalf("forgotten after %d others", i+1)
		}
	}
}

// TestTimes: the time of a hit is the time of its first write.
func TestTimes(t *testing.T) {
	for first, want := range map[int64]uint32{-5: 0, 0: 0, 1: 1, 1_700_000_000: 1_700_000_000, 1 << 40: math.MaxUint32} {
		if got := seconds(&bulkhead.Look{First: first}); got != want {
			t.Errorf("%d: %d, want %d", first, got, want)
		}
	}
}

// TestCleared: a whitelisted message is not found, and the white list is asked with all bands of a
// text.
func TestCleared(t *testing.T) {
	text := randomShingles(rand.New(rand.NewPCG(15, 16)))
	for name, sh := range map[string]*[32]uint64{"digest": nil, "text": &text} {
		var clears atomic.Bool
		var asked atomic.Int32
		s := &Server{Clearinghouse: new(prototest.House), Cleared: func(sigs []bulkhead.Signature) bool {
			if asked.Add(1); len(sigs) != map[bool]int{true: 1, false: 21}[sh == nil] {
				t.Errorf("%s: asked of %d signatures", name, len(sigs))
			}
			return clears.Load()
		}}
		c := dial(t, serve(t, s), nil)
		mustCheck(t, c, digestOf(1), sh)
		if asked.Load() != 0 {
			t.Errorf("%s: asked of what is not found", name)
		}
		must(t, c.Write(t.Context(), digestOf(1), sh, 1, 5))
		if r := mustCheck(t, c, digestOf(1), sh); !r.OK() || asked.Load() != 1 {
			t.Errorf("%s: not cleared: %+v, asked %d times", name, r, asked.Load())
		}
		clears.Store(true)
		if r := mustCheck(t, c, digestOf(1), sh); r.OK() || r.Value != 0 || r.Flag != 0 {
			t.Errorf("%s: cleared: %+v", name, r)
		}
	}
}
