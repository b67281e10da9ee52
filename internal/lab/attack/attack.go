// Package attack measures what it costs to abuse the trust in reporters, against
// a real engine.
//
//	for _, s := range attack.Scenarios() {
//		r, err := attack.Run(ctx, s, 1000)
//		fmt.Println(s.Name, r.Accounts)
//	}
package attack

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A Scenario is somebody who makes accounts in order to list a newsletter.
type Scenario struct {
	Name string `json:"scenario"`
	// Networks says that every account comes from a network of its own.
	Networks bool `json:"networks"`
	// Subscribers is how many members who have earned trust vote ham.
	Subscribers int `json:"subscribers"`
	// Deceived says that an account to which an administrator gave half the weight
	// that lists has reported the newsletter, by mistake.
	Deceived bool `json:"deceived"`
}

// Scenarios returns those that the project is judged by.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "one network"},
		{Name: "a network each", Networks: true},
		{Name: "a network each, 5 subscribers object", Networks: true, Subscribers: 5},
		{Name: "a network each, a trusted reporter is mistaken", Networks: true, Deceived: true},
	}
}

// MaxAccounts is the most accounts that an attacker may have.
const MaxAccounts = 60_000

// A Result is the outcome of an attack.
type Result struct {
	Scenario
	// Accounts is how many accounts list the newsletter; 0: not even Limit.
	Accounts int `json:"accounts"`
	Limit    int `json:"limit"`
}

// An attacked is an engine and the newsletter in question.
type attacked struct {
	*engine.Engine
	newsletter []bulkhead.Signature
}

// Run lets up to limit accounts for whom nobody vouches, 1 to [MaxAccounts], report a
// newsletter as spam one after the other, with the largest count, until it is called
// spam or bulk.
func Run(ctx context.Context, s Scenario, limit int) (r Result, err error) {
	if limit < 1 || limit > MaxAccounts {
		return Result{}, fmt.Errorf("attack: %d accounts, want 1 to %d", limit, MaxAccounts)
	}
	began := time.Now()
	e, err := engine.Open(ctx, engine.Options{
		Now:   func() time.Time { return began }, // all in one generation
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 200_000, Error: 1e-3},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 10_000, Error: 1e-6},
	})
	if err != nil {
		return Result{}, err
	}
	defer func() {
		if closeErr := e.Close(context.WithoutCancel(ctx)); err == nil {
			err = closeErr
		}
	}()
	newsletter, err := bulkhead.NewSignature(bulkhead.Exact, []byte("a newsletter of some"))
	if err != nil {
		return Result{}, err
	}
	a := attacked{e, []bulkhead.Signature{newsletter}}
	for i := range s.Subscribers {
		member := trust.Account{Name: fmt.Sprintf("subscriber%d", i), Role: trust.Member, Weight: 0.05, Confirmed: 80}
		if _, err := a.vote(ctx, member, bulkhead.Ham); err != nil {
			return Result{}, err
		}
	}
	if s.Deceived {
		half := trust.Account{Name: "mistaken", Role: trust.Trusted, Weight: 0.5 * e.Accounts().Policy().Promotion}
		if _, err := a.vote(ctx, half, bulkhead.Spam); err != nil {
			return Result{}, err
		}
	}
	r = Result{Scenario: s, Limit: limit}
	for n := 1; n <= limit; n++ {
		from := netip.AddrFrom4([4]byte{198, 18, 0, byte(n)})
		if s.Networks {
			from = netip.AddrFrom4([4]byte{198, byte(n >> 8), byte(n), 1})
		}
		fresh := trust.Account{Name: fmt.Sprintf("sock%d", n), Role: trust.Member, From: from, Weight: e.Accounts().Policy().StartWeight(from)}
		if n%2 == 0 {
			fresh.Confirmed = 1000 // what it has earned for long lists nothing either
		}
		listed, err := a.vote(ctx, fresh, bulkhead.Spam)
		if err != nil {
			return Result{}, err
		}
		if listed {
			r.Accounts = n
			return r, nil
		}
	}
	return r, nil
}

// vote makes an account and its vote, and returns whether the newsletter is
// unwanted then.
func (a *attacked) vote(ctx context.Context, by trust.Account, vote bulkhead.Vote) (listed bool, err error) {
	if err := a.PutAccount(ctx, by); err != nil {
		return false, err
	}
	reporter := bulkhead.Reporter{Account: by.Name, Addr: by.From}
	if _, err := a.Report(ctx, bulkhead.Report{Signatures: a.newsletter, Vote: vote, Reporter: reporter, Count: bulkhead.Many}); err != nil {
		return false, err
	}
	v, err := a.Check(ctx, bulkhead.Query{Signatures: a.newsletter})
	return v.Unwanted(), err
}
