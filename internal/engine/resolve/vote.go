package resolve

import (
	"bytes"
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/wellknown"
)

// An item is what a vote is about: a signature, or a pair of a text and a context.
type item struct {
	key   filter.Key
	facet bulkhead.Facet // for a pair: the facet of its context
	// For a pair: indexes of its text and its context among the message's signatures; else -1.
	text, context int

	kind   uint8   // the side and class that the vote adds to
	want   weights // the weights that the voice's vote should have
	part   bool    // of bulkhead/part
	mute   bool    // the signature informs and never decides
	fresh  bool    // the voice's first such vote in the open generation
	record *evidence.Record

	judged  bulkhead.Judgement // before the vote
	counted bool               // the voice has not cast this vote before
	voter   bool               // the vote is a new voter's
	turn    int                // turn in which the vote listed it; 0 if it did not
	moves   bool               // the vote may enter it into the spam filter or the revocation filter
	// For an item that moves: whether the open generation has listed it, and taken it off, at least once.
	listed, revoked bool
}

func (it *item) pair() bool { return it.text >= 0 }

// vote decides a spam vote, a ham vote or a revocation. The latest vote of a voice replaces
// the one before; the same vote again counts once a generation.
func (r *Resolver) vote(receipt *bulkhead.Receipt, m *Message, who *voter) {
	r.items = r.items[:0]
	r.reader.Begin(r.sources)
	defer r.reader.End()
	weighed := len(r.out.Weights.Keys)
	r.signatures(m, who)
	r.pairs(m, who)
	r.fresh(m, who)
	for i := range r.items {
		r.weighIn(receipt, m, who, i)
	}
	r.turns()
	for i := range r.items {
		r.settle(receipt, m, who, i)
	}
	if m.Vote == bulkhead.Spam {
		r.unlike(m, who)
		r.together(m)
	}
	// A vote that adds no weight takes back none: the ballot of the vote that it repeats does.
	if len(r.out.Weights.Keys) > weighed {
		r.ballot(who)
	}
}

// signatures makes items of the message's signatures, with their records.
func (r *Resolver) signatures(m *Message, who *voter) {
	n := len(m.Keys)
	r.present.asks, r.present.records = slices.Grow(r.present.asks[:0], n)[:n], slices.Grow(r.present.records[:0], n)[:n]
	r.present.evidence = slices.Grow(r.present.evidence[:0], n)[:n]
	for i, k := range m.Keys {
		f := m.Signatures[i].Scheme().Facet()
		r.items = append(r.items, item{
			key: k, facet: f, text: -1, context: -1, kind: weightKind(m.Vote, who.Root),
			part: m.Signatures[i].Scheme() == bulkhead.Part,
			mute: f == bulkhead.MarkupFacet,
		})
	}
	r.open(0, who.voice())
	for i, k := range m.Keys {
		r.present.asks[i] = evidence.Ask{Key: k, Wants: evidence.Delivered | r.listings(m, i)}
		if named(r.items[i].facet) {
			r.present.asks[i].Wants |= evidence.Names | evidence.Standing
		}
	}
	r.reader.Read(r.present.asks, r.present.records)
	for i := range r.items {
		r.items[i].record = &r.present.records[i]
		r.items[i].balance(r.ledger.of(i))
		r.present.evidence[i] = r.present.records[i].Evidence
	}
	r.present.parts.Set(m.Signatures)
	r.present.band = slices.IndexFunc(m.Signatures, func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.Near })
	r.present.established = r.least(m)
	r.linked(m)
	for i := range r.items {
		r.weight(m, who, i)
	}
}

// weight sets the weight that the vote should have on a signature.
func (r *Resolver) weight(m *Message, who *voter, i int) {
	it := &r.items[i]
	if it.mute {
		return
	}
	it.want[it.kind] = who.units
	if m.Vote != bulkhead.Spam || !blamed(it.facet) {
		return
	}
	share := r.share(i)
	if it.facet == bulkhead.LinkFacet {
		share = min(share, r.fault(m, i))
	}
	it.want[it.kind] = portion(who.units, share)
	if who.Root {
		it.want[evidence.Unblamed] = who.units
	}
}

