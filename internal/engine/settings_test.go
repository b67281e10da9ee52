package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/check"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestDefaults: an option left out has its documented default, and one that is
// given stays.
func TestDefaults(t *testing.T) {
	var o Options
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	if o.Now == nil || o.Log == nil {
		t.Fatal("no clock or no log")
	}
	o.Now, o.Log = nil, nil
	want := Options{
		Tally:   BookOptions{Generation: 86_400e9, Keep: 7, Capacity: 1_000_000, Error: 1e-3},
		Block:   BookOptions{Generation: 604_800e9, Keep: 8, Capacity: 250_000, Error: 1e-5},
		Reports: 250_000, Votes: 250_000, Names: 50_000, Threshold: 20, NearMatch: 2, Trust: trust.DefaultPolicy(),
		CheckpointEvery: 900e9, CheckpointBytes: 268_435_456,
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("defaults are %+v, want %+v", o, want)
	}
	policy := trust.DefaultPolicy()
	policy.Promotion = 0.5
	given := Options{
		Tally:   BookOptions{Generation: time.Hour, Keep: 2, Capacity: 3, Error: 1e-2},
		Block:   BookOptions{Generation: 2 * time.Hour, Keep: 3, Capacity: 4, Error: 1e-3},
		Reports: 1, Votes: 1, Names: 1, Threshold: 1, NearMatch: 1, Trust: policy, CheckpointEvery: 1, CheckpointBytes: 1,
		Exact: true,
		Now:   newClock().Now,
	}
	o = given
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	if o.Now() != given.Now() {
		t.Error("another clock")
	}
	o.Now, given.Now, o.Log = nil, nil, nil
	if !reflect.DeepEqual(o, given) {
		t.Errorf("%+v has become %+v", given, o)
	}
	tiny := Options{Tally: given.Tally, Block: given.Block}
	if err := tiny.complete(); err != nil || tiny.Reports != 1 || tiny.Names != 1 || tiny.Votes != 4 {
		t.Errorf("of small books: %d reports, %d names, %d votes, %v; want 1, 1, 4", tiny.Reports, tiny.Names, tiny.Votes,
			err)
	}
	tiny = Options{}
	tiny.Tally, tiny.Block = given.Tally, given.Block
	tiny.Tally.Capacity, tiny.Block.Capacity = 8, 10
	if err := tiny.complete(); err != nil || tiny.Reports != 2 || tiny.Names != 2 {
		t.Errorf("%d reports, %d names, %v; want a quarter and a fifth", tiny.Reports, tiny.Names, err)
	}
}

// TestBadOptions: each option out of its range is refused under its name, and before
// anything is written; at its limits it is taken.
func TestBadOptions(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "data"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	policy := trust.DefaultPolicy()
	policy.Promotion = -1
	for want, change := range map[string]func(*Options){
		"tally: keep 0": func(o *Options) {
			o.Tally.Keep = 0
			o.Tally.Capacity = 1
			o.Tally.Generation = time.Second
		},
		"blocklist: keep 0":        func(o *Options) { o.Block.Capacity = 1; o.Block.Generation = time.Second },
		"trust":                    func(o *Options) { o.Trust = policy },
		"near match of -1 bands":   func(o *Options) { o.NearMatch = -1 },
		"near match of 1025 bands": func(o *Options) { o.NearMatch = MaxSignatures + 1 },
		"takes no store":           func(o *Options) { o.Exact = true },
	} {
		o := Options{Store: st}
		change(&o)
		e, err := Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), want) || e != nil {
			t.Errorf("opened with an option that is wrong: %v; want %q", err, want)
		}
	}
	if st.LastIndex() != 0 {
		t.Errorf("%d entries were written", st.LastIndex())
	}
	for _, n := range []int{1, MaxSignatures} {
		o := Options{NearMatch: n}
		if err := o.complete(); err != nil || o.NearMatch != n {
			t.Errorf("near match of %d bands: %v", n, err)
		}
	}
	for _, size := range []func(BookOptions) (uint64, error){TallyBytes, BlocklistBytes} {
		if n, err := size(BookOptions{Generation: time.Hour, Keep: 1, Capacity: 1 << 40, Error: 1e-9}); !errors.Is(err,
			filter.ErrGeometry) || n != 0 {
			t.Errorf("a book that is too large takes %d bytes, %v", n, err)
		}
	}
}

