package attack

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// agedDays is for how many days an attacker reports real spam before it matters.
const agedDays = 30

const dayLength = 24 * time.Hour

// subscribers is how many recipients an established mailing has.
const subscribers = 50

// service is the account of the mail service whose users vote.
const service = "mail"

// A world is a node of the default policy, its honest users, an attacker, and a clock.
type world struct {
	*engine.Engine
	ctx     context.Context
	seconds atomic.Int64 // Unix time; the engine reads it when it likes
	voters  int
	honest  []bulkhead.Reporter
	attacks []bulkhead.Reporter
	aged    bool
	sent    int    // reports so far, for their IDs
	helped  int    // copies that other users have reported
	cover   int    // links beside the listed one
	learns  uint64 // bytes for words; 0: the node learns none
	seen    warnings
}

// open returns a world with honest users. voters is about how many will vote on a message:
// the errors of filters that are too small would distort the measurement.
func open(ctx context.Context, honest, voters int, learns uint64) (*world, error) {
	w := &world{ctx: ctx, voters: voters + honest + 100, learns: learns}
	w.seconds.Store(time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC).Unix())
	var err error
	if w.Engine, err = w.engine(); err != nil {
		return nil, err
	}
	if err := w.PutAccount(ctx, trust.Account{Name: service, Role: trust.Trusted, Weight: 1}); err != nil {
		return nil, err
	}
	for i := range honest {
		w.honest = append(w.honest, w.user("honest", i))
	}
	return w, nil
}

// now is the time in the world.
func (w *world) now() time.Time { return time.Unix(w.seconds.Load(), 0).UTC() }

// pass lets whole seconds pass.
func (w *world) pass(d time.Duration) { w.seconds.Add(int64(d / time.Second)) }

// engine returns an engine that goes by the clock of the world.
func (w *world) engine() (*engine.Engine, error) {
	keys := uint64(max(20_000, 60*w.voters))
	return engine.Open(w.ctx, engine.Options{
		Now:     w.now,
		Log:     slog.New(&w.seen),
		Tally:   engine.BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 50_000, Error: 1e-4},
		Block:   engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 8, Capacity: 20_000, Error: 1e-6},
		Reports: keys, Votes: 2 * keys, LearnBytes: w.learns,
	})
}

// warnings counts what a node's log says of votes.
type warnings struct{ n atomic.Int64 }

func (l *warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *warnings) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *warnings) WithGroup(string) slog.Handler                    { return l }
func (l *warnings) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "vote" {
			l.n.Add(1)
		}
		return true
	})
	return nil
}

func (w *world) close() error { return w.Close(context.WithoutCancel(w.ctx)) }

// user returns one of the users of the mail service: a voice of full weight.
func (w *world) user(name string, i int) bulkhead.Reporter {
	return bulkhead.Reporter{Account: service, User: fmt.Sprintf("%s%d", name, i)}
}

// network returns an address in the i'th network.
func network(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(20 + i>>16), byte(i >> 8), byte(i), 1})
}

// register makes n accounts in as many networks.
func (w *world) register(n int) error {
	for i := range n {
		from := network(i)
		a := trust.Account{
			Name: fmt.Sprintf("sock%d", i), Role: trust.Member, From: from, Created: w.now(),
			Weight: w.Accounts().Policy().StartWeight(from),
		}
		if err := w.PutAccount(w.ctx, a); err != nil {
			return err
		}
		w.attacks = append(w.attacks, bulkhead.Reporter{Account: a.Name, Addr: from})
	}
	return nil
}

// witnesses is how many accounts in other networks, vouched for by an administrator, report spam.
// It takes three to raise an account to the ceiling.
const witnesses = 3

// vouch makes the witnesses.
func (w *world) vouch() error {
	for i := range witnesses {
		if err := w.PutAccount(w.ctx, trust.Account{Name: witness(i).Account, Role: trust.Trusted, Weight: 1}); err != nil {
			return err
		}
	}
	return nil
}

func witness(day int) bulkhead.Reporter {
	n := day % witnesses
	return bulkhead.Reporter{Account: fmt.Sprintf("witness%d", n), Addr: network(1<<20 + n)}
}

// earn is a day on which an attacker earns weight: it reports spam that it sent itself,
// before an honest witness does.
func (w *world) earn(day int) error {
	spam := text(bulkhead.Exact, fmt.Sprintf("spam of day %d", day))
	for _, r := range append(w.attacks[:len(w.attacks):len(w.attacks)], witness(day)) {
		if err := w.report(bulkhead.Report{Signatures: []bulkhead.Signature{spam}, Vote: bulkhead.Spam, Reporter: r}); err !=
			nil {
			return err
		}
	}
	return nil
}

// live lets the days before the attack pass: what happens on each, then earning.
func (w *world) live(daily func(day int) error) error {
	for day := range agedDays {
		if daily != nil {
			if err := daily(day); err != nil {
				return err
			}
		}
		if w.aged {
			if err := w.earn(day); err != nil {
				return err
			}
		}
		w.pass(dayLength)
	}
	return nil
}

// vote has each of them vote on a message.
func (w *world) vote(by []bulkhead.Reporter, v bulkhead.Vote, m mail) error {
	for _, r := range by {
		vote := bulkhead.Report{Signatures: m.signatures(), Vote: v, Reporter: r, Source: m.source()}
		if err := w.report(vote); err != nil {
			return err
		}
	}
	return nil
}

// deliver delivers a message to recipients, to and on, through the node's own door.
func (w *world) deliver(m mail, recipients ...string) error {
	w.sent++
	return w.report(bulkhead.Report{
		Signatures: m.signatures(), Recipients: recipients, Count: uint32(len(recipients)), Source: m.source(),
		ID: fmt.Sprint("delivery ", w.sent),
	})
}

func (w *world) report(r bulkhead.Report) error {
	_, err := w.Report(w.ctx, r)
	return err
}

// everybody returns the addresses of the subscribers.
func everybody() (to []string) {
	for i := range subscribers {
		to = append(to, fmt.Sprintf("user%d@here.example", i))
	}
	return to
}

// class returns what a node says of a message.
func (w *world) class(m mail) (bulkhead.Class, error) {
	v, err := w.Check(w.ctx, bulkhead.Query{Signatures: m.signatures(), Source: m.source(), Terse: true})
	return v.Class, err
}
