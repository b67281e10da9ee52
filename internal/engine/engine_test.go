package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

var testSecret = filter.Secret{1, 2, 3}

// clock is a clock that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func small(o Options) Options {
	if o.Secret == (filter.Secret{}) {
		o.Secret = testSecret
	}
	if o.Now == nil {
		o.Now = newClock().Now // no test begins before midnight and ends after it
	}
	if o.Tally == (BookOptions{}) {
		o.Tally = BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 20_000, Error: 1e-3}
	}
	if o.Block == (BookOptions{}) {
		o.Block = BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 10_000, Error: 1e-6}
	}
	return o
}

func open(t testing.TB, o Options) *Engine {
	t.Helper()
	e, err := Open(context.Background(), small(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func sig(scheme bulkhead.Scheme, n int) bulkhead.Signature {
	var sum [20]byte
	binary.BigEndian.PutUint64(sum[:], uint64(n)*0x9e3779b97f4a7c15+1)
	s, err := bulkhead.NewSignature(scheme, sum[:])
	if err != nil {
		panic(err)
	}
	return s
}

func verdictOf(t testing.TB, e *Engine, sigs ...bulkhead.Signature) bulkhead.Verdict {
	t.Helper()
	v, err := e.Check(context.Background(), bulkhead.Query{Signatures: sigs})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func report(t testing.TB, e *Engine, r bulkhead.Report) bulkhead.Receipt {
	t.Helper()
	receipt, err := e.Report(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// writeCheckpoint has the engine's own goroutine write a checkpoint that begins now
// or later: one that has begun already is waited for first.
func writeCheckpoint(t testing.TB, e *Engine) {
	t.Helper()
	for range 2 {
		before := e.counters.checkpoints.Load()
		e.journal.wakeCheckpoint()
		if !await.Within(await.Patience, func() bool { return e.counters.checkpoints.Load() > before }) {
			t.Fatalf("no checkpoint is written; the engine refuses reports: %v", e.Refusing())
		}
	}
}

func TestUnknown(t *testing.T) {
	v := verdictOf(t, open(t, Options{}), sig(bulkhead.Exact, 1))
	if v.Unwanted() || v.Error != 0 || len(v.Reasons) != 1 || v.Findings[0].Known() {
		t.Errorf("check of an unknown message = %+v, want nothing known", v)
	}
}

// TestReportListsAndRevokeUnlists is the life of a report on a lone node: one
// vote from the node itself is enough each way, and a later generation's
// report lists again.
func TestReportListsAndRevokeUnlists(t *testing.T) {
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprintf("exact=%v", exact), func(t *testing.T) {
			c := newClock()
			e := open(t, Options{Now: c.Now, Exact: exact})
			s := sig(bulkhead.Exact, 1)
			r := bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam}
			if got := report(t, e, r); got != (bulkhead.Receipt{Counted: 1, Listed: 1}) {
				t.Fatalf("first report: %+v", got)
			}
			if v := verdictOf(t, e, s); !v.Spam() || v.SpamVotes != 1 || v.Confidence != 80 {
				t.Fatalf("after the report: %+v, want spam with confidence 80", v)
			}
			if got := report(t, e, r); got != (bulkhead.Receipt{Duplicate: 1}) {
				t.Errorf("same report again: %+v, want a duplicate", got)
			}
			r.Vote = bulkhead.Revocation
			if got := report(t, e, r); got != (bulkhead.Receipt{Counted: 1, Revoked: 1}) {
				t.Fatalf("revoke: %+v", got)
			}
			if v := verdictOf(t, e, s); v.Spam() || v.Judged != bulkhead.Revoked || v.Confidence != 0 {
				t.Fatalf("after the revoke: %+v, want revoked", v)
			}
			c.Advance(8 * 24 * time.Hour) // a new generation of both books
			r.Vote = bulkhead.Spam
			if got := report(t, e, r); got.Listed != 1 {
				t.Fatalf("report in a later generation: %+v, want it listed again", got)
			}
			if v := verdictOf(t, e, s); !v.Spam() {
				t.Errorf("after the later report: %+v, want spam", v)
			}
		})
	}
}

func TestBulk(t *testing.T) {
	e := open(t, Options{})
	s := sig(bulkhead.DCCBody, 1)
	for i := range 19 {
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}})
		if v := verdictOf(t, e, s); v.Bulk || v.Sightings != uint32(i+1) {
			t.Fatalf("after %d sightings: bulk %v, %d sightings", i+1, v.Bulk, v.Sightings)
		}
	}
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}})
	if v := verdictOf(t, e, s); !v.Bulk || v.Spam() || !v.Unwanted() {
		t.Errorf("after 20 sightings: %+v, want bulk and not spam", v)
	}
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Count: 1 << 30})
	if v := verdictOf(t, e, s); v.Sightings != bulkhead.Many {
		t.Errorf("after 2^30 more: %d sightings, want %d", v.Sightings, bulkhead.Many)
	}
	v, err := e.Check(context.Background(), bulkhead.Query{Signatures: []bulkhead.Signature{sig(bulkhead.DCCBody, 2)},
		Threshold: 1})
	if err != nil || v.Bulk || v.Threshold != 1 {
		t.Errorf("own threshold: %+v, %v", v, err)
	}
}