// TestBytesOfBooks: the memory stated before a book is opened is what it
// takes.
func TestBytesOfBooks(t *testing.T) {
	e := open(t, Options{})
	o := small(Options{})
	tally, err1 := TallyBytes(o.Tally)
	block, err2 := BlocklistBytes(o.Block)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if gotTally, gotBlock := used(e); gotTally != tally || gotBlock != block {
		t.Errorf("the books take %d and %d bytes, %d and %d were told", gotTally, gotBlock, tally, block)
	}
}

// TestNoRoomToBegin: a node whose first generation cannot be made durable does not start.
func TestNoRoomToBegin(t *testing.T) {
	disk := new(diskFS)
	st, err := store.Open(filepath.Join(t.TempDir(), "data"), store.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	disk.full.Store(true)
	if _, err := Open(t.Context(), small(Options{Store: st})); !errors.Is(err, bulkhead.ErrReadOnly) ||
		!strings.Contains(err.Error(), "no generation to start with") {
		t.Errorf("started on a full disk: %v", err)
	}
	if _, err := Open(t.Context(), small(Options{Tally: BookOptions{Generation: time.Hour, Keep: 1, Capacity: 1 << 40,
		Error: 1e-9}})); !errors.Is(err, filter.ErrGeometry) {
		t.Errorf("started with a tally that is too large: %v", err)
	}
}

// TestSettings: what an administrator changes while the node runs holds from then on, and
// a change that is refused changes nothing.
func TestSettings(t *testing.T) {
	e := open(t, Options{Threshold: 3})
	s := sig(bulkhead.Exact, 1)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Count: 3})
	for _, step := range []struct {
		set, want uint32
		bulk      bool
	}{{4, 4, false}, {3, 3, true}, {0, DefaultThreshold, false}, {1, 1, true}} {
		e.SetThreshold(step.set)
		if v := verdictOf(t, e, s); v.Threshold != step.want || v.Bulk != step.bulk || v.Findings[0].Bulk != step.bulk {
			t.Errorf("threshold %d: %d, bulk %v, of 3 sightings", step.set, v.Threshold, v.Bulk)
		}
	}
	white, err := NewWhitelist(WhitelistEntries{Signatures: []string{s.String()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*Whitelist{white, nil} {
		e.SetWhitelist(w)
		if v := verdictOf(t, e, s); (v.Whitelisted != "") != (w != nil) || v.Findings[0].Known() != (w == nil) {
			t.Errorf("whitelist %v: %+v", w != nil, v)
		}
	}
	put(t, e, "half", trust.Trusted, 0.5, netip.Addr{})
	vote := by("half", bulkhead.Spam, sig(bulkhead.Exact, 2))
	if got := report(t, e, vote); got.Listed != 0 {
		t.Fatalf("half a weight lists: %+v", got)
	}
	before := e.Accounts().Policy()
	bad := before
	bad.Promotion = -1
	if err := e.SetTrust(bad); err == nil || e.Accounts().Policy() != before {
		t.Errorf("a policy that is none: %v; the policy is %+v", err, e.Accounts().Policy())
	}
	sources := e.checker.Sources()
	if e.checker.Sources() != sources {
		t.Error("what there is to read is made anew though nothing has changed")
	}
	lower := before
	lower.Promotion = 0.5
	for len(e.replicas.Wanted()) > 0 {
		<-e.replicas.Wanted()
	}
	if err := e.SetTrust(lower); err != nil || e.Accounts().Policy() != lower || e.checker.Policy().Promotion != 0.5 {
		t.Errorf("another policy: %v; the policy is %+v", err, e.Accounts().Policy())
	}
	if e.checker.Sources() == sources {
		t.Error("what there is to read is that of another promotion weight")
	}
	vote.Signatures = []bulkhead.Signature{sig(bulkhead.Exact, 3)}
	if got := report(t, e, vote); got.Listed != 1 {
		t.Errorf("half a weight does not list where that is enough: %+v", got)
	}
}

// TestMergesAgain: a new promotion weight may make arrays merge that could not.
func TestMergesAgain(t *testing.T) {
	e, err := Open(t.Context(), small(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil { // no goroutine receives the wake-up
		t.Fatal(err)
	}
	select {
	case <-e.replicas.Wanted():
	default:
	}
	if err := e.SetTrust(trust.DefaultPolicy()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.replicas.Wanted():
	default:
		t.Error("nobody is asked to merge")
	}
}

// TestClosed: a closed engine answers checks and takes nothing more, and closes once.
func TestClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	e, st := openDurable(t, dir, Options{}, nil)
	s := sig(bulkhead.Exact, 1)
	r := bulkhead.Report{Signatures: []bulkhead.Signature{s}}
	report(t, e, r)
	before := e.Info()
	for range 2 {
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.Info().Checkpoints - before.Checkpoints; n != 1 {
		t.Errorf("%d checkpoints at the end, want 1", n)
	}
	if v := verdictOf(t, e, s); v.Sightings != 1 {
		t.Errorf("%d sightings after the end", v.Sightings)
	}
	_, err := e.Report(t.Context(), r)
	for what, err := range map[string]error{
		"a report": err, "a count": e.Count(t.Context(), r.Signatures, []uint32{1}),
		"an account": e.PutAccount(t.Context(), trust.Account{Name: "a", Role: trust.Member}),
		"recording":  e.Record(t.Context(), true),
	} {
		if !errors.Is(err, bulkhead.ErrReadOnly) {
			t.Errorf("%s after the end: %v", what, err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	// One whose last checkpoint fails says so every time.
	e, st = openDurable(t, dir, Options{}, nil)
	report(t, e, r)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Close(t.Context()); err == nil {
			t.Error("a checkpoint into a closed store succeeded")
		}
	}
}

// TestInfoRefusing: Info reports why reports are refused, and checks continue.
func TestInfoRefusing(t *testing.T) {
	e := open(t, Options{})
	e.journal.fail("write journal", errors.New("no room"))
	if got := e.Info().Refusing; !strings.Contains(got, "write journal: no room") {
		t.Errorf("refusing %q", got)
	}
	before := e.Info()
	r := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}}
	if _, err := e.Report(t.Context(), r); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("a report: %v", err)
	}
	if after := e.Info(); after.Refused != before.Refused+1 || after.Reports != before.Reports {
		t.Errorf("%d refused and %d taken, after %d and %d", after.Refused, after.Reports, before.Refused, before.Reports)
	}
	for what, err := range map[string]error{
		"an account": e.PutAccount(t.Context(), trust.Account{Name: "a", Role: trust.Member}),
		"a removal":  e.RemoveAccount(t.Context(), "nobody"),
		"parts":      e.ApplyRemote(t.Context(), "nobody", nil),
	} {
		if !errors.Is(err, bulkhead.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if v := verdictOf(t, e, r.Signatures...); v.Findings[0].Known() {
		t.Errorf("a refused report changed something: %+v", v)
	}
	e.journal.failed.Store(nil)
}

// TestAccountsRefused: an account that cannot be is refused and changes nothing.
func TestAccountsRefused(t *testing.T) {
	e := open(t, Options{})
	hash := make([]byte, 32)
	if err := e.PutAccount(t.Context(), trust.Account{Name: "a", Role: trust.Member, TokenHash: hash}); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]trust.Account{
		"no name":         {Role: trust.Member},
		"another's token": {Name: "b", Role: trust.Member, TokenHash: hash},
	} {
		before := e.Info()
		if err := e.PutAccount(t.Context(), a); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		if after := e.Info(); after.Accounts != before.Accounts {
			t.Errorf("%s: %d accounts, were %d", name, after.Accounts, before.Accounts)
		}
	}
	long := strings.Repeat("x", 300)
	if err := e.RemoveAccount(t.Context(), long); !errors.Is(err, bulkhead.ErrMalformed) || len(err.Error()) > 250 {
		t.Errorf("removing who is not there: %v", err)
	}
	if e.Accounts().Len() != 1 {
		t.Errorf("%d accounts, want 1", e.Accounts().Len())
	}
}

// TestAccountsSeen: what the journal says of accounts is not applied a second time when
// the accounts of a checkpoint have it.
func TestAccountsSeen(t *testing.T) {
	e := open(t, Options{})
	put(t, e, "a", trust.Member, 0.05, netip.Addr{})
	e.queue.between(func() {
		seen := e.writer.accountsIndex
		if seen == 0 {
			t.Error("no entry of an account was noted")
		}
		gone := &codec.Account{Remove: "a"}
		if err := e.apply(seen, gone); err != nil {
			t.Error(err)
		}
		if _, ok := e.accounts.Get("a"); !ok {
			t.Error("an entry that the accounts have seen was applied")
		}
		if err := e.apply(seen+1, gone); err != nil {
			t.Error(err)
		}
		if _, ok := e.accounts.Get("a"); ok || e.writer.accountsIndex != seen+1 {
			t.Errorf("a new entry was not applied; the last is %d, want %d", e.writer.accountsIndex, seen+1)
		}
	})
}

// TestStaleAccounts: self-registered accounts that never helped are durably removed on the day on
// which they have been idle for long enough. Vouched accounts stay.
func TestStaleAccounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := newClock()
	e, st := openDurable(t, dir, Options{Now: c.Now}, nil)
	stranger := netip.MustParseAddr("198.51.100.7")
	idle := time.Duration(trust.DefaultPolicy().IdleDays) * 24 * time.Hour
	for name, from := range map[string]netip.Addr{"stranger": stranger, "another": stranger, "vouched": {}} {
		a := trust.Account{Name: name, Role: trust.Member, Weight: 0.05, Created: c.Now(), From: from}
		if err := e.PutAccount(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	one := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}}
	c.Advance(idle - 24*time.Hour)
	report(t, e, one)
	if n := e.Accounts().Len(); n != 3 {
		t.Errorf("%d accounts on the day before, want 3", n)
	}
	c.Advance(24 * time.Hour)
	report(t, e, one)
	await.True(t, "one account is left", func() bool { return e.Accounts().Len() == 1 })
	for restarted := range 2 {
		if _, ok := e.Accounts().Get("vouched"); !ok || e.Accounts().Len() != 1 {
			t.Errorf("restarted %d times: %d accounts, want the one that was vouched for", restarted, e.Accounts().Len())
		}
		if err := errors.Join(e.Close(context.WithoutCancel(t.Context())), st.Close()); err != nil {
			t.Fatal(err)
		}
		e, st = openDurable(t, dir, Options{Now: c.Now}, nil)
	}
	if err := errors.Join(e.Close(context.WithoutCancel(t.Context())), st.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestSweep: when a generation opens, the writer looks at a few accounts in each turn, and removes one at most. Reports
// do not wait for thousands of accounts.
func TestSweep(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now})
	const accounts, every = 4 * sweptInTurn, sweptInTurn / 2
	e.queue.between(func() {
		for i := range accounts {
			a := trust.Account{Name: fmt.Sprint("x", i), Role: trust.Member, Weight: 0.05,
				From: netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), Created: c.Now()}
			if i%every == 0 {
				a.Created = c.Now().AddDate(0, 0, -trust.DefaultPolicy().IdleDays)
			}
			if err := e.accounts.Put(a); err != nil {
				t.Error(err)
			}
		}
		c.Advance(24 * time.Hour)
		if err := e.rotate(); err != nil {
			t.Error(err)
		}
		rest, left := len(e.writer.sweep.rest), e.accounts.Len()
		if rest != accounts || left != accounts {
			t.Errorf("a generation opens, and %d accounts are to be looked at; %d are left, want %d", rest, left, accounts)
		}
		for rest > 0 {
			e.sweep()
			n, gone := rest-len(e.writer.sweep.rest), left-e.accounts.Len()
			if n == 0 || n > sweptInTurn || gone > 1 {
				t.Errorf("one turn looked at %d accounts and removed %d", n, gone)
				return
			}
			rest, left = rest-n, left-gone
		}
	})
	for i := range accounts {
		if _, ok := e.Accounts().Get(fmt.Sprint("x", i)); ok == (i%every == 0) {
			t.Errorf("account %d is there: %v", i, ok)
		}
	}
}

// TestBatchRefused: if one of several queries is malformed, none is answered
// and none counted.
func TestBatchRefused(t *testing.T) {
	e := open(t, Options{})
	s := []bulkhead.Signature{sig(bulkhead.Exact, 1)}
	report(t, e, bulkhead.Report{Signatures: s})
	before := e.Info().Checks
	verdicts := make([]bulkhead.Verdict, 3)
	err := e.CheckBatch(t.Context(), []bulkhead.Query{{Signatures: s}, {}, {Signatures: s}}, verdicts)
	if !errors.Is(err, bulkhead.ErrMalformed) || !reflect.DeepEqual(verdicts, make([]bulkhead.Verdict, 3)) {
		t.Errorf("%v, verdicts %+v", err, verdicts)
	}
	if v, err := e.Check(t.Context(), bulkhead.Query{}); !errors.Is(err, bulkhead.ErrMalformed) ||
		!reflect.DeepEqual(v, bulkhead.Verdict{}) {
		t.Errorf("%v, verdict %+v", err, v)
	}
	if after := e.Info().Checks; after != before {
		t.Errorf("%d checks, were %d", after, before)
	}
}

// TestLimitsOfAReport: a report exactly at a limit is taken, and one above it
// is refused.
func TestLimitsOfAReport(t *testing.T) {
	e := open(t, Options{})
	many := make([]bulkhead.Signature, MaxSignatures+1)
	for i := range many {
		many[i] = sig(bulkhead.Exact, i)
	}
	for name, tt := range map[string]struct {
		report bulkhead.Report
		want   error
	}{
		"most signatures": {bulkhead.Report{Signatures: many[:MaxSignatures]}, nil},
		"one more":        {bulkhead.Report{Signatures: many}, bulkhead.ErrOverLimit},
		"longest id":      {bulkhead.Report{Signatures: many[:1], ID: strings.Repeat("x", bulkhead.MaxID)}, nil},
		"a longer id": {bulkhead.Report{Signatures: many[:1], ID: strings.Repeat("x", bulkhead.MaxID+1)},
			bulkhead.ErrMalformed},
		"the last vote": {bulkhead.Report{Signatures: many[:1], Vote: bulkhead.NumVotes - 1}, nil},
		"no vote":       {bulkhead.Report{Signatures: many[:1], Vote: bulkhead.NumVotes}, bulkhead.ErrMalformed},
	} {
		if _, err := e.Report(t.Context(), tt.report); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	sigs, ones := make([]bulkhead.Signature, maxVotes+1), make([]uint32, maxVotes+1)
	for i := range sigs {
		sigs[i], ones[i] = many[0], 1
	}
	if err := e.Count(t.Context(), sigs[:maxVotes], ones[:maxVotes]); err != nil {
		t.Errorf("the most signatures to count: %v", err)
	}
	if err := e.Count(t.Context(), sigs, ones); !errors.Is(err, bulkhead.ErrOverLimit) {
		t.Errorf("one more: %v", err)
	}
	if v := verdictOf(t, e, many[0]); v.Sightings != maxVotes+2 {
		t.Errorf("%d sightings, want %d", v.Sightings, maxVotes+2)
	}
}

// TestTwiceInAVote: a vote falls once on a signature that it names twice, and
// says so.
func TestTwiceInAVote(t *testing.T) {
	e := open(t, Options{})
	s, other := sig(bulkhead.Exact, 1), sig(bulkhead.Exact, 2)
	if got := report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s, other, s, s},
		Vote: bulkhead.Spam}); got != (bulkhead.Receipt{Counted: 2, Listed: 2, Duplicate: 2}) {
		t.Errorf("a vote: %+v", got)
	}
	if v := verdictOf(t, e, s); v.Findings[0].Spam != 1 {
		t.Errorf("%d votes on what was named three times", v.Findings[0].Spam)
	}
	if got := report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{other, other}}); got.Duplicate != 0 {
		t.Errorf("a sighting: %+v", got)
	}
}

