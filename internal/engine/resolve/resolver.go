package resolve

import (
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// Options are the inputs of a resolver. All fields but Learned are required; the functions are called for each
// report.
type Options struct {
	Keys      keys.Maker
	Accounts  *trust.Book
	Policy    func() verdict.Policy
	Threshold func() uint32 // count from which a message is bulk
	Now       func() time.Time
	Day       uint64 // length of a generation of the tally in seconds, above 0
	Learned   *learned.Book
}

// A Resolver decides the effects of the reports of one batch. It sees the books as they are and, in
// its overlay, the changes by earlier reports of the same batch. Only one goroutine may use it.
type Resolver struct {
	opts     Options
	view     evidence.View
	sources  *evidence.Sources
	policy   verdict.Policy // of the batch: the administrator's, and whether the node is mature
	out      Decisions
	over     overlay
	reader   evidence.Reader
	members  func() *members // collects them on the first call after a change of the accounts
	credited int             // credits of the batch before the present report
	present  present
	items    []item // of the present vote
	ledger   ledger // of the present vote
	noticed  noticed
	buf      buffers
}

// A present is the message of the present vote.
type present struct {
	parts       verdict.Parts
	asks        []evidence.Ask
	records     []evidence.Record
	evidence    []verdict.Evidence
	contexts    []int
	pairsOf     []keys.Series // of its texts
	domains     []domain
	band        int     // index of the first band among the signatures; -1: none
	established float64 // how well established the newest part of the message is
}

// A noticed is what the votes of a batch, and of those before it, have in common.
type noticed struct {
	gatherings []Gathering           // of the batch
	revokers   map[filter.Key]uint32 // by text, the number of voters who revoked it
	spreading  map[filter.Key]bool   // texts already logged as spreading
	// signatures already logged as listed by peers: how often the weight has doubled since
	accusing map[bulkhead.Signature]int
}

// buffers are reused by every look-up.
type buffers struct {
	keys   []filter.Key
	bases  []filter.Key
	links  []filter.Key
	names  []uint32 // by signature of a sighting, the copies that count
	has    []bool
	counts []uint32
	which  []int
}

// New returns a resolver.
func New(o Options) *Resolver {
	r := &Resolver{opts: o, noticed: noticed{revokers: make(map[filter.Key]uint32),
		spreading: make(map[filter.Key]bool), accusing: make(map[bulkhead.Signature]int)}}
	r.over.out = &r.out
	r.AccountsChanged()
	r.reader = evidence.Reader{Keys: o.Keys, Day: o.Day, Now: o.Now, Overlay: &r.over}
	return r
}

// Begin starts a batch against the given books and the sources made of them. Each book must have an
// open generation.
func (r *Resolver) Begin(v evidence.View, s *evidence.Sources) {
	r.view, r.sources = v, s
	r.policy = r.opts.Policy()
	r.policy.Mature = s.Mature
	r.opts.Keys.Forget()
	r.out.reset()
	r.noticed.gatherings = r.noticed.gatherings[:0]
	r.out.TallyGen, r.out.BlockGen = v.Tally.Live[0].Start, v.Block.Live[0].Start
	r.over.begin(r.out.TallyGen, r.out.BlockGen)
	r.beginLearning(v)
}

// SetKeys makes the resolver use other keys, from the next batch on.
func (r *Resolver) SetKeys(k keys.Maker) {
	r.opts.Keys, r.reader.Keys = k, k
	r.AccountsChanged()
}

// at returns the form of a key in the arrays of a generation of the blocklist.
func (r *Resolver) at(block *book.Block, k filter.Key) filter.Key {
	if r.opts.Keys.Past == nil {
		return k
	}
	return r.was(block, k)
}

func (r *Resolver) was(block *book.Block, k filter.Key) filter.Key {
	epoch, _ := r.view.Epoch(block.SpamGeometry)
	return r.opts.Keys.At(epoch, k)
}

// Decisions returns the decisions of the batch. They belong to the resolver, and are valid
// until the next batch begins.
func (r *Resolver) Decisions() *Decisions { return &r.out }

// AccountsChanged makes the resolver read the accounts anew.
func (r *Resolver) AccountsChanged() { r.members = sync.OnceValue(r.collectMembers) }

// A Message is a report in the form that the resolver takes. It lacks the signatures that a
// whitelist hides. It has the keys of the others, and the judgement of the message when it was
// seen. A vote has no signature twice.
type Message struct {
	bulkhead.Report
	Keys        []filter.Key  // of Signatures
	Samples     []filter.Key  // for a spam vote: keys of the samples of the message's own words
	Past        *keys.Past    // the forms of all these keys under former secrets; nil if there are none
	Whitelisted int           // signatures that were left out
	Tokens      []learn.Token // of its words and style; nil if unknown
	Seen        Seen
}

// Seen is the judgement of a message when it was seen.
type Seen struct {
	Caught     bool         // called spam
	Flagged    bool         // called spam or suspected, for more than its network
	TextAlone  bool         // called spam for its text, while nothing else in it is listed
	GoodSender bool         // by a sender of good standing
	History    uint32       // deliveries of that sender's mail on earlier days
	Sightings  uint32       // of the text, before this message
	Held       []filter.Key // parts of reported texts that it contains
	Learned    float64      // score of its words and style
	Accused    Accused
}

// Accused is a signature of a message that peers list although many received it, or its sender is
// known.
type Accused struct {
	Signature  bulkhead.Signature
	Peers      float64 // weight of the peers that list it, in promotion weights; 0: none
	Deliveries uint32  // of the signature
}

// Count records the sightings that doors count themselves: n[i] more for cells[i].
func (r *Resolver) Count(cells []filter.Key, n []uint32) {
	r.out.Counts.Keys, r.out.Counts.N = append(r.out.Counts.Keys, cells...), append(r.out.Counts.N, n...)
}

// A voter is the reporter as far as decisions need to know it.
type voter struct {
	trust.Standing
	reporter bulkhead.Reporter
	name     string // of the account; "" for anonymous reporters and for users on whose behalf an account reports
	units    uint32 // weight in hundredths
}

// voice returns the name under which the vote weighs: the voter's own, or the network's for a voter
// that is not vouched for.
func (v *voter) voice() string {
	if v.Voucher != "" {
		return networkVoice(v.Voucher)
	}
	return v.Voice
}

// trap makes the voter a trap, which has half the weight. The senders of mail to a trap cause its
// votes, so one vote counts for each network of senders, and a second witness is needed.
func (v *voter) trap(client netip.Addr) {
	v.name, v.Confirms = "", false
	v.units = (v.units + 1) / 2
	v.Voice = "trap:" + trust.Voucher(client)
}

func networkVoice(voucher string) string { return "network:" + voucher }

// Report decides the effects of one report. On an error it decides nothing.
func (r *Resolver) Report(m *Message) (bulkhead.Receipt, error) {
	r.credited = len(r.out.Credits)
	r.opts.Keys.Adopt(m.Past)
	who := voter{reporter: m.Reporter}
	if m.Reporter.User == "" {
		who.name = m.Reporter.Account
	}
	receipt := bulkhead.Receipt{Whitelisted: m.Whitelisted}
	var err error
	if m.Vote == bulkhead.Sighting {
		// A sighting carries no weight, but its account must be known.
		if who.Standing, err = r.opts.Accounts.Door(m.Reporter); err != nil {
			return bulkhead.Receipt{}, err
		}
		if who.Root {
			r.sighting(&receipt, m, &who)
		} else {
			r.claims(&receipt, m, &who)
		}
		return receipt, nil
	}
	if who.Standing, err = r.opts.Accounts.Standing(m.Reporter); err != nil {
		return bulkhead.Receipt{}, err
	}
	who.units = Units(who.Weight)
	if m.Trap && m.Vote == bulkhead.Spam {
		who.trap(m.Source.Client)
	}
	r.active(&who)
	if len(m.Keys) > 0 {
		r.vote(&receipt, m, &who)
		r.learnVote(m, &who)
	}
	return receipt, nil
}

// active records the day on which a member last voted.
func (r *Resolver) active(who *voter) {
	today := trust.Day(r.opts.Now())
	if a, ok := r.opts.Accounts.Get(who.name); ok && a.Role == trust.Member && a.Active < today {
		r.credit(trust.Credit{Account: who.name, Day: today})
	}
}

// Units turns a weight into hundredths. A weight above 0 gives at least one.
func Units(weight float64) uint32 {
	if weight <= 0 {
		return 0
	}
	return max(1, uint32(math.Round(weight*verdict.Unit)))
}

// first reports whether the key is new to the votes of the open generation of the blocklist. It
// enters a new key.
func (r *Resolver) first(k filter.Key) bool {
	if r.over.votes().has(k) || r.in(r.view.Block.Live[0].Votes, k) {
		return false
	}
	r.enter(k)
	return true
}

// enter enters a key into the votes of the open generation.
func (r *Resolver) enter(k filter.Key) {
	r.out.Voted = append(r.out.Voted, k)
}

// firstReport is first for the sightings of the open generation of the tally.
func (r *Resolver) firstReport(k filter.Key) bool {
	if r.over.unique.has(k) || r.in(r.view.Tally.Live[0].Unique, k) {
		return false
	}
	r.over.unique.add(k, 1)
	r.out.Unique = append(r.out.Unique, k)
	return true
}

// newReport reports whether no live generation of the tally has counted a voice's report with the ID of a message. It
// enters a new one. A generation may have ended just before the report is repeated, at midnight or at a change of the
// secret.
func (r *Resolver) newReport(voice string, m *Message) bool {
	k := r.opts.Keys.Report(voice, m.ID, m.Keys)
	for _, g := range r.view.Tally.Live[1:] {
		epoch, _ := r.view.Epoch(g.CountsGeometry)
		if r.in(g.Unique, r.opts.Keys.At(epoch, k)) {
			return false
		}
	}
	return r.firstReport(k)
}

// in reports whether an array holds a key. To look up many keys, use hasAll.
func (r *Resolver) in(set book.Bitset, k filter.Key) bool {
	r.buf.keys = append(r.buf.keys[:0], k)
	return r.hasAll(set)[0]
}

// hasAll looks r.buf.keys up.
func (r *Resolver) hasAll(set book.Bitset) []bool {
	r.buf.has = slices.Grow(r.buf.has[:0], len(r.buf.keys))[:len(r.buf.keys)]
	set.HasBatch(r.buf.keys, r.buf.has)
	return r.buf.has
}

// hasNow looks r.buf.keys up in an array, together with what the batch has added to it.
func (r *Resolver) hasNow(set book.Bitset, added *table) []bool {
	has := r.hasAll(set)
	added.also(r.buf.keys, has)
	return has
}

// countAll looks r.buf.keys up in a counting array: the counts of a tally, or the names.
func (r *Resolver) countAll(array book.Counter) []uint32 {
	r.buf.counts = slices.Grow(r.buf.counts[:0], len(r.buf.keys))[:len(r.buf.keys)]
	array.CountBatch(r.buf.keys, r.buf.counts)
	return r.buf.counts
}

// count raises a count. Decisions of the same batch see it.
func (r *Resolver) count(k filter.Key, n uint32) {
	r.over.increased.add(k, n)
	r.out.Counts.add(k, n)
}

// weigh raises a cell of the weights of a generation.
func (r *Resolver) weigh(gen uint64, k filter.Key, n uint32) {
	if gen != r.over.block {
		r.over.weights.add(cell(gen, k), n)
	}
	r.out.Weigh(gen, k, n)
}