func TestReportID(t *testing.T) {
	e := open(t, Options{})
	r := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.DCCBody, 1)}, ID: "a", Count: 3}
	if got := report(t, e, r); got.Counted != 1 {
		t.Fatalf("%+v", got)
	}
	if got := report(t, e, r); got.Duplicate != 1 || got.Counted != 0 {
		t.Fatalf("same id again: %+v", got)
	}
	r.ID = "b"
	report(t, e, r)
	if v := verdictOf(t, e, r.Signatures[0]); v.Sightings != 6 {
		t.Errorf("%d sightings, want 6", v.Sightings)
	}
}

func TestNearBands(t *testing.T) {
	e := open(t, Options{NearMatch: 3})
	bands := make([]bulkhead.Signature, 8)
	for i := range bands {
		bands[i] = sig(bulkhead.Near, i)
	}
	report(t, e, bulkhead.Report{Signatures: bands, Vote: bulkhead.Spam})
	variant := func(same int) []bulkhead.Signature {
		v := append([]bulkhead.Signature(nil), bands[:same]...)
		for i := same; i < len(bands); i++ {
			v = append(v, sig(bulkhead.Near, 100+i))
		}
		return v
	}
	if v := verdictOf(t, e, variant(3)...); v.Class != bulkhead.ClassSuspected ||
		!strings.Contains(v.Reasons[0], "3 bands") {
		t.Errorf("three bands of three needed, one voice: %+v, want a suspicion", v)
	}
	report(t, e, bulkhead.Report{Signatures: bands, Vote: bulkhead.Spam,
		Reporter: bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}})
	if v := verdictOf(t, e, variant(3)...); v.Class == bulkhead.ClassSpam {
		t.Errorf("the same voice again: %+v, want a suspicion", v)
	}
	put(t, e, "second", trust.Trusted, 1, netip.Addr{})
	report(t, e, bulkhead.Report{Signatures: bands, Vote: bulkhead.Spam, Reporter: bulkhead.Reporter{Account: "second"}})
	if v := verdictOf(t, e, variant(3)...); !v.Spam() || !strings.Contains(v.Reasons[0], "3 bands") {
		t.Errorf("three bands of three needed, two voices: %+v, want spam", v)
	}
	if v := verdictOf(t, e, variant(2)...); v.Judged != bulkhead.Unjudged || v.SpamVotes != 0 {
		t.Errorf("two bands of three needed: %+v, want nothing", v)
	}
	// The exact message is revoked, which outweighs the bands.
	exact := sig(bulkhead.Exact, 7)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{exact}, Vote: bulkhead.Spam,
		Reporter: bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}})
	if _, err := e.Report(context.Background(), bulkhead.Report{Signatures: []bulkhead.Signature{exact},
		Vote: bulkhead.Revocation}); err == nil {
		if v := verdictOf(t, e, append(variant(8), exact)...); v.Spam() {
			t.Errorf("exact signature revoked, bands listed: %+v, want not spam", v)
		}
	}
}

