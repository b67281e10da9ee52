package resolve

import (
	"encoding/binary"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

var maker = keys.Maker{Secret: filter.Secret{1, 2, 3}}

const day = 24 * time.Hour

// books is a resolver and the books that its decisions go to: the writer without a disk and
// a journal.
type books struct {
	t        testing.TB
	now      time.Time
	index    uint64 // of the batch
	accounts *trust.Book
	tally    *book.TallyKeeper
	block    *book.BlockKeeper
	view     evidence.View
	r        *Resolver
}

var (
	tallyOf = book.Options{Generation: day, Keep: 7, Capacity: 50_000, Error: 1e-4}
	blockOf = book.Options{Generation: 7 * day, Keep: 8, Capacity: 50_000, Error: 1e-8}
)

func newBooks(t testing.TB) *books { return newBooksOf(t, true, blockOf.Capacity) }

func newBooksOf(t testing.TB, exact bool, votes uint64) *books {
	log := slog.New(slog.DiscardHandler)
	b := &books{
		t: t, now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), accounts: trust.NewBook(trust.DefaultPolicy()),
		tally: book.NewTally(tallyOf, 50_000, maker.Secret.ID(), exact, log),
		block: book.NewBlocklist(blockOf, votes, 50_000, maker.Secret.ID(), exact, log),
		view:  evidence.View{Remote: &replica.View{}},
	}
	b.r = New(Options{
		Keys: maker, Accounts: b.accounts, Day: uint64(day / time.Second),
		Policy:    func() verdict.Policy { return verdict.Policy{Promotion: 1, NearMatch: 2} },
		Threshold: func() uint32 { return 20 },
		Now:       func() time.Time { return b.now },
	})
	b.pass(0)
	return b
}

// pass moves the clock.
func (b *books) pass(d time.Duration) {
	b.t.Helper()
	for end := b.now.Add(d); ; b.now = b.now.Add(day) {
		if b.now.After(end) {
			b.now = end
		}
		tally, err := b.tally.Plan(b.view.Tally, b.now, false)
		if err != nil {
			b.t.Fatal(err)
		}
		block, err := b.block.Plan(b.view.Block, b.now, false)
		if err != nil {
			b.t.Fatal(err)
		}
		if b.view.Tally, err = b.tally.Apply(b.view.Tally, tally); err != nil {
			b.t.Fatal(err)
		}
		if b.view.Block, err = b.block.Apply(b.view.Block, block); err != nil {
			b.t.Fatal(err)
		}
		if !b.now.Before(end) {
			return
		}
	}
}

// changeSecret changes the network's secret: all that is new is counted with the n'th one.
func (b *books) changeSecret(n byte, past ...filter.Secret) {
	b.t.Helper()
	secrets := keys.NewSecrets(filter.Secret{n}, past...)
	if err := secrets.Check(); err != nil {
		b.t.Fatal(err)
	}
	before := maker
	b.t.Cleanup(func() { maker = before })
	maker = secrets.Maker()
	b.r.SetKeys(secrets.Maker())
	b.tally.SetKey(secrets.IDs[0])
	b.block.SetKey(secrets.IDs[0])
	b.view.KeyIDs = secrets.IDs
	b.pass(0)
}

func (b *books) put(name string, role trust.Role, weight float64) {
	b.t.Helper()
	if err := b.accounts.Put(trust.Account{Name: name, Role: role, Weight: weight}); err != nil {
		b.t.Fatal(err)
	}
	b.r.AccountsChanged()
}

func (b *books) sources() *evidence.Sources { return evidence.NewSources(b.view, 1) }

func (b *books) begin() { b.r.Begin(b.view, b.sources()) }

// message makes a message of a report.
func message(r bulkhead.Report) *Message {
	m := &Message{Report: r}
	for i := range r.Signatures {
		m.Keys = append(m.Keys, maker.Base(&r.Signatures[i]))
	}
	m.Past = maker.Past
	return m
}

// report decides and applies a report in a batch of its own.
func (b *books) report(r bulkhead.Report) bulkhead.Receipt {
	b.t.Helper()
	return b.batch(message(r))[0]
}

// seen reports a sighting of a message that was judged as seen says.
func (b *books) seen(seen Seen, r bulkhead.Report) bulkhead.Receipt {
	b.t.Helper()
	m := message(r)
	m.Seen = seen
	return b.batch(m)[0]
}