// TestWhitelistedSource: votes on what comes from a source on the list count nowhere, and
// may be taken back all the same.
func TestWhitelistedSource(t *testing.T) {
	e := open(t, Options{})
	white, err := NewWhitelist(WhitelistEntries{Domains: []string{"example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	s := []bulkhead.Signature{sig(bulkhead.Exact, 1), sig(bulkhead.Exact, 2)}
	from := bulkhead.Source{Sender: "a@example.org"}
	report(t, e, bulkhead.Report{Signatures: s, Vote: bulkhead.Spam})
	e.SetWhitelist(white)
	for _, vote := range []bulkhead.Vote{bulkhead.Sighting, bulkhead.Spam, bulkhead.Ham} {
		if got := report(t, e, bulkhead.Report{Signatures: s, Vote: vote,
			Source: from}); got != (bulkhead.Receipt{Whitelisted: 2}) {
			t.Errorf("vote %d: %+v, want all of it left out", vote, got)
		}
	}
	if got := report(t, e, bulkhead.Report{Signatures: s, Vote: bulkhead.Revocation, Source: from}); got.Revoked != 2 ||
		got.Whitelisted != 0 {
		t.Errorf("a revocation: %+v", got)
	}
	if f := verdictOf(t, e, s...).Findings[0]; f.Sightings != 0 || f.Judged != bulkhead.Revoked {
		t.Errorf("finding %+v", f)
	}
}

// TestWhitelistNames: what names an address, a domain or a network, and what does not.
func TestWhitelistNames(t *testing.T) {
	for _, good := range []WhitelistEntries{
		{Senders: []string{"a@b", "@example.com", "<A@B.example>"}},
		{Domains: []string{"b", "<example.com>", "example.com."}}, {ListIDs: []string{"<l.example>"}},
		{DKIM: []string{"d.example"}},
		{Networks: []string{"::ffff:192.0.2.1", "192.0.2.7/24", "2001:db8::/32"}},
	} {
		if _, err := NewWhitelist(good); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []WhitelistEntries{
		{Senders: []string{"a@"}}, {Senders: []string{""}}, {Domains: []string{"a@b"}}, {Domains: []string{"a b"}},
		{Domains: []string{"a\tb"}}, {Domains: []string{"."}},
		{ListIDs: []string{"a@b"}}, {ListIDs: []string{" "}}, {DKIM: []string{""}}, {Networks: []string{"example.com"}},
		{Networks: []string{""}},
		{Senders: []string{"a@b", "nobody"}}, {Networks: []string{"192.0.2.1", "x"}},
		{Signatures: []string{sig(bulkhead.Exact, 1).String(), "y"}},
	} {
		if w, err := NewWhitelist(bad); err == nil || w != nil {
			t.Errorf("%+v: taken, %v", bad, err)
		}
	}
	w, err := NewWhitelist(WhitelistEntries{Networks: []string{"::ffff:192.0.2.1", "198.51.100.7/24"},
		Domains: []string{"example.com."}, Senders: []string{"A@B.example"}})
	if err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]bulkhead.Source{
		"network 192.0.2.1/32":    {Client: netip.MustParseAddr("192.0.2.1")},
		"network 198.51.100.0/24": {Client: netip.MustParseAddr("198.51.100.200")},
		"domain example.com":      {Sender: "x@y.EXAMPLE.com."},
		"sender a@b.example":      {Sender: " <a@b.example> "},
		"":                        {Sender: "example.com", Client: netip.MustParseAddr("192.0.2.2")},
	} {
		if got := w.Source(&s); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
	var none *Whitelist
	if none.Source(&bulkhead.Source{Sender: "a@b"}) != "" {
		t.Error("a list without entries has some")
	}
	for _, list := range []*Whitelist{w, none} {
		e := open(t, Options{Whitelist: list})
		if got := e.Whitelisted(&bulkhead.Source{}, []bulkhead.Signature{sig(bulkhead.Exact, 1)}); got != "" {
			t.Errorf("an unlisted signature is on the list as %q", got)
		}
	}
	s := sig(bulkhead.Exact, 9)
	if w, err = NewWhitelist(WhitelistEntries{Signatures: []string{s.String()}}); err != nil {
		t.Fatal(err)
	}
	e := open(t, Options{})
	e.SetWhitelist(w)
	if got := e.Whitelisted(&bulkhead.Source{}, []bulkhead.Signature{sig(bulkhead.Exact, 1), s}); got != "signature "+
		s.String() {
		t.Errorf("on the list as %q", got)
	}
}

// TestNeverOfSeveral: no data is shown for any signature of the list, regardless of its scheme. All
// data is shown for other signatures.
func TestNeverOfSeveral(t *testing.T) {
	never := []bulkhead.Signature{sig(bulkhead.PyzorDigest, 0), sig(bulkhead.Exact, 0), sig(bulkhead.DCCBody, 0)}
	e := open(t, Options{NeverList: never})
	for _, s := range never {
		other := sig(s.Scheme(), 1)
		if got := report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s, other}}); got.Whitelisted != 1 ||
			got.Counted != 1 {
			t.Errorf("%v and another: %+v", s.Scheme(), got)
		}
		if err := e.Count(t.Context(), []bulkhead.Signature{s, other}, []uint32{1, 2}); err != nil {
			t.Fatal(err)
		}
		looks := make([]bulkhead.Look, 2)
		if err := e.Look(t.Context(), []bulkhead.Signature{s, other}, looks, bulkhead.Counts); err != nil ||
			looks[0] != (bulkhead.Look{}) || looks[1].Sightings != 3 {
			t.Errorf("%v and another: %+v, %v", s.Scheme(), looks, err)
		}
		if v := verdictOf(t, e, s, other); v.Findings[0].Known() || v.Findings[1].Sightings != 3 {
			t.Errorf("%v and another: %+v", s.Scheme(), v.Findings)
		}
	}
}

// TestOddsFollow: the odds are measured again when any array has changed, and only then.
func TestOddsFollow(t *testing.T) {
	a, b := pair(t, 1)
	refreshed := func(what string, want bool) {
		t.Helper()
		before := b.checker.Odds()
		b.checker.Measure()
		if got := b.checker.Odds() != before; got != want {
			t.Errorf("%s: measured anew: %v, want %v", what, got, want)
		}
	}
	b.checker.Measure()
	refreshed("nothing", false)
	report(t, b, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}})
	refreshed("a sighting", true)
	report(t, b, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 2)}, Vote: bulkhead.Spam})
	refreshed("a vote", true)
	refreshed("nothing more", false)
	report(t, b, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 3)}})
	report(t, b, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 4)}, Vote: bulkhead.Spam})
	refreshed("one of each", true)
	report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 5)}})
	pass(t, a, b, "a")
	refreshed("a peer's", true)
	report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 6)}})
	pass(t, a, b, "a")
	report(t, b, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 7)}})
	refreshed("a peer's and one here", true)
	got := *b.checker.Odds().Odds
	all := check.New(check.Options{Current: b.current, Accounts: b.accounts})
	if all.Measure(); got != *all.Odds().Odds {
		t.Errorf("odds %v of what changed, %v of all", got, *all.Odds().Odds)
	}
	b.release()
	exact := open(t, Options{Exact: true})
	s := sig(bulkhead.Exact, 1)
	report(t, exact, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam})
	exact.checker.Measure()
	if v := verdictOf(t, exact, s); v.Error != 0 || v.Findings[0].Error != 0 {
		t.Errorf("maps are wrong with a probability of %v", v.Error)
	}
}