// TestShingleBands: three of the twenty bands of rspamd's shingles make a near
// copy.
func TestShingleBands(t *testing.T) {
	e := open(t, Options{})
	bands := make([]bulkhead.Signature, 20)
	for i := range bands {
		bands[i] = sig(bulkhead.RspamdShingle, i)
	}
	report(t, e, bulkhead.Report{Signatures: bands, Vote: bulkhead.Spam})
	for same, spam := range map[int]bool{0: false, 2: false, 3: true, 20: true} {
		copied := append([]bulkhead.Signature(nil), bands[:same]...)
		for i := same; i < len(bands); i++ {
			copied = append(copied, sig(bulkhead.RspamdShingle, 100+i))
		}
		if v := verdictOf(t, e, copied...); v.Spam() != spam {
			t.Errorf("%d of 20 bands listed: spam %v, want %v", same, v.Spam(), spam)
		}
	}
}

// TestPartsOfOneScheme: where a scheme signs every part of a message, one part
// that much mail has (the footer of a list) does not speak for all of it.
func TestPartsOfOneScheme(t *testing.T) {
	e := open(t, Options{})
	text, footer, other := sig(bulkhead.RazorE4, 1), sig(bulkhead.RazorE4, 2), sig(bulkhead.RazorE4, 3)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{text, footer}, Count: 30})
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{text, footer}, Vote: bulkhead.Spam})
	if v := verdictOf(t, e, text, footer); !v.Spam() || !v.Bulk {
		t.Errorf("the message that was reported: %+v, want spam and bulk", v)
	}
	if v := verdictOf(t, e, other, footer); v.Unwanted() || v.Findings[1].Judged != bulkhead.JudgedSpam {
		t.Errorf("another message with the same footer: %+v, want only the footer listed", v)
	}
}

// TestPropertiesDoNotJudge: a sender or relay that sends spam is not proof that
// the next message from it is.
func TestPropertiesDoNotJudge(t *testing.T) {
	e := open(t, Options{})
	from := sig(bulkhead.DCCFrom, 1)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{from}, Count: 1000})
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{from}, Vote: bulkhead.Spam})
	v := verdictOf(t, e, from, sig(bulkhead.Exact, 9))
	if v.Unwanted() {
		t.Errorf("verdict %+v, want one that the sender alone does not decide", v)
	}
	if v.Findings[0].Sightings != 1000 || v.Findings[0].Judged != bulkhead.JudgedSpam {
		t.Errorf("finding %+v, want the counts of the sender all the same", v.Findings[0])
	}
}

func TestGenerationsExpire(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now})
	old, fresh := sig(bulkhead.Exact, 1), sig(bulkhead.Exact, 2)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{old}, Vote: bulkhead.Spam})
	c.Advance(48 * time.Hour)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{fresh}})
	v := verdictOf(t, e, old)
	if v.SpamVotes != 1 || v.First.Format(time.DateOnly) != "2026-03-02" {
		t.Errorf("two days later: %+v, want the vote of the first day", v)
	}
	c.Advance(24 * time.Hour)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{fresh}})
	if v := verdictOf(t, e, old); v.SpamVotes != 0 || !v.Spam() {
		t.Errorf("three days later: %+v, want the vote gone and the listing kept", v)
	}
	if v := verdictOf(t, e, fresh); v.Sightings != 2 {
		t.Errorf("fresh: %d sightings, want 2", v.Sightings)
	}
	c.Advance(20 * 24 * time.Hour)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{fresh}})
	if v := verdictOf(t, e, old); v.Spam() {
		t.Errorf("three weeks later: %+v, want the listing gone", v)
	}
	if n := len(e.current.View().Tally.Live); n > 3 {
		t.Errorf("%d generations live, want at most 3", n)
	}
}

