package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// Twins are a durable node, which is started again now and then, and one of maps that
// never is.
type twins struct {
	t     *testing.T
	dir   string
	opts  Options
	node  *Engine
	store *store.Store
	exact *Engine
}

// both does the same with both, and compares the results.
func both[T any](p *twins, what string, do func(e *Engine) (T, error)) T {
	p.t.Helper()
	got, err := do(p.node)
	want, wantErr := do(p.exact)
	if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		p.t.Fatalf("%s: %+v, %v; want %+v, %v", what, got, err, want, wantErr)
	}
	return got
}

// restart stops the durable node, in good order or not, and starts it again.
func (p *twins) restart(clean bool) {
	p.t.Helper()
	if clean {
		if err := errors.Join(p.node.Close(p.t.Context()), p.store.Close()); err != nil {
			p.t.Fatal(err)
		}
	} else {
		if err := p.store.Close(); err != nil {
			p.t.Fatal(err)
		}
		p.node.Close(p.t.Context()) // into a closed store: the journal alone knows the last reports
	}
	if clean {
		p.opts.Past = p.node.Secrets()[1:]
	}
	p.node, p.store = openDurable(p.t, p.dir, p.opts, nil)
}

// rekey changes the secret of the durable node. The one of maps, whose generations open
// just then, keeps its own for everything: what was counted before is found nevertheless.
func (p *twins) rekey(secret filter.Secret) {
	p.t.Helper()
	had := p.node.Secrets()
	err := p.node.CanRekey(secret)
	over := len(p.node.counted(secret)) > MaxSecrets
	if over != errors.Is(err, bulkhead.ErrOverLimit) || !over && err != nil {
		p.t.Fatalf("may the secret change, of which %d are in use? %v", len(had), err)
	}
	if got := p.node.Rekey(p.t.Context(), secret); fmt.Sprint(got) != fmt.Sprint(err) {
		p.t.Fatalf("change of the secret: %v, was to be %v", got, err)
	}
	if err != nil {
		return
	}
	p.opts.Past, p.opts.Secret = append(had[:1:1], p.opts.Past...), secret
	if err := p.exact.queue.inTurn(p.t.Context(), func() {
		s := &keys.Secrets{All: p.exact.Secrets(), IDs: []uint64{secret.ID()}}
		p.exact.setSecrets(s)
		if err := p.exact.rotate(); err != nil {
			p.t.Error(err)
		}
	}); err != nil {
		p.t.Fatal(err)
	}
}

// sure returns a verdict without the fields that depend on filter errors.
func sure(v bulkhead.Verdict) bulkhead.Verdict {
	v.Error = 0
	v.Findings = slices.Clone(v.Findings)
	for i := range v.Findings {
		v.Findings[i].Error = 0
	}
	v.Reasons = slices.DeleteFunc(slices.Clone(v.Reasons), func(r string) bool {
		return strings.HasPrefix(r, "a filter error") || strings.HasPrefix(r, "held exactly")
	})
	return v
}

// compare compares all data of both.
func (p *twins) compare(messages []bulkhead.Query) {
	p.t.Helper()
	for n, q := range messages {
		both(p, fmt.Sprint("check of message ", n), func(e *Engine) (bulkhead.Verdict, error) {
			v, err := e.Check(p.t.Context(), q)
			return sure(v), err
		})
		for _, what := range []bulkhead.Aspect{bulkhead.Counts, bulkhead.Judgements, bulkhead.Counts | bulkhead.Judgements} {
			both(p, fmt.Sprint("look at message ", n, ", ", what), func(e *Engine) ([]bulkhead.Look, error) {
				looks := make([]bulkhead.Look, len(q.Signatures))
				err := e.Look(p.t.Context(), q.Signatures, looks, what)
				for i := range looks {
					looks[i].Error = 0
				}
				return looks, err
			})
		}
	}
	got, err := p.node.Accounts().Snapshot().Encode()
	want, wantErr := p.exact.Accounts().Snapshot().Encode()
	if err := errors.Join(err, wantErr); err != nil || !bytes.Equal(got, want) {
		p.t.Fatalf("accounts %s, want %s; %v", got, want, err)
	}
	both(p, "generations", func(e *Engine) (starts []time.Time, err error) {
		info := e.Info()
		for _, g := range slices.Concat(info.Tally, info.Blocklist) {
			starts = append(starts, g.Start)
		}
		return starts, nil
	})
}

