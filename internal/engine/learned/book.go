package learned

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
)

// The kinds of counts of a token.
const (
	reportedKind  = 1
	withdrawnKind = 2
	deliveredKind = 3
)

const (
	// Generations is the number of generations that are kept.
	Generations = 4
	// messagesEach is the number of messages from which a generation is full. They are days to months
	// of mail, so words that went out of use are forgotten.
	messagesEach = 50_000
	// countWrong is the share of tokens whose count may be too high when a generation is full. A score
	// rests on many tokens, so a few wrong counts matter little, and a key takes less than 4 bytes.
	countWrong = 1e-2
	// bytesEach is the memory of a key at this rate.
	bytesEach = 4
)

// A Spec describes the array of a generation.
type Spec struct {
	Start    uint64          `json:"start"` // Unix seconds
	Geometry filter.Geometry `json:"counts"`
}

// A Generation is the mail that was learnt in one period.
type Generation struct {
	Spec
	Counts *arrays.Counting

	reported, withdrawn, delivered atomic.Int64 // messages
}

// Options are the settings of a [Book].
type Options struct {
	// Bytes bounds the memory, in bytes. Three quarters are for the arrays, and one quarter is for the
	// tokens of recent messages. 0: nothing is learnt.
	Bytes uint64
	// MessagesEach is the number of messages from which a generation is full; 0 means 50,000.
	MessagesEach uint64
	// Learnt is called with each message that was learnt, in the writer's goroutine; nil: with none.
	Learnt func(lesson.Learnt)
}

// A Book is what a node has learnt. [Book.Score] and [Book.State] may be called concurrently with all
// other methods. These are called by the writer alone.
type Book struct {
	opts     Options
	live     atomic.Pointer[[]*Generation] // newest first
	share    atomic.Uint64                 // in millionths, see [learn.Totals]
	shown    atomic.Uint64                 // reports that showed a share
	others   atomic.Pointer[learn.Others]  // what peers know; nil: nothing
	seed     maphash.Seed                  // of the names of persons
	messages memory
	batch    batch
}

// New returns an empty book.
func New(o Options) *Book {
	if o.MessagesEach == 0 {
		o.MessagesEach = messagesEach
	}
	b := &Book{opts: o, messages: newMemory(o.Bytes / 4), seed: maphash.MakeSeed()}
	b.live.Store(new([]*Generation))
	return b
}

// On reports whether the node learns.
func (b *Book) On() bool { return b.opts.Bytes > 0 }

// Live returns the generations, newest first. The caller must not change them.
func (b *Book) Live() []*Generation { return *b.live.Load() }

func (b *Book) find(start uint64) *Generation {
	for _, g := range b.Live() {
		if g.Start == start {
			return g
		}
	}
	return nil
}

// capacity returns the number of keys of a generation.
func (b *Book) capacity() uint64 { return max(1<<10, b.opts.Bytes*3/4/Generations/bytesEach) }

// spec returns the next generation.
func (b *Book) spec(start, keyID uint64) (Spec, error) {
	g, err := filter.SizeFor(filter.Target{Kind: filter.Cells, Signatures: b.capacity(), Error: filter.CountWrong,
		Rate: countWrong, KeyID: keyID})
	return Spec{start, g}, err
}

// Make returns an empty generation.
func Make(s Spec) (*Generation, error) {
	counts, err := arrays.NewCounting(s.Geometry)
	if err != nil {
		return nil, err
	}
	counts.SetGeneration(s.Start)
	return &Generation{Spec: s, Counts: counts}, nil
}

// open adds a generation, unless it is there or too old to be kept.
func (b *Book) open(s Spec) error {
	if live := b.Live(); len(live) > 0 && live[0].Start >= s.Start {
		return nil
	}
	g, err := Make(s)
	if err != nil {
		return err
	}
	b.put(g)
	return nil
}

// put makes a generation the newest.
func (b *Book) put(g *Generation) {
	live := slices.Concat([]*Generation{g}, b.Live())
	live = live[:min(len(live), Generations)]
	b.live.Store(&live)
}

// full reports whether a generation takes no further messages.
func (b *Book) full(g *Generation) bool {
	return uint64(g.reported.Load()+g.delivered.Load()) >= b.opts.MessagesEach || g.Counts.Keys() >= b.capacity()
}

// A State is what a book has learnt, for administrators.
type State struct {
	Reported  int64   `json:"reported"`  // messages
	Delivered int64   `json:"delivered"` // messages
	Known     float64 `json:"known"`     // reports of the node and its peers, as far as they count in scores
	Share     float64 `json:"share"`     // estimated share of the spam that is reported; 0: unknown
	Messages  int     `json:"messages"`  // whose tokens are remembered
	Keys      uint64  `json:"keys"`      // approximate number of counts in the arrays
	Bytes     uint64  `json:"bytes"`     // memory
}