// TestClockGoesBack: a clock that goes back opens and drops no generations.
func TestClockGoesBack(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now})
	s := sig(bulkhead.Exact, 1)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}})
	c.Advance(-100 * time.Hour)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}})
	if v := verdictOf(t, e, s); v.Sightings != 2 {
		t.Errorf("%d sightings, want 2", v.Sightings)
	}
	if n := len(e.current.View().Tally.Live); n != 1 {
		t.Errorf("%d generations, want 1", n)
	}
}

// TestClockWasAhead: after a moment in which the clock was a year ahead, counts
// still age and arrays still grow with their use.
func TestClockWasAhead(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now, Exact: true, Tally: BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 1000,
		Error: 1e-2}})
	c.Advance(365 * 24 * time.Hour)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 0)}})
	c.Advance(-365 * 24 * time.Hour)
	often := sig(bulkhead.Exact, 1)
	for day := 1; day <= 10; day++ {
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{often}})
		if v := verdictOf(t, e, often); v.Sightings > 4 {
			t.Fatalf("day %d: %d sightings, want those of about 3 days", day, v.Sightings)
		}
		c.Advance(24 * time.Hour)
	}
	for i := range 4000 {
		c.Advance(time.Second)
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 100+i)}})
	}
	v := e.current.View()
	if g := v.Tally.Live[0]; len(v.Tally.Live) > 3 || g.Fill() > book.Early+0.01 {
		t.Errorf("%d generations, the open one with %d keys for %d, want at most 3 and none overfull", len(v.Tally.Live),
			g.Counts.Keys(), g.Capacity)
	}
	for i := range 100 {
		if v := verdictOf(t, e, sig(bulkhead.Exact, 4000+i)); v.Sightings != 1 {
			t.Fatalf("signature %d: %d sightings, want 1", 4000+i, v.Sightings)
		}
	}
	c.Advance(400 * 24 * time.Hour)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{often}})
	if v := verdictOf(t, e, often); v.Sightings != 1 || len(e.current.View().Tally.Live) != 1 {
		t.Errorf("a year later: %d sightings in %d generations, want all as ever", v.Sightings,
			len(e.current.View().Tally.Live))
	}
}

// TestCapacityFollowsUse: a generation that fills opens the next one early, and
// larger.
func TestCapacityFollowsUse(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now, Tally: BookOptions{Generation: 24 * time.Hour, Keep: 2, Capacity: 1000, Error: 1e-2}})
	for i := range 2000 {
		c.Advance(time.Second)
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, i)}})
	}
	v := e.current.View()
	if len(v.Tally.Live) < 2 || v.Tally.Live[0].Capacity <= v.Tally.Live[len(v.Tally.Live)-1].Capacity {
		t.Fatalf("%d generations, newest for %d signatures; want a second, larger one", len(v.Tally.Live),
			v.Tally.Live[0].Capacity)
	}
	for i := range 2000 {
		if v := verdictOf(t, e, sig(bulkhead.Exact, i)); v.Sightings < 1 {
			t.Fatalf("signature %d lost in the change of generations", i)
		}
	}
}