// listings returns the aspects of an item's listings that the vote needs. An item without votes on
// this node can only be listed by peers.
func (r *Resolver) listings(m *Message, i int) evidence.Wants {
	peers := len(r.view.Remote.Origins)+len(r.view.Remote.Lists) > 0
	if m.Vote != bulkhead.Spam || peers || slices.ContainsFunc(r.ledger.of(i), func(c column) bool { return c.marked }) {
		return evidence.States
	}
	return 0
}

// blamed reports whether a signature of a facet takes only a share of a vote for spam.
func blamed(f bulkhead.Facet) bool {
	return f != bulkhead.NoFacet && f != bulkhead.TextFacet && f != bulkhead.MarkupFacet
}

// portion returns a share of a weight in hundredths.
func portion(units uint32, share float64) uint32 {
	return uint32(math.Round(float64(units) * min(1, share)))
}

// share returns the fraction of a vote that falls on a part of the message.
func (r *Resolver) share(i int) float64 {
	return verdict.Share(r.present.established, r.present.evidence[i].Established())
}

// A domain is a link to a domain outside the sender's own.
type domain struct {
	name    []byte
	novelty float64
	single  bool // no other mail had it
	known   bool // it is well known
}

// linked collects the foreign domains that the message links to.
func (r *Resolver) linked(m *Message) {
	r.present.domains = r.present.domains[:0]
	for _, i := range r.present.parts.Links {
		name := m.Signatures[i].Sum()
		if bytes.IndexByte(name, '/') < 0 && r.present.parts.Foreign(m.Signatures, r.present.evidence, i) {
			e := &r.present.evidence[i]
			r.present.domains = append(r.present.domains,
				domain{name, e.Novelty(), e.Single(), wellknown.Domain(name)})
		}
	}
}

// fault returns the fraction of the blame for a message that falls on one of its links. One of the
// links is to blame, more likely a little-known one. Links to the same domain are one link. Links
// to the sender's own domain are the sender's fault. A spammer can add other domains to each copy. So a domain that
// no other mail had takes no blame from a recurrent link, and a well-known domain takes none from links elsewhere.
func (r *Resolver) fault(m *Message, link int) float64 {
	if !r.present.parts.Foreign(m.Signatures, r.present.evidence, link) {
		return 1
	}
	e := &r.present.evidence[link]
	own, others := e.Novelty(), 0.0
	host, _, _ := bytes.Cut(m.Signatures[link].Sum(), []byte{'/'})
	recurrent, known := e.Recurrent(), wellknown.Domain(host)
	for i := range r.present.domains {
		d := &r.present.domains[i]
		if !verdict.Within(host, d.name) && !(d.single && recurrent) && (!d.known || known) {
			others += d.novelty
		}
	}
	return own / (own + others)
}

// least returns how well established the newest part of the message is.
func (r *Resolver) least(m *Message) float64 {
	least := math.Inf(1)
	for i := range m.Signatures {
		if blamed(r.items[i].facet) {
			least = min(least, r.present.evidence[i].Established())
		}
	}
	for _, i := range r.present.parts.Texts {
		e := r.present.evidence[i]
		e.Unblamed = e.Votes.Spam // a text takes all the blame
		least = min(least, e.Established())
	}
	return least
}

// pairs makes items of the text with each of the message's contexts.
func (r *Resolver) pairs(m *Message, who *voter) {
	r.present.contexts = r.present.parts.Contexts(m.Signatures, r.present.evidence, r.present.contexts[:0])
	first := len(r.items)
	r.present.pairsOf = r.present.pairsOf[:0]
	if len(r.present.contexts) > 0 {
		for _, t := range r.present.parts.Texts {
			r.present.pairsOf = append(r.present.pairsOf, r.opts.Keys.Pairs(m.Keys[t]))
		}
	}
	for _, c := range r.present.contexts {
		for n, t := range r.present.parts.Texts {
			it := item{
				key: r.present.pairsOf[n].Of(m.Keys[c]), facet: r.items[c].facet, text: t, context: c,
				kind: weightKind(m.Vote, who.Root),
			}
			it.want[it.kind] = who.units
			if it.facet == bulkhead.LinkFacet && m.Vote == bulkhead.Spam {
				it.want[it.kind] = portion(who.units, r.share(c))
			}
			r.items = append(r.items, it)
		}
	}
	if first == len(r.items) {
		return
	}
	r.open(first, who.voice())
	for i := first; i < len(r.items); i++ {
		r.present.asks = append(r.present.asks, evidence.Ask{Key: r.items[i].key, Wants: r.listings(m, i)})
		r.present.records = append(r.present.records, evidence.Record{})
	}
	r.reader.Read(r.present.asks[first:], r.present.records[first:])
	for i := range r.items { // the records may have moved
		r.items[i].record = &r.present.records[i]
	}
}

