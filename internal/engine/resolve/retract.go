package resolve

import (
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// noKind is the kind of a vote that is retracted and no longer takes a side.
const noKind = 255

// ballot remembers the items that a vote weighed on, so that it can be retracted. Votes in the name
// of a network are not remembered, because the share of one reporter in their weight is unknown.
func (r *Resolver) ballot(who *voter) {
	if who.Voucher != "" || who.units == 0 {
		return
	}
	x := ballots.Ballot{Voice: r.opts.Keys.Voice(who.Voice), Time: uint64(r.opts.Now().Unix())}
	x.Items = make([]ballots.Item, 0, len(r.items))
	for i := range r.items {
		if it := &r.items[i]; !it.mute {
			x.Items = append(x.Items, ballots.Item{Key: it.key, Facet: it.facet, Pair: it.pair()})
		}
	}
	r.out.Ballots = append(r.out.Ballots, x)
}

// Retract removes the weight of a voice's votes on the items. delisted is the number of items
// that this takes off the blocklist of the node. relisted is the number that it lists again because only
// that voice had taken them off. A pair is not listed again before the next vote on it.
func (r *Resolver) Retract(voice string, what []ballots.Item) (delisted, relisted int) {
	r.items, r.present.asks = r.items[:0], r.present.asks[:0]
	r.present.records = append(r.present.records[:0], make([]evidence.Record, len(what))...)
	r.reader.Begin(r.sources)
	defer r.reader.End()
	for i := range what {
		it := &what[i]
		ask := evidence.Ask{Key: it.Key, Wants: evidence.States}
		if !it.Pair {
			ask.Wants |= evidence.Counts
			if named(it.Facet) {
				ask.Wants |= evidence.Names | evidence.Standing
			}
		}
		r.present.asks = append(r.present.asks, ask)
		r.items = append(r.items, item{key: it.Key, facet: it.Facet, text: -1, context: -1, kind: noKind, moves: true})
	}
	r.reader.Read(r.present.asks, r.present.records)
	r.open(0, voice)
	r.turns()
	for i := range r.items {
		it, columns := &r.items[i], r.ledger.of(i)
		it.record = &r.present.records[i]
		r.move(i)
		it.balance(columns)
		r.learnRetraction(it)
		switch stands := r.stands(it, what[i].Pair); {
		case it.record.Own == verdict.Listed && !stands:
			r.revoke(it)
			delisted++
		case it.record.Own == verdict.ListedRevoked && stands && !what[i].Pair:
			if r.list(it) {
				relisted++
			}
		}
	}
	return delisted, relisted
}

// stands reports whether the remaining votes are enough to list an item.
func (r *Resolver) stands(it *item, pair bool) bool {
	if pair {
		return it.record.Votes.Spam-it.record.Votes.Ham >= r.policy.Units()
	}
	e := it.alone()
	e.Own = verdict.Nothing
	return r.policy.Lists(it.facet, &e)
}