// TestPeersOdds: the counts and lists of peers add to the odds.
func TestPeersOdds(t *testing.T) {
	shape := Options{Tally: BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 2000, Error: 0.2},
		Block: BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 2000, Error: 0.2}}
	c := newClock()
	shape.Now = c.Now
	fill := func(e *Engine) {
		t.Helper()
		for n := range 2 {
			r := bulkhead.Report{Vote: bulkhead.Spam}
			for i := range 500 {
				r.Signatures = append(r.Signatures, sig(bulkhead.Exact, 500*n+i))
			}
			report(t, e, r)
			r.Vote = bulkhead.Sighting
			report(t, e, r)
		}
	}
	lone, home, peer := open(t, shape), open(t, shape), open(t, shape)
	fill(lone)
	fill(home)
	fill(peer)
	for _, weight := range []float64{1, 0} {
		if err := home.SetOrigins(t.Context(), []Origin{{ID: "p", Weight: weight}}); err != nil {
			t.Fatal(err)
		}
		if weight == 1 {
			transfer(t, peer, home, "p")
		}
		lone.checker.Measure()
		home.checker.Measure()
		for what, f := range map[string]bulkhead.Finding{"a count": {Sightings: 1},
			"a listing": {Judged: bulkhead.JudgedSpam}} {
			a, b := lone.checker.Odds().Finding(&f), home.checker.Odds().Finding(&f)
			if weight == 1 && b < 1.5*a || weight == 0 && b != a {
				t.Errorf("%s with a peer of weight %v: wrong with %v, without the peer %v", what, weight, b, a)
			}
		}
	}
}

