// Package attack measures what it costs to abuse the trust in reporters. Attackers are
// programs that act against a real engine over simulated days.
//
//	for _, s := range attack.Scenarios() {
//		r, err := attack.Run(ctx, s, 5, 1000) // against five honest users
//		fmt.Println(s.Name, s.Means, r.Takes)
//	}
package attack

import (
	"context"
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// Means is what an attacker needs a number of.
type Means string

// The means of attackers.
const (
	Fresh     Means = "fresh accounts"    // registered today, each from a network of its own
	Aged      Means = "aged accounts"     // each of which earned weight on 30 days, in a network of its own
	Mailboxes Means = "mailboxes"         // at the mail service whose users vote: voices of full weight
	Traps     Means = "trap addresses"    // to which the attacker sends copies, each from another network
	Peers     Means = "peers of weight ¼" // servers that say what the attacker wants
	Changes   Means = "changes of mind"   // by one mailbox
	Sendings  Means = "own deliveries"    // of the attacker's mail to a mailbox of its own
	Inboxes   Means = "own mailboxes"     // to each of which the attacker has its mail delivered
	Names     Means = "verified names"    // each of which sends one copy of a campaign
	Spams     Means = "reported spams"    // with something that other mail shares, each from another name
	Links     Means = "cover links"       // to widely used domains, in one message
	Repeats   Means = "repeated votes"    // of one mailbox, one a day
)

// mail reports whether a means is mail that readers report honestly: the log cannot distinguish it from any
// other spam.
func (m Means) mail() bool { return m == Names || m == Spams || m == Links }

// A Scenario is an attacker, what it wants, and what it has.
type Scenario struct {
	Name  string `json:"name"` // what it wants
	Means Means  `json:"means"`

	learns bool // the node learns words
	// daily is what happens on each of the 30 days before; nil: nothing.
	daily func(w *world, day int) error
	// before is what honest users say before the attack, if anything.
	before func(w *world) error
	strike func(w *world, n int) error
	holds  func(w *world) (bool, error) // the attacker has what it wants
	// mend is what one more honest user says after the attack.
	mend func(w *world, by bulkhead.Reporter) error
}

// MaxMeans is the largest number of any means that an attacker may have.
const MaxMeans = 20_000

// A Result is the outcome of a scenario.
type Result struct {
	Scenario
	Honest int `json:"honest"` // users who are asked, and answer honestly
	// Takes is the smallest number of the means that succeeds; 0 if even Limit fails.
	Takes int `json:"takes"`
	Limit int `json:"limit"`
	// Visible is whether the log has a warning before the smallest success, or, of one that
	// takes a single one of the means or fails even with Limit, after it.
	Visible bool `json:"visible"`
	// Undone is how many votes of other honest users undo the smallest success; 0 if there
	// is no success, or twice as many votes as users and means together do not undo it.
	Undone int `json:"undone"`
}

// Run finds the smallest number of its means, up to limit (1 to [MaxMeans]), with which the
// attacker succeeds against a number of honest users. It searches by doubling and bisection,
// since more of the means never helps less.
func Run(ctx context.Context, s Scenario, honest, limit int) (Result, error) {
	r := Result{Scenario: s, Honest: honest, Limit: limit}
	if limit < 1 || limit > MaxMeans || honest < 0 || honest > MaxMeans {
		return r, fmt.Errorf("attack: %d against %d honest users, want 1 to %d against 0 to as many", limit, honest, MaxMeans)
	}
	most, least := 1, 0 // least does not succeed
	for {
		t, err := s.try(ctx, honest, most)
		if err != nil {
			return r, err
		}
		if !t.won || most == 1 {
			r.Visible = t.seen
		}
		if t.won {
			break
		}
		if most == limit {
			return r, nil
		}
		least, most = most, min(2*most, limit)
	}
	for most-least > 1 {
		middle := (least + most) / 2
		t, err := s.try(ctx, honest, middle)
		if err != nil {
			return r, err
		}
		if t.won {
			most = middle
		} else {
			least, r.Visible = middle, t.seen
		}
	}
	r.Takes = most
	t, err := s.try(ctx, honest, most)
	r.Undone = t.undone
	return r, err
}

// A trial is what became of an attack.
type trial struct {
	won    bool // it has what it wants
	seen   bool // the log has a warning of it
	undone int  // how many honest votes take away what it has; 0 if they do not
}

// try lets an attacker with n of its means do what it can.
func (s *Scenario) try(ctx context.Context, honest, n int) (t trial, err error) {
	w, err := s.prepared(ctx, honest, n)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	before := w.seen.n.Load()
	if err := s.strike(w, n); err != nil {
		return t, fmt.Errorf("attack: %s with %d %s: %w", s.Name, n, s.Means, err)
	}
	t.seen = w.seen.n.Load() > before
	if t.won, err = s.holds(w); err != nil || !t.won || s.mend == nil {
		return t, err
	}
	for i := range answers(honest, n) {
		if err := s.mend(w, w.user("helper", i)); err != nil {
			return t, err
		}
		held, err := s.holds(w)
		if err != nil {
			return t, err
		}
		if !held {
			t.undone = i + 1
			return t, nil
		}
	}
	return t, nil
}

// answers returns how many votes are tried to undo a success with n of the means.
func answers(honest, n int) int { return 2 * (honest + n + 1) }

// prepared returns a world on the day of the attack.
func (s *Scenario) prepared(ctx context.Context, honest, n int) (*world, error) {
	learns := uint64(0)
	if s.learns {
		learns = learnBytes
	}
	w, err := open(ctx, honest, n, learns)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(w, n); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (s *Scenario) prepare(w *world, n int) error {
	if err := w.vouch(); err != nil {
		return err
	}
	switch s.Means {
	case Aged:
		w.aged = true
		if err := w.register(n); err != nil {
			return err
		}
	case Mailboxes:
		for i := range n {
			w.attacks = append(w.attacks, w.user("mallory", i))
		}
	}
	var daily func(int) error
	if s.daily != nil {
		daily = func(day int) error { return s.daily(w, day) }
	}
	if daily != nil || w.aged {
		if err := w.live(daily); err != nil {
			return err
		}
	}
	if s.Means == Fresh {
		if err := w.register(n); err != nil {
			return err
		}
	}
	if s.before != nil {
		return s.before(w)
	}
	return nil
}

// A Standing is the weight of an account on a day of its life.
type Standing struct {
	Day    int     `json:"day"`
	Weight float64 `json:"weight"`
}

// Betrayal returns what an account weighs on each of 30 days on which it earns weight, and on
// each of the 60 days after it has reported a number of newsletters (lies, 1 to 100), which
// users of full weight took off the list again. It goes on earning.
func Betrayal(ctx context.Context, lies int) (days []Standing, err error) {
	if lies < 1 || lies > 100 {
		return nil, fmt.Errorf("attack: %d lies, want 1 to 100", lies)
	}
	w, err := open(ctx, 2, lies, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := errors.Join(w.vouch(), w.register(1)); err != nil {
		return nil, err
	}
	w.aged = true
	note := func(int) error {
		days = append(days, Standing{len(days), w.Accounts().Worth(w.attacks[0].Account)})
		return nil
	}
	if err := w.live(note); err != nil {
		return nil, err
	}
	for i := range lies {
		if err := w.betray(letter(fmt.Sprint("issue ", i)).from("news", "paper.example")); err != nil {
			return nil, err
		}
	}
	for day := agedDays; day < 3*agedDays; day++ {
		if err := errors.Join(note(day), w.earn(day)); err != nil {
			return nil, err
		}
		w.pass(dayLength)
	}
	return days, nil
}

// betray lets the attacker and a user whom it deceived report a message, and another user
// take it off the list again.
func (w *world) betray(m mail) error {
	return errors.Join(
		w.vote(w.attacks, bulkhead.Spam, m), w.vote(w.honest[:1], bulkhead.Spam, m), w.vote(w.honest[1:], bulkhead.Revocation,
			m),
	)
}

// start is what a fresh account weighs.
func start(p trust.Policy) float64 { return p.StartWeight(network(0)) }