func TestWhitelist(t *testing.T) {
	w, err := NewWhitelist(WhitelistEntries{
		Senders: []string{"News@Example.com", "forgeable:old@example.com"},
		Domains: []string{"example.org", "forgeable:example.info"}, Networks: []string{"192.0.2.0/24", "2001:db8::1"},
		ListIDs: []string{"announce.example.net", "forgeable:dev.example.net"}, DKIM: []string{"example.edu"},
		Signatures: []string{sig(bulkhead.Exact, 5).String()},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, Options{Whitelist: w})
	s := sig(bulkhead.Exact, 1)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam})
	for _, tt := range []struct {
		source bulkhead.Source
		want   string
	}{
		{bulkhead.Source{Sender: "news@example.com"}, "sender news@example.com"},
		{bulkhead.Source{Sender: "<news@EXAMPLE.com>"}, "sender news@example.com"},
		{bulkhead.Source{Sender: "a@mail.example.org"}, "domain example.org"},
		{bulkhead.Source{Sender: "a@badexample.org"}, ""},
		{bulkhead.Source{Client: netip.MustParseAddr("::ffff:192.0.2.7")}, "network 192.0.2.0/24"},
		{bulkhead.Source{Client: netip.MustParseAddr("2001:db8::1")}, "network 2001:db8::1/128"},
		{bulkhead.Source{Client: netip.MustParseAddr("2001:db8::2")}, ""},
		{bulkhead.Source{ListID: "announce.example.net"}, "list announce.example.net"},
		{bulkhead.Source{DKIM: []string{"other.example", "a.example.edu"}}, "dkim example.edu"},
		{bulkhead.Source{}, ""},
		{bulkhead.Source{ClaimedSender: "news@example.com", ClaimedListID: "announce.example.net"}, ""},
		{bulkhead.Source{ClaimedSender: "a@example.org"}, ""},
		{bulkhead.Source{ClaimedSender: "OLD@example.com"}, "forgeable: sender old@example.com"},
		{bulkhead.Source{ClaimedSender: "a@b.example.info"}, "forgeable: domain example.info"},
		{bulkhead.Source{ClaimedListID: "dev.example.net"}, "forgeable: list dev.example.net"},
		{bulkhead.Source{Sender: "old@example.com"}, "sender old@example.com"},
	} {
		v, err := e.Check(context.Background(), bulkhead.Query{Signatures: []bulkhead.Signature{s}, Source: tt.source})
		if err != nil || v.Whitelisted != tt.want || v.Spam() != (tt.want == "") {
			t.Errorf("check from %+v: whitelisted by %q, spam %v, %v; want %q", tt.source, v.Whitelisted, v.Spam(), err, tt.want)
		}
	}
	got := report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 5), sig(bulkhead.Exact, 6)},
		Vote: bulkhead.Spam})
	if got.Whitelisted != 1 || got.Listed != 1 {
		t.Errorf("report of a whitelisted and another signature: %+v", got)
	}
	for _, bad := range []WhitelistEntries{
		{Senders: []string{"nobody"}}, {Domains: []string{""}}, {Networks: []string{"10.0.0.0/99"}},
		{DKIM: []string{"a b"}}, {DKIM: []string{"forgeable:example.com"}}, {Domains: []string{"forgeable:"}},
		{Domains: []string{"forgable:example.com"}}, {Signatures: []string{"x:00"}},
	} {
		if _, err := NewWhitelist(bad); err == nil {
			t.Errorf("whitelist %+v accepted", bad)
		}
	}
}

func TestNeverList(t *testing.T) {
	empty := sig(bulkhead.PyzorDigest, 0)
	e := open(t, Options{NeverList: []bulkhead.Signature{empty}})
	if got := report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{empty},
		Vote: bulkhead.Spam}); got.Whitelisted != 1 || got.Counted != 0 {
		t.Errorf("report of the sum of nothing: %+v", got)
	}
	if v := verdictOf(t, e, empty); v.Findings[0].Known() {
		t.Errorf("the sum of nothing is known: %+v", v)
	}
}