// TestRestarts does all that doors and administrators do to a durable node that is
// stopped, and crashes, and to one of maps that never is: they answer the same. In half of
// the runs the durable node's network changes its secret again and again.
func TestRestarts(t *testing.T) {
	runs := uint64(4)
	if testing.Short() {
		runs = 1
	}
	for seed := range 2 * runs {
		rekeys := seed >= runs
		rng := rand.New(rand.NewPCG(seed, 21))
		c := newClock()
		policy := trust.DefaultPolicy()
		policy.Anonymous = 0.02
		opts := Options{
			Now: c.Now, Trust: policy, Votes: 60_000,
			Tally: BookOptions{Generation: 24 * time.Hour, Keep: 4, Capacity: 20_000, Error: 1e-6},
			Block: BookOptions{Generation: 7 * 24 * time.Hour, Keep: 3, Capacity: 20_000, Error: 1e-9},
		}
		p := &twins{t: t, dir: filepath.Join(t.TempDir(), "data"), opts: opts}
		p.node, p.store = openDurable(t, p.dir, opts, nil)
		opts.Exact = true
		p.exact = open(t, opts)
		addr := func(n, host int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, byte(n), byte(host)}) }
		account := func(a trust.Account) {
			both(p, "account "+a.Name, func(e *Engine) (int, error) { return 0, e.PutAccount(t.Context(), a) })
		}
		for _, name := range []string{"a", "b", "c"} {
			account(trust.Account{Name: name, Role: trust.Trusted, Weight: 1})
		}
		account(trust.Account{Name: "half", Role: trust.Trusted, Weight: 0.5})
		for i := range 4 {
			account(trust.Account{Name: fmt.Sprint("member", i), Role: trust.Member, Weight: 0.05, From: addr(i, 1),
				Created: c.Now()})
		}
		reporters := []bulkhead.Reporter{
			{Account: "a"}, {Account: "b", Addr: addr(9, 9)}, {Account: "c"}, {Account: "half"}, {Account: "member0"},
			{Account: "member1"}, {Account: "member2"},
			{Account: "member3"}, {}, {User: "ann"}, {User: "bob"}, {Account: "a", User: "ann"}, {Addr: addr(7, 1)},
			{Addr: addr(8, 1)}, {Account: "nobody"},
		}
		var messages []bulkhead.Query
		for n := range 6 {
			sigs := []bulkhead.Signature{sig(bulkhead.Exact, n), sig(bulkhead.PyzorDigest, n/2)}
			for i := range 4 {
				sigs = append(sigs, sig(bulkhead.Near, 100*(n/2)+i+n%2))
			}
			for _, x := range []struct {
				scheme bulkhead.Scheme
				name   string
			}{
				{bulkhead.Sender, fmt.Sprint("s", n%3, ".example")}, {bulkhead.Sender, fmt.Sprint("ann@s", n%3, ".example")},
				{bulkhead.Link, fmt.Sprint("l", n%4, ".example")},
				{bulkhead.Link, "all.example"}, {bulkhead.Network, "192.0.2.0/24"}, {bulkhead.Claim, "example"},
			} {
				sigs = append(sigs, bulkhead.NamedSignature(x.scheme, x.name))
			}
			messages = append(messages, bulkhead.Query{Signatures: sigs,
				Source: bulkhead.Source{Sender: fmt.Sprint("ann@s", n%3, ".example")}})
		}
		for range 160 {
			m := messages[rng.IntN(len(messages))]
			r := bulkhead.Report{Signatures: m.Signatures, Reporter: reporters[rng.IntN(len(reporters))],
				Vote: bulkhead.Vote(rng.IntN(int(bulkhead.NumVotes)))}
			switch n := rng.IntN(24); {
			case n < 8:
				r.Reporter, r.Vote, r.Source = bulkhead.Reporter{}, bulkhead.Sighting, m.Source
				for range rng.IntN(5) {
					r.Recipients = append(r.Recipients, fmt.Sprint("user", rng.IntN(9)))
				}
				if rng.IntN(3) == 0 {
					r.ID = fmt.Sprint(rng.IntN(5))
				}
				fallthrough
			case n < 16:
				r.Count, r.Trap = rng.Uint32N(3), n%5 == 0
				r.Source.Client = addr(rng.IntN(3), 5)
				both(p, fmt.Sprintf("report %+v", r), func(e *Engine) (bulkhead.Receipt, error) { return e.Report(t.Context(), r) })
			case n == 16:
				sigs := messages[rng.IntN(len(messages))].Signatures[:2]
				both(p, "count", func(e *Engine) (int, error) { return 0, e.Count(t.Context(), sigs, []uint32{1, 40}) })
			case n == 17 && rekeys:
				p.rekey(filter.Secret{byte(rng.Uint32()), byte(rng.Uint32()), 1})
			case n == 17:
				voices := []string{"account:a", "account:member0", trust.PersonVoice("ann"), trust.PersonVoice("a=ann"),
					trust.PersonVoice(trust.LocalPerson)}
				voice, since := voices[rng.IntN(len(voices))], c.Now().Add(-time.Duration(rng.IntN(72))*time.Hour)
				both(p, "undo "+voice, func(e *Engine) (Undone, error) { return e.UndoVotes(t.Context(), voice, since) })
			case n == 18:
				account(trust.Account{Name: "member0", Role: trust.Member, Weight: 0.1, Closed: rng.IntN(2) == 0})
			case n == 19:
				both(p, "remove", func(e *Engine) (int, error) { return 0, e.RemoveAccount(t.Context(), "member3") })
			case n == 20:
				c.Advance(time.Duration(1+rng.IntN(3*24)) * time.Hour)
				// The clock opens generations with the next report.
				both(p, "report", func(e *Engine) (bulkhead.Receipt, error) { return e.Report(t.Context(), r) })
			case n == 21:
				writeCheckpoint(t, p.node)
			default:
				p.restart(n == 22)
				p.compare(messages)
			}
			p.compare(messages[:1])
		}
		p.compare(messages)
		if err := errors.Join(p.node.Close(t.Context()), p.store.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