// TestReleased: no note is kept of the files of arrays that are gone.
func TestReleased(t *testing.T) {
	c := newClock()
	e, st := openDurable(t, filepath.Join(t.TempDir(), "data"), Options{Now: c.Now}, nil)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}, Vote: bulkhead.Spam})
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if len(e.files.written) != 7 {
		t.Fatalf("%d arrays were written, want 7", len(e.files.written))
	}
	if e.release(); len(e.files.written) != 7 {
		t.Errorf("%d of 7 arrays that live are noted", len(e.files.written))
	}
	v := *e.current.Books()
	v.Tally = book.Book[*book.Tally]{}
	e.current.Set(&v)
	if e.release(); len(e.files.written) != 5 {
		t.Errorf("without the tally %d arrays are noted, want 5", len(e.files.written))
	}
	e.current.Set(&view.Books{})
	if e.release(); len(e.files.written) != 0 {
		t.Errorf("%d arrays that are gone are noted", len(e.files.written))
	}
}

// TestUnchangedFiles: the next checkpoint keeps the file of an array that has
// not changed.
func TestUnchangedFiles(t *testing.T) {
	e, st := openDurable(t, filepath.Join(t.TempDir(), "data"), Options{}, nil)
	defer st.Close()
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}})
	writeCheckpoint(t, e)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 2)}})
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := e.snapshot(func(f func()) { f() }, e.files.written)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.files {
		if always := f.Name == "accounts" || f.Name == "ballots"; (f.Write != nil) != always {
			t.Errorf("%s is written again: %v", f.Name, f.Write != nil)
		}
	}
	if s.start != st.LastIndex()+1 || e.journal.bytes != 0 {
		t.Errorf("the files miss entries from %d on, %d bytes of journal; want %d, 0", s.start, e.journal.bytes,
			st.LastIndex()+1)
	}
	if s, err = e.snapshot(func(f func()) { f() }, nil); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.files {
		if f.Write == nil {
			t.Errorf("%s is not written, where nothing is there", f.Name)
		}
	}
}