func TestRefusals(t *testing.T) {
	e := open(t, Options{})
	ctx := context.Background()
	s := []bulkhead.Signature{sig(bulkhead.Exact, 1)}
	for name, tt := range map[string]struct {
		report bulkhead.Report
		want   error
	}{
		"no signatures":  {bulkhead.Report{}, bulkhead.ErrMalformed},
		"zero signature": {bulkhead.Report{Signatures: make([]bulkhead.Signature, 1)}, bulkhead.ErrMalformed},
		"too many":       {bulkhead.Report{Signatures: make([]bulkhead.Signature, MaxSignatures+1)}, bulkhead.ErrOverLimit},
		"vote":           {bulkhead.Report{Signatures: s, Vote: bulkhead.NumVotes}, bulkhead.ErrMalformed},
		"id":             {bulkhead.Report{Signatures: s, ID: strings.Repeat("x", 257)}, bulkhead.ErrMalformed},
		"unknown account": {bulkhead.Report{Signatures: s, Vote: bulkhead.Spam,
			Reporter: bulkhead.Reporter{Account: "eve"}}, bulkhead.ErrUnauthorised},
		"anonymous": {bulkhead.Report{Signatures: s, Vote: bulkhead.Spam,
			Reporter: bulkhead.Reporter{Addr: netip.MustParseAddr("198.51.100.1")}}, bulkhead.ErrForbidden},
	} {
		if _, err := e.Report(ctx, tt.report); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", name, err, tt.want)
		}
	}
	if v := verdictOf(t, e, s...); v.Findings[0].Known() {
		t.Errorf("a refused report changed something: %+v", v)
	}
}

// TestNameAlone: a vote for spam falls on nothing where all that it names is what
// very different messages share: the name that From claims, the network, the mark-up.
// Deliveries of a name count, and whoever takes a report back may name it alone.
func TestNameAlone(t *testing.T) {
	hidden := sig(bulkhead.PyzorDigest, 0)
	e := open(t, Options{NeverList: []bulkhead.Signature{hidden}})
	name := bulkhead.NamedSignature(bulkhead.Claim, "annexample")
	shared := []bulkhead.Signature{name, bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24"),
		sig(bulkhead.Markup, 1)}
	for _, sigs := range [][]bulkhead.Signature{shared[:1], shared[1:2], shared[2:], shared} {
		got, err := e.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam})
		if !errors.Is(err, bulkhead.ErrMalformed) || got != (bulkhead.Receipt{}) {
			t.Errorf("spam vote on %v: %+v, %v; want ErrMalformed", sigs, got, err)
		}
	}
	if got := report(t, e, bulkhead.Report{Signatures: append(shared, hidden),
		Vote: bulkhead.Spam}); got.Whitelisted != 4 || got.Counted != 0 {
		t.Errorf("spam vote on names and the sum of nothing: %+v, want all of it left out", got)
	}
	if v := verdictOf(t, e, shared...); v.Unwanted() || v.Findings[0].Known() || v.Findings[1].Known() ||
		v.Findings[2].Known() {
		t.Errorf("refused votes changed something: %+v", v)
	}
	if got := report(t, e, bulkhead.Report{Signatures: shared[:1]}); got.Counted != 1 {
		t.Errorf("sighting of a name: %+v", got)
	}
	if got := report(t, e, bulkhead.Report{Signatures: append(shared, sig(bulkhead.Attachment, 1)),
		Vote: bulkhead.Spam}); got.Counted != 4 {
		t.Errorf("spam vote on an attachment and names: %+v, want all counted", got)
	}
	if got := report(t, e, bulkhead.Report{Signatures: shared[:1], Vote: bulkhead.Revocation}); got.Counted != 1 {
		t.Errorf("revocation of a name: %+v", got)
	}
}

// TestBurst: the same new signature from many goroutines at once, the case in
// which lock-free H1 loses half the reports (a spam burst is just that).
func TestBurst(t *testing.T) {
	e := open(t, Options{})
	s := sig(bulkhead.Exact, 1)
	const writers, each = 16, 200
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s, sig(bulkhead.Exact, 2+i)}})
				if v := verdictOf(t, e, s); v.Sightings == 0 {
					t.Error("own report not seen")
				}
			}
		})
	}
	wg.Wait()
	if v := verdictOf(t, e, s); v.Sightings != writers*each {
		t.Errorf("%d sightings, want %d", v.Sightings, writers*each)
	}
}