// batch decides several reports together, and then applies the decisions.
func (b *books) batch(messages ...*Message) (receipts []bulkhead.Receipt) {
	b.t.Helper()
	b.begin()
	for _, m := range messages {
		receipt, err := b.r.Report(m)
		if err != nil {
			b.t.Fatal(err)
		}
		receipts = append(receipts, receipt)
	}
	b.apply()
	return receipts
}

func (b *books) apply() {
	b.index++
	d := b.r.Decisions()
	if g := b.view.Tally.Find(d.TallyGen); g != nil {
		g.Counts.AddBatch(b.index, d.Counts.Keys, d.Counts.N, nil)
		g.Unique.SetBatch(b.index, d.Unique, nil)
	}
	if g := b.view.Block.Find(d.BlockGen); g != nil {
		g.Names.AddBatch(b.index, d.Names.Keys, d.Names.N, nil)
		g.Weights.AddBatch(b.index, d.Weights.Keys, d.Weights.N, nil)
		g.Votes.SetBatch(b.index, d.Voted, nil)
		g.Spam.SetBatch(b.index, d.Spam, nil)
		g.Revoked.SetBatch(b.index, d.Revoked, nil)
		if g.Floor > 0 {
			g.PublishedSpam.SetBatch(b.index, d.PublishedSpam, nil)
			g.PublishedRevoked.SetBatch(b.index, d.PublishedRevoked, nil)
		}
	}
	for _, l := range d.Late {
		if g := b.view.Block.Find(l.Gen); g != nil {
			g.Weights.AddBatch(b.index, l.Keys, l.N, nil)
		}
	}
	for _, c := range d.Credits {
		b.accounts.Credit(c)
	}
	if b.r.opts.Learned != nil {
		if err := b.r.opts.Learned.Apply(b.index, &d.Learned, false); err != nil {
			b.t.Fatal(err)
		}
	}
}

// read returns the record of a key.
func (b *books) read(k filter.Key, wants evidence.Wants) evidence.Record {
	return b.readAll([]filter.Key{k}, wants)[0]
}

// readAll returns the records of several keys.
func (b *books) readAll(all []filter.Key, wants evidence.Wants) []evidence.Record {
	r := evidence.Reader{Keys: maker, Day: uint64(day / time.Second), Now: b.r.reader.Now}
	r.Begin(b.sources())
	asks, out := make([]evidence.Ask, len(all)), make([]evidence.Record, len(all))
	for i, k := range all {
		asks[i] = evidence.Ask{Key: k, Wants: wants}
	}
	r.Read(asks, out)
	return out
}

// of returns the full record of a signature.
func (b *books) of(s bulkhead.Signature) evidence.Record {
	return b.read(maker.Base(&s), evidence.Counts|evidence.Judgement|evidence.Standing|evidence.Names)
}

// pair returns the weights of a text with a context.
func (b *books) pair(text, context bulkhead.Signature) evidence.Record {
	return b.read(maker.Pair(maker.Base(&text), maker.Base(&context)), evidence.Judgement)
}

func sig(scheme bulkhead.Scheme, n int) bulkhead.Signature {
	var sum [20]byte
	binary.BigEndian.PutUint64(sum[:], uint64(n)*0x9e3779b97f4a7c15+1)
	return bulkhead.MustSignature(scheme, sum[:])
}

func by(name string, vote bulkhead.Vote, sigs ...bulkhead.Signature) bulkhead.Report {
	return bulkhead.Report{Signatures: sigs, Vote: vote, Reporter: bulkhead.Reporter{Account: name}}
}

func link(name string) bulkhead.Signature    { return bulkhead.NamedSignature(bulkhead.Link, name) }
func sender(name string) bulkhead.Signature  { return bulkhead.NamedSignature(bulkhead.Sender, name) }
func network(name string) bulkhead.Signature { return bulkhead.NamedSignature(bulkhead.Network, name) }

// text returns the bands of a text.
func text(n int) (bands []bulkhead.Signature) {
	for i := range 20 {
		bands = append(bands, sig(bulkhead.Near, 100*n+i))
	}
	return bands
}

// seeds returns how many random runs to make: n, or half as many with -short.
func seeds(n int) int {
	if testing.Short() {
		return n / 2
	}
	return n
}

// addrIn returns an address of the n'th network.
func addrIn(n byte) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, n, 1}) }