// fresh marks the signatures on which the voice has not yet cast this vote in the open generation,
// and enters the vote for them.
func (r *Resolver) fresh(m *Message, who *voter) {
	r.buf.keys = r.buf.keys[:0]
	votes := r.opts.Keys.Votes(who.Voice, m.Vote)
	for _, k := range m.Keys {
		r.buf.keys = append(r.buf.keys, votes.Of(k))
	}
	known := r.hasNow(r.view.Block.Live[0].Votes, r.over.votes())
	for i, k := range r.buf.keys {
		if !known[i] {
			r.items[i].fresh = true
			r.enter(k)
		}
	}
	if m.Vote != bulkhead.Spam || who.name == "" || who.Confirms {
		return
	}
	for i, k := range m.Keys {
		if r.items[i].fresh {
			r.first(r.opts.Keys.Bucket(r.opts.Keys.BucketOf(0, who.name), k))
		}
	}
}

// weighIn adds the vote to the weights of one item.
func (r *Resolver) weighIn(receipt *bulkhead.Receipt, m *Message, who *voter, i int) {
	it, columns := &r.items[i], r.ledger.of(i)
	it.counted = it.fresh || turned(columns, it.kind)
	it.judged = verdict.Judge(it.record.Own, it.record.Peers, r.policy.Promotion)
	if it.pair() {
		r.context(m, who, it, columns)
	} else {
		it.voter = r.voted(receipt, m, who, it)
		// Others may have reported another text that has the same part.
		if it.judged != bulkhead.JudgedSpam && !it.part {
			r.confirm(m, who, it)
		}
	}
	if it.mute {
		return
	}
	r.move(i)
	it.balance(columns)
	if m.Vote == bulkhead.Spam {
		it.moves = r.enters(it, who)
	} else {
		it.moves = it.judged == bulkhead.JudgedSpam
	}
}

// settle decides the effect of the vote on the listing of one item.
func (r *Resolver) settle(receipt *bulkhead.Receipt, m *Message, who *voter, i int) {
	it := &r.items[i]
	if it.mute {
		receipt.Pending += pending(it.counted, m.Vote)
		return
	}
	if it.pair() {
		receipt = new(bulkhead.Receipt) // the caller's counts signatures only
	}
	before := *receipt
	if m.Vote == bulkhead.Spam {
		r.settleSpam(receipt, it)
	} else {
		r.settleHam(receipt, it, who, m.Vote)
	}
	if !it.pair() {
		changed := before.Listed != receipt.Listed || before.Revoked != receipt.Revoked
		r.watch(m, who, i, changed, it.turn)
	}
}

// voted counts a vote on a signature as one voter, regardless of the number in the report. It
// reports whether the voter is new. Voters that are not vouched for count once for each network.
func (r *Resolver) voted(receipt *bulkhead.Receipt, m *Message, who *voter, it *item) bool {
	if !it.counted {
		receipt.Duplicate++
		return false
	}
	receipt.Counted++
	if !it.fresh || who.Voucher != "" && !r.first(r.opts.Keys.Vote(who.voice(), m.Vote, it.key)) {
		return false
	}
	switch m.Vote {
	case bulkhead.Spam:
		r.count(it.key.With(evidence.Spam), 1)
	case bulkhead.Ham:
		r.count(it.key.With(evidence.Ham), 1)
	}
	return true
}

// context counts a link or sender with which a root reports the text for the first time.
func (r *Resolver) context(m *Message, who *voter, it *item, columns []column) {
	if m.Vote != bulkhead.Spam || !who.Root || it.want[evidence.RootSpam] == 0 {
		return
	}
	for g := range columns {
		if columns[g].All[evidence.RootSpam] > 0 {
			return
		}
	}
	r.raise(0, r.items[it.text].key, evidence.Contexts, &r.ledger.of(it.text)[0].All[evidence.Contexts], 1)
}
