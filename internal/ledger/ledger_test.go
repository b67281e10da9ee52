package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// named returns the account with the given name, each of whose counters has a name of its own. A
// part that cannot exist has no name.
func named(name string) *Account {
	return &Account{Name: func(p Part) bulkhead.Signature {
		if p.Kind > TakenSince || p.Epoch > 23 || p.Epoch > 0 && p.Kind < AddedSince {
			panic(fmt.Sprintf("there is no %+v", p))
		}
		return bulkhead.MustSignature(bulkhead.Exact, fmt.Appendf(nil, "%s %d %d", name, p.Kind, p.Epoch))
	}}
}

// A desk performs the operations of a front door on accounts in a house.
type desk struct {
	fatal func(...any)
	house *prototest.Tally
}

func (d desk) check(err error) {
	if err != nil {
		d.fatal(err)
	}
}

func (d desk) read(a *Account) *Account {
	d.check(Read(context.Background(), d.house, []*Account{a}))
	return a
}

func (d desk) count(r *Raising) {
	for _, n := range r.N {
		if n < 1 || n > bulkhead.Many {
			d.fatal("raised by", n)
		}
	}
	d.check(d.house.Count(context.Background(), r.Sigs, r.N))
}

func (d desk) add(a *Account, n uint32) {
	var r Raising
	r.Add(d.read(a), n)
	d.count(&r)
}

func (d desk) take(a *Account, n uint32) {
	var r Raising
	r.Take(d.read(a), n)
	d.count(&r)
}

func (d desk) delete(a *Account) (epoch int) {
	fresh, err := Fresh(context.Background(), d.house, []*Account{d.read(a)})
	d.check(err)
	var r Raising
	r.Delete(fresh[0], a)
	d.count(&r)
	return fresh[0]
}

// TestDeletesAgainstMap adds, deletes and lets generations pass at random. It compares the result
// with maps that really delete: the additions since the last delete, in the live generations.
func TestDeletesAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.IntRange(1, 6).Draw(t, "keep")
		d := desk{t.Fatal, prototest.NewTally(keep)}
		names := []string{"ann", "bob", "eve"}
		oracle := make([]map[string]uint32, keep) // the newest last
		for i := range oracle {
			oracle[i] = make(map[string]uint32)
		}
		deletes := make([]map[string]int, keep)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			living := 0
			for _, g := range deletes {
				living += g[name]
			}
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 5:
				n := rapid.Uint32Range(1, 2000).Draw(t, "n")
				d.add(named(name), n)
				oracle[keep-1][name] += n
			case op < 7 && living < MaxEpochs/2:
				if epoch := d.delete(named(name)); epoch == MaxEpochs {
					t.Fatalf("no number left after %d deletes", living)
				}
				for _, g := range oracle {
					delete(g, name)
				}
				if deletes[keep-1] == nil {
					deletes[keep-1] = make(map[string]int)
				}
				deletes[keep-1][name]++
			default:
				d.house.Age()
				oracle = append(oracle[1:], make(map[string]uint32))
				deletes = append(deletes[1:], nil)
			}
			accounts := []*Account{named("ann"), named("bob"), named("eve")}
			d.check(Read(context.Background(), d.house, accounts))
			for i, a := range accounts {
				want := uint32(0)
				for _, g := range oracle {
					want += g[names[i]]
				}
				if a.Left() != want {
					t.Fatalf("%s: %d left of %+v, want %d", names[i], a.Left(), a.Balance, want)
				}
			}
		}
	})
}

// TestTakesAgainstMap also subtracts, within one generation: the difference since the last delete
// is left. If more is subtracted than is left, the next addition compensates for it, as long as
// nothing was deleted.
func TestTakesAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := desk{t.Fatal, prototest.NewTally(1)}
		left, deleted := 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.IntRange(1, 50).Draw(t, "n")
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0, 1:
				d.add(named("ann"), uint32(n))
				if deleted == 0 {
					left = max(left, 0)
				}
				left += n
			case 2, 3:
				d.take(named("ann"), uint32(n))
				left -= n
			default:
				// The deletes may go beyond those with numbers, since nothing is forgotten here.
				if epoch := d.delete(named("ann")); epoch != min(deleted, MaxEpochs) {
					t.Fatalf("delete %d has number %d", deleted, epoch)
				}
				if deleted++; deleted <= MaxEpochs || left > 0 {
					left = 0
				}
			}
			if a := d.read(named("ann")); a.Left() != uint32(max(left, 0)) {
				t.Fatalf("%d left of %+v, want %d", a.Left(), a.Balance, left)
			}
		}
	})
}

// TestTakenFromTheForgotten checks that later additions count in full when counts are forgotten
// before the subtraction from them.
func TestTakenFromTheForgotten(t *testing.T) {
	d := desk{t.Fatal, prototest.NewTally(2)}
	d.add(named("ann"), 100)
	d.house.Age()
	d.take(named("ann"), 60)
	d.house.Age()
	if a := d.read(named("ann")); a.Left() != 0 || a.Taken != 60 {
		t.Fatalf("%+v", a.Balance)
	}
	d.add(named("ann"), 7)
	if a := d.read(named("ann")); a.Left() != 7 {
		t.Errorf("%d left of %+v, want 7", a.Left(), a.Balance)
	}
}

