package resolve

import (
	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// enters reports whether the balance after a spam vote enters an item into the spam filter. If the
// node itself already lists the item, a root's vote enters it into the newest generation again,
// which keeps it from ageing out while reports continue; a stranger's vote does not. An item that
// only peers list is listed here only if the node's own votes are enough, because the node's
// listing would outlive the peers'.
func (r *Resolver) enters(it *item, who *voter) bool {
	if it.record.Own == verdict.Listed {
		return who.Root && it.counted
	}
	return r.lists(it)
}

// settleSpam lists an item that a spam vote enters.
func (r *Resolver) settleSpam(receipt *bulkhead.Receipt, it *item) {
	switch {
	case it.moves && r.list(it):
		if it.judged != bulkhead.JudgedSpam {
			receipt.Listed++
		}
	case it.counted:
		receipt.Pending++
	}
}

// lists reports whether the node's own votes are enough to list an item.
func (r *Resolver) lists(it *item) bool {
	e := it.alone()
	if !it.pair() {
		return r.policy.Lists(it.facet, &e)
	}
	text, context := &r.present.evidence[it.text], &r.present.evidence[it.context]
	return r.policy.ListsPair(&e, text, context, r.policy.Good(it.facet, context))
}

// alone returns the evidence by which the node's own votes list an item. A link is listed by the deliveries of
// the node alone: a campaign is a small share of the mail of each of many nodes. A listing of another part also
// counts against good mail at all peers, so it needs enough votes for the deliveries of all.
func (it *item) alone() verdict.Evidence {
	if it.facet == bulkhead.LinkFacet {
		return it.record.Here()
	}
	e := it.record.Evidence
	e.Peers = verdict.Peers{}
	return e
}

// settleHam takes a listed item off the blocklist if the balance after a ham
// vote or a revocation says so.
func (r *Resolver) settleHam(receipt *bulkhead.Receipt, it *item, who *voter, vote bulkhead.Vote) {
	if it.judged != bulkhead.JudgedSpam {
		if it.counted && who.Root && (it.record.Own == verdict.Revoked || it.record.Own == verdict.ListedRevoked) &&
			it.record.Votes.Lifts() {
			r.publishRevoked(it)
		}
		return
	}
	if !who.Root {
		receipt.Pending += pending(it.counted, vote)
		return
	}
	b := it.record.Votes
	lifts := b.Ham-b.Spam >= r.policy.Units() // enough for an item that only peers list
	if it.record.Own == verdict.Listed {
		lifts = b.Lifts()
	}
	if !lifts {
		receipt.Pending += pending(it.counted, vote)
		return
	}
	r.revoke(it)
	receipt.Revoked++
	if b.Spam+b.StrangerSpam > 0 && it.facet == bulkhead.TextFacet && !it.part { // others still call it spam
		r.blame(who, it.key)
	}
}

// pending returns the number of pending votes that a vote which takes nothing off adds to the
// receipt. A ham vote adds none, because it is not expected to take anything off.
func pending(counted bool, vote bulkhead.Vote) int {
	if counted && vote == bulkhead.Revocation {
		return 1
	}
	return 0
}

// turns looks up which of the items that move were listed in the open generation, or taken off, at
// least once. Without it, a vote on new mail takes a fifth more processor time: each item would be looked up alone.
func (r *Resolver) turns() {
	open := r.view.Block.Live[0]
	r.buf.which, r.buf.keys = r.buf.which[:0], r.buf.keys[:0]
	for i := range r.items {
		if r.items[i].moves {
			r.buf.which = append(r.buf.which, i)
			r.buf.keys = append(r.buf.keys, r.items[i].key)
		}
	}
	for j, has := range r.hasNow(open.Spam, r.over.listed()) {
		r.items[r.buf.which[j]].listed = has
	}
	for j, has := range r.hasNow(open.Revoked, r.over.takenOff()) {
		r.items[r.buf.which[j]].revoked = has
	}
}

// list enters an item into the open generation's spam filter until it is there once more than in
// the revocation filter. It reports false if no turn is left.
func (r *Resolver) list(it *item) bool {
	revoked := 0
	if it.revoked {
		revoked = r.turnsIn(r.view.Block.Live[0].Revoked, r.over.takenOff(), it.key)
	}
	if revoked >= evidence.MaxTurns {
		return false
	}
	if revoked == 0 && it.listed {
		r.publishSpam(it)
		return true
	}
	it.turn = revoked + 1
	spam := 0
	if it.listed {
		spam = r.turnsIn(r.view.Block.Live[0].Spam, r.over.listed(), it.key)
	}
	for turn := spam + 1; turn <= it.turn; turn++ {
		r.enterSpam(r.opts.Keys.Turn(it.key, turn))
	}
	r.publishSpam(it)
	return true
}

// enterSpam enters a key into the open generation's spam filter.
func (r *Resolver) enterSpam(k filter.Key) { r.out.Spam = append(r.out.Spam, k) }

// revoke enters an item into the open generation's revocation filter until it is there as often as
// in the spam filter. It does so at least once, since an older generation or a peer may list the
// item.
func (r *Resolver) revoke(it *item) {
	spam := 1
	if it.listed {
		spam = r.turnsIn(r.view.Block.Live[0].Spam, r.over.listed(), it.key)
	}
	revoked := 0
	if it.revoked {
		revoked = r.turnsIn(r.view.Block.Live[0].Revoked, r.over.takenOff(), it.key)
	}
	for turn := revoked + 1; turn <= spam; turn++ {
		r.out.Revoked = append(r.out.Revoked, r.opts.Keys.Turn(it.key, turn))
	}
	r.publishRevoked(it)
}

// turnsIn returns how often a filter, together with the batch's additions, has an item.
func (r *Resolver) turnsIn(set book.Bitset, added *table, base filter.Key) int {
	return evidence.Turns(func(turn int) bool {
		k := r.opts.Keys.Turn(base, turn)
		return added.has(k) || r.in(set, k)
	})
}