// State returns the state of the book.
func (b *Book) State() State {
	s := State{Share: b.known(), Known: b.totals().Reported, Messages: int(b.messages.n.Load()),
		Bytes: uint64(b.messages.bytes.Load())}
	for _, g := range b.Live() {
		s.Reported += g.reported.Load() - g.withdrawn.Load()
		s.Delivered += g.delivered.Load()
		s.Keys += g.Counts.Keys()
		s.Bytes += g.Geometry.Bytes()
	}
	return s
}

// unit is the resolution of a share.
const unit = 1e-6

// known returns the share of spam that is reported, 0 if it is unknown.
func (b *Book) known() float64 { return float64(b.share.Load()) * unit }

// totals returns the numbers of all messages. Until reports have shown a share, all spam is taken for
// reported, which excuses most.
func (b *Book) totals() learn.Totals {
	t := learn.Totals{Share: b.known()}
	if b.shown.Load() == 0 {
		t.Share = 1
	}
	for _, g := range b.Live() {
		t.Reported += max(0, float64(g.reported.Load()-g.withdrawn.Load()))
		t.Delivered += float64(g.delivered.Load())
	}
	if o := b.others.Load(); o != nil {
		t.Counts = learn.Beside(t.Counts, o.Totals, o.Number)
	}
	return t
}

// SetOthers sets what peers know; nil: nothing. It may be called concurrently with all other methods.
func (b *Book) SetOthers(o *learn.Others) { b.others.Store(o) }

// addOthers adds what peers know of tokens to counts. present is set if the tokens are of the present
// secret: own reports agree with peers once, so only with these.
func (b *Book) addOthers(counts []learn.Counts, tokens []learn.Token, present bool) {
	o := b.others.Load()
	if o == nil {
		return
	}
	for i, t := range tokens {
		known := o.Of[t]
		if !present {
			known.High = known.Low
		}
		counts[i] = learn.Beside(counts[i], known, o.Number)
	}
}

// Known returns the share of spam that is reported, as scores use it.
func (b *Book) Known() float64 {
	if b.shown.Load() == 0 {
		return 1
	}
	return b.known()
}

// Person returns the person with a name. mailbox is set for the mailbox of a recipient. Persons differ
// from one process to the next.
func (b *Book) Person(name string, mailbox bool) lesson.Person {
	return lesson.PersonOf(maphash.String(b.seed, name), mailbox)
}

// Entries implements [lesson.Source]. It may be called concurrently with all other methods.
func (b *Book) Entries(start uint64, tokens []learn.Token) (all lesson.Entry, entries []lesson.Entry, ok bool) {
	g := b.find(start)
	if g == nil {
		return all, nil, false
	}
	all = lesson.Entry{Reported: uint32(g.reported.Load()), Withdrawn: uint32(g.withdrawn.Load()),
		Delivered: uint32(g.delivered.Load())}
	entries = make([]lesson.Entry, len(tokens))
	var n [3 * learn.MaxTokens]uint32
	keys := make([]filter.Key, 0, len(n))
	for from := 0; from < len(tokens); from += learn.MaxTokens {
		part := tokens[from:min(len(tokens), from+learn.MaxTokens)]
		keys = keysOf(keys[:0], part)
		withdrawn := g.ask(keys, n[:len(keys)])
		for i, t := range part {
			entries[from+i] = lesson.Entry{Token: t, Reported: n[2*i], Withdrawn: withdrawn[i], Delivered: n[2*i+1]}
		}
	}
	return all, entries, true
}

// keysOf returns the keys of the reports and the deliveries of each token, and then the keys of all withdrawals.
func keysOf(dst []filter.Key, tokens []learn.Token) []filter.Key {
	for _, t := range tokens {
		k := t.Key()
		dst = append(dst, k.With(reportedKind), k.With(deliveredKind))
	}
	for _, t := range tokens {
		dst = append(dst, t.Key().With(withdrawnKind))
	}
	return dst
}

// ask sets n to the counts of keys of keysOf, and returns its last third, the withdrawals. Most generations have none.
func (g *Generation) ask(keys []filter.Key, n []uint32) (withdrawn []uint32) {
	withdrawn = n[len(n)/3*2:]
	if g.withdrawn.Load() == 0 {
		clear(withdrawn)
		keys, n = keys[:len(n)/3*2], n[:len(n)/3*2]
	}
	g.Counts.CountBatch(keys, n)
	return withdrawn
}

// add adds to counts what a generation knows of each token. keys are of keysOf.
func (g *Generation) add(counts []learn.Counts, keys []filter.Key, n []uint32) {
	if g.Counts.Keys() == 0 {
		return
	}
	n = n[:len(keys)]
	withdrawn := g.ask(keys, n)
	for i := range counts {
		counts[i].Reported += max(0, float64(n[2*i])-float64(withdrawn[i]))
		counts[i].Delivered += float64(n[2*i+1])
	}
}