// TestDeletedAtOnce lets several nodes delete the same thing, each before it learns of the others,
// and checks that later additions count from 0.
func TestDeletedAtOnce(t *testing.T) {
	for nodes := range 5 {
		for before := range MaxEpochs {
			d := desk{t.Fatal, prototest.NewTally(1)}
			for range before {
				d.delete(named("ann"))
			}
			d.add(named("ann"), 1000)
			var at Raising
			for range nodes {
				a := d.read(named("ann"))
				at.Delete(before, a)
			}
			d.count(&at)
			d.add(named("ann"), 3)
			want := uint32(3)
			if nodes == 0 {
				want = 1003
			}
			if a := d.read(named("ann")); a.Left() != want || a.Deletes >= bulkhead.Many {
				t.Errorf("%d nodes after %d deletes: %d left of %+v, want %d", nodes, before, a.Left(), a.Balance, want)
			}
		}
	}
}

// TestDeletedOften checks that a delete works even when no number is left.
func TestDeletedOften(t *testing.T) {
	d := desk{t.Fatal, prototest.NewTally(1)}
	for i := range MaxEpochs + 3 {
		d.add(named("ann"), 5)
		if epoch := d.delete(named("ann")); epoch != min(i, MaxEpochs) {
			t.Errorf("delete %d has number %d", i, epoch)
		}
		if a := d.read(named("ann")); a.Left() != 0 {
			t.Errorf("after delete %d: %d left of %+v", i, a.Left(), a.Balance)
		}
		d.add(named("ann"), 3)
		if a := d.read(named("ann")); a.Left() != 3 {
			t.Errorf("3 added after delete %d: %d left of %+v", i, a.Left(), a.Balance)
		}
	}
	// An account that was never deleted may lack a free number as well.
	d.add(named("bob"), 5)
	var r Raising
	r.Delete(MaxEpochs, d.read(named("bob")))
	d.count(&r)
	if a := d.read(named("bob")); a.Left() != 0 || a.Deletes != 0 {
		t.Errorf("%d left of %+v", a.Left(), a.Balance)
	}
}

// TestTogether deletes two accounts that share the counter of deletes.
func TestTogether(t *testing.T) {
	d := desk{t.Fatal, prototest.NewTally(3)}
	pair := func() (a, b *Account) {
		a, b = named("targets"), named("claims")
		of := a.Name
		own := b.Name
		b.Name = func(p Part) bulkhead.Signature {
			if p.Kind == Deletes {
				return of(p)
			}
			return own(p)
		}
		return d.read(a), d.read(b)
	}
	want := func(when string, left ...uint32) {
		t.Helper()
		a, b := pair()
		if got := []uint32{a.Left(), b.Left()}; !slices.Equal(got, left) {
			t.Errorf("%s: %d left, want %d", when, got, left)
		}
	}
	a, b := pair()
	d.add(a, 10)
	d.add(b, 2)
	want("added", 10, 2)
	d.house.Age()
	var r Raising
	a, b = pair()
	r.Delete(0, a, b)
	d.count(&r)
	want("deleted", 0, 0)
	if a, _ := pair(); a.Deletes != 1 {
		t.Errorf("deletes %b, want one", a.Deletes)
	}
	a, b = pair()
	d.add(a, 4)
	d.add(b, 1)
	for range 3 {
		want("added again", 4, 1)
		d.house.Age()
	}
	want("forgotten", 0, 0)
}

// TestShownByError raises one counter alone, as an error of a filter shows it.
func TestShownByError(t *testing.T) {
	for _, p := range []Part{{Kind: Deletes}, {Kind: AddedSince}, {Kind: TakenSince}} {
		d := desk{t.Fatal, prototest.NewTally(1)}
		d.house.Add(named("ann").Name(p), 3)
		d.add(named("ann"), 5)
		if a := d.read(named("ann")); a.Left() != 5 {
			t.Errorf("%+v shown: %d left of %+v, want 5", p, a.Left(), a.Balance)
		}
	}
}