// TestGather: a batch ends with the report that fills it, by number or by signatures.
func TestGather(t *testing.T) {
	e := &Engine{queue: newQueue()}
	waiting := func(n, signatures int) {
		for range n {
			e.queue.requests <- &request{addition: &countAddition{counts: counts{cells: make([]filter.Key, signatures)}}}
		}
	}
	waiting(maxBatch+1, 1)
	if got := len(e.queue.gather(nil)); got != maxBatch {
		t.Errorf("%d reports of one signature in a batch, want %d", got, maxBatch)
	}
	if got := len(e.queue.gather(nil)); got != 1 {
		t.Errorf("%d reports in the next batch, want 1", got)
	}
	waiting(3, maxVotes/2)
	if got := len(e.queue.gather(nil)); got != 2 {
		t.Errorf("%d reports of half a batch each, want 2", got)
	}
	waiting(1, maxVotes-1)
	batch := func(signatures int) []*request {
		return []*request{{addition: &countAddition{counts: counts{cells: make([]filter.Key, signatures)}}}}
	}
	if got := len(e.queue.gather(batch(maxVotes / 2))); got != 2 {
		t.Errorf("%d reports beside half a batch, want 2", got)
	}
	if got := len(e.queue.gather(nil)); got != 1 {
		t.Errorf("%d reports are left, want 1", got)
	}
	e.queue.requests <- &request{change: func() error { return nil }}
	waiting(1, 1)
	if got := len(e.queue.gather(batch(maxVotes - 1))); got != 3 {
		t.Errorf("%d requests, want 3: a change takes no room", got)
	}
	waiting(1, 1)
	if got := len(e.queue.gather(batch(maxVotes))); got != 1 {
		t.Errorf("%d requests beside a full batch, want 1", got)
	}
}