// TestTrustMoves: a member's weight rises when a trusted account confirms its
// report, and falls when one is revoked.
func TestTrustMoves(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now})
	ctx := context.Background()
	for _, a := range []trust.Account{
		{Name: "alice", Role: trust.Member, Weight: 0.05},
		{Name: "bob", Role: trust.Trusted, Weight: 1},
		{Name: "carol", Role: trust.Trusted, Weight: 1},
	} {
		if err := e.PutAccount(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	by := func(name string, n int, vote bulkhead.Vote) bulkhead.Receipt {
		from := netip.AddrFrom4([4]byte{198, 51, byte(n), 1})
		return report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}, Vote: vote,
			Reporter: bulkhead.Reporter{Account: name, Addr: from}})
	}
	weight := func() float64 {
		a, _ := e.Accounts().Get("alice")
		return e.Accounts().Policy().Of(&a)
	}
	start := weight()
	for n := range 20 {
		if got := by("alice", n, bulkhead.Spam); got.Pending != 1 || got.Listed != 0 {
			t.Fatalf("alice's report %d: %+v, want it pending", n, got)
		}
		if got := by("bob", n, bulkhead.Spam); got.Listed != 1 {
			t.Fatalf("bob's report %d: %+v, want it listed", n, got)
		}
		c.Advance(24 * time.Hour)
	}
	risen := weight()
	if risen < 0.4 || risen > 0.45 {
		t.Errorf("confirmed on 20 days: weight %v, started at %v; want half the way to 0.8", risen, start)
	}
	many := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 17), sig(bulkhead.Exact, 18),
		sig(bulkhead.Exact, 19)}, Vote: bulkhead.Revocation, Reporter: bulkhead.Reporter{Account: "carol"}}
	report(t, e, many) // one message of three signatures: one revoked report
	if got := weight(); got >= risen || got < risen/2 {
		t.Errorf("after a revoked report: weight %v, before %v; want it lower by up to a half", got, risen)
	}
	if err := e.RemoveAccount(ctx, "alice"); err != nil {
		t.Fatal(err)
	}
	if err := e.RemoveAccount(ctx, "alice"); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("removing twice: %v", err)
	}
}

// TestAgainstExact runs the same random reports through filters and maps: the
// filters never show less, and rarely more.
func TestAgainstExact(t *testing.T) {
	n, reports := 15_000, 40_000
	if testing.Short() { // minutes under the race detector, in one goroutine
		n, reports = 1500, 4000
	}
	// Sightings, spam and ham votes are up to three keys a signature.
	book := BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: uint64(4 * n), Error: 1e-3}
	approx, exact := open(t, Options{Tally: book, Votes: uint64(2 * n)}), open(t,
		Options{Exact: true, Tally: book, Votes: uint64(2 * n)})
	x := uint64(1)
	next := func(m int) int {
		x = x*6364136223846793005 + 1442695040888963407
		return int(x >> 33 % uint64(m))
	}
	for range reports {
		r := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, next(n)*next(3))},
			Count: uint32(1 + next(3)), Vote: bulkhead.Vote(next(3))}
		if r.Vote != bulkhead.Sighting {
			r.Reporter.Addr = netip.AddrFrom4([4]byte{127, 0, byte(next(200)), 1})
		}
		if a, b := report(t, approx, r), report(t, exact, r); a != b {
			t.Fatalf("receipts differ: filters %+v, maps %+v", a, b)
		}
	}
	wrong := 0
	for i := range 2 * n {
		s := sig(bulkhead.Exact, i)
		a, b := verdictOf(t, approx, s).Findings[0], verdictOf(t, exact, s).Findings[0]
		if a.Sightings < b.Sightings || a.Spam < b.Spam || a.Ham < b.Ham || b.Judged != bulkhead.Unjudged &&
			a.Judged != b.Judged {
			t.Fatalf("signature %d: filters show less than there was: %+v, maps %+v", i, a, b)
		}
		if a.Sightings != b.Sightings || a.Spam != b.Spam || a.Ham != b.Ham || a.Judged != b.Judged {
			wrong++
		}
	}
	t.Logf("%d of %d findings differ from the maps", wrong, 2*n)
	if wrong > 2*n/100 {
		t.Errorf("%d of %d findings differ from the maps", wrong, 2*n)
	}
}