func TestFresh(t *testing.T) {
	d := desk{t.Fatal, prototest.NewTally(1)}
	counted := func(name string, epochs ...uint8) {
		for _, e := range epochs {
			d.house.Add(named(name).Name(Part{AddedSince, e}), 1)
		}
	}
	deleted := func(name string, deletes uint32) { d.house.Add(named(name).Name(Part{Kind: Deletes}), deletes) }
	all := make([]uint8, MaxEpochs)
	for e := range all {
		all[e] = uint8(e)
	}
	counted("skip", 0, 1, 3)
	deleted("beyond", 1<<4|1)
	deleted("both", 1<<2)
	counted("both", 3, 4)
	counted("none", all...)
	deleted("last", 1<<(MaxEpochs-2))
	deleted("full", 1<<(MaxEpochs-1))
	deleted("over", 1<<MaxEpochs)
	names := []string{"new", "skip", "beyond", "full", "both", "none", "last", "over", "new"}
	var accounts []*Account
	for _, name := range names {
		accounts = append(accounts, d.read(named(name)))
	}
	got, err := Fresh(t.Context(), d.house, accounts)
	if want := []int{0, 2, 5, MaxEpochs, 5, MaxEpochs, MaxEpochs - 1, MaxEpochs, 0}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("Fresh of %v: %v, %v, want %v", names, got, err, want)
	}
}

// TestFull checks that Before leaves a full counter unchanged, and that sums stay in range.
func TestFull(t *testing.T) {
	b := Balance{Added: bulkhead.Many, AddedSince: 5}.Before(3)
	if b.Added != bulkhead.Many || b.AddedSince != 2 {
		t.Errorf("before 3 more: %+v", b)
	}
	if b = (Balance{Added: 2, AddedSince: bulkhead.Many - 1}).Before(3); b.Added != 0 || b.AddedSince != bulkhead.Many-4 {
		t.Errorf("before 3 more: %+v", b)
	}
	a := named("ann")
	a.Balance = Balance{Taken: bulkhead.Many - 1}
	var r Raising
	if r.Add(a, 5); len(r.N) != 1 || r.N[0] != bulkhead.Many {
		t.Errorf("raised by %d, want %d at most", r.N, bulkhead.Many)
	}
	if r.AddSince(a, 5); len(r.N) != 1 {
		t.Error("counted since a delete that never was")
	}
	if r.Reset(); len(r.Sigs) != 0 || len(r.N) != 0 {
		t.Errorf("%d counters after Reset", len(r.Sigs))
	}
}

func TestFaults(t *testing.T) {
	house := prototest.NewTally(1)
	fault := errors.New("disk on fire")
	house.Err = fault
	accounts := []*Account{named("ann")}
	if err := Read(t.Context(), house, accounts); !errors.Is(err, fault) {
		t.Errorf("Read: %v", err)
	}
	if fresh, err := Fresh(t.Context(), house, accounts); !errors.Is(err, fault) || fresh != nil {
		t.Errorf("Fresh: %v, %v", fresh, err)
	}
	m := NewMark(accounts[0].Name(Part{}))
	house.Add(accounts[0].Name(Part{}), 1)
	if err := m.Refresh(t.Context(), house); !errors.Is(err, fault) || m.Seen() {
		t.Errorf("Refresh: %v, seen %v", err, m.Seen())
	}
}

// TestEveryFault checks that the caller gets the error of any failing look-up, including for
// accounts with deletes, which take further look-ups.
func TestEveryFault(t *testing.T) {
	house := &prototest.Ailing{Tally: prototest.NewTally(4)}
	d := desk{t.Fatal, house.Tally}
	a, b := named("ann"), named("bob")
	for range 3 {
		d.add(a, 5)
		d.delete(a)
	}
	d.add(a, 2)
	d.add(b, 7)
	house.Test(t, "Read", func() error { return Read(t.Context(), house, []*Account{a, b}) })
	if a.Left() != 2 || b.Left() != 7 {
		t.Errorf("%d and %d are left, want 2 and 7", a.Left(), b.Left())
	}
	house.Test(t, "Fresh", func() error { _, err := Fresh(t.Context(), house, []*Account{a, b}); return err })
}

// TestMark checks that another node that follows the mark notices a subtraction, and that its
// look-ups do not count as clients' look-ups.
func TestMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		house := prototest.NewTally(1)
		sig := named("mark").Name(Part{})
		here, there := NewMark(sig), NewMark(sig)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { there.Follow(ctx, house, time.Second); close(ended) }()
		bubble.Advance(5 * time.Second)
		if here.Seen() || there.Seen() {
			t.Error("seen before anything was taken")
		}
		here.Set()
		var r Raising
		here.Raise(&r)
		if !slices.Equal(r.N, []uint32{1}) {
			t.Errorf("raised by %d, want 1", r.N)
		}
		if err := house.Count(ctx, r.Sigs, r.N); err != nil {
			t.Fatal(err)
		}
		<-ended
		if !here.Seen() || !there.Seen() {
			t.Errorf("seen here %v, there %v", here.Seen(), there.Seen())
		}
		looks, checks := house.Looks()
		if checks != 0 || looks < 5 {
			t.Errorf("%d looks, %d of them checks", looks, checks)
		}
		if there.Follow(ctx, house, time.Second); there.Refresh(ctx, house) != nil {
			t.Error("a mark that was seen asks again")
		}
		if again, _ := house.Looks(); again != looks {
			t.Errorf("%d more looks for a mark that was seen", again-looks)
		}
		cancel()
		NewMark(named("other").Name(Part{})).Follow(ctx, house, time.Second) // ends at once
	})
}