// TestSubmitGivenUp: a caller that gives up before there is room in the queue
// is not waited for.
func TestSubmitGivenUp(t *testing.T) {
	e := &Engine{queue: queue{make(chan *request), make(chan struct{}), make(chan struct{})}}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.queue.change(gone, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	close(e.queue.closing)
	if err := e.queue.change(t.Context(), func() error { return nil }); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("while it closes: %v", err)
	}
}

// TestMatureSources: a node is mature once it knows who sends to it; nothing of that is
// known on the first days.
func TestMatureSources(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now, Tally: BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 20_000,
		Error: 1e-3}})
	if e.checker.Sources().Mature {
		t.Error("a node without mail is mature")
	}
	days := 0
	for ; days < 7 && !e.checker.Sources().Mature; days++ {
		for n := range 40 {
			report(t, e, bulkhead.Report{
				Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1000*days+n),
					bulkhead.NamedSignature(bulkhead.Sender, fmt.Sprintf("s%d.example", n))},
				ID: fmt.Sprint(days, n), Recipients: []string{fmt.Sprintf("u%d@here.example", n%9)},
			})
		}
		c.Advance(24 * time.Hour)
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}}) // which opens the day
	}
	if days == 0 || days == 7 {
		t.Errorf("mature after %d days", days)
	}
}

// TestAspects: a look returns what it is asked for and nothing else.
func TestAspects(t *testing.T) {
	e := open(t, Options{})
	s := []bulkhead.Signature{sig(bulkhead.Exact, 1)}
	report(t, e, bulkhead.Report{Signatures: s, Count: 5})
	report(t, e, bulkhead.Report{Signatures: s, Vote: bulkhead.Spam})
	e.checker.Measure()
	for what, want := range map[bulkhead.Aspect]bulkhead.Look{
		0: {}, bulkhead.Aside: {}, bulkhead.Counts: {Sightings: 5},
		bulkhead.Judgements:                   {Judged: bulkhead.JudgedSpam, Spam: 1},
		bulkhead.Counts | bulkhead.Judgements: {Sightings: 5, Judged: bulkhead.JudgedSpam, Spam: 1},
	} {
		out := make([]bulkhead.Look, 1)
		if err := e.Look(t.Context(), s, out, what); err != nil {
			t.Fatal(err)
		}
		got := out[0]
		if known := got.First != 0; known != (want != bulkhead.Look{}) || (got.Error > 0) != (want.Sightings > 0) ||
			(got.Confidence > 0) != (want.Spam > 0) {
			t.Errorf("aspects %b: %+v", what, got)
		}
		if got.First, got.Error, got.Confidence = 0, 0, 0; got != want {
			t.Errorf("aspects %b: %+v, want %+v", what, got, want)
		}
	}
}
