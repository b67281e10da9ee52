package resolve

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// If the open generation of the blocklist has a floor, peers see a listing only once that many
// roots have voted for it. It is then published from separate filters. These have turns like the
// filters that the node acts upon, but the turns of the two differ.

// enough reports whether votes, in hundredths, come from as many roots as the floor of the open
// generation requires. One root's vote has at most a hundred.
func (r *Resolver) enough(votes int64) bool {
	return votes >= verdict.Unit*int64(r.view.Block.Live[0].Floor)
}

// manyVoted reports whether enough roots voted spam for the listing to be shared with peers. A part
// of a message takes a share of a vote, but each vote is whole in Unblamed.
func (r *Resolver) manyVoted(it *item) bool {
	return r.enough(max(it.record.Votes.Spam, it.record.Unblamed))
}

// publishSpam shares the listing of an item with peers if enough roots voted for it.
func (r *Resolver) publishSpam(it *item) {
	open := r.view.Block.Live[0]
	if open.Floor == 0 || !r.manyVoted(it) {
		return
	}
	revoked := r.turnsIn(open.PublishedRevoked, &r.over.publishedRevoked, it.key)
	if revoked >= evidence.MaxTurns {
		return
	}
	for turn := r.turnsIn(open.PublishedSpam, &r.over.publishedSpam, it.key) + 1; turn <= revoked+1; turn++ {
		r.show(r.opts.Keys.Turn(it.key, turn))
	}
}

// show enters a key into the spam filter that peers see.
func (r *Resolver) show(k filter.Key) {
	r.over.publishedSpam.add(k, 1)
	r.out.PublishedSpam = append(r.out.PublishedSpam, k)
}

// publishRevoked shares with peers that an item is off the list. It does so at once if they see the
// item as listed, and otherwise if enough roots voted against it.
func (r *Resolver) publishRevoked(it *item) {
	open := r.view.Block.Live[0]
	if open.Floor == 0 {
		return
	}
	listed, revoked := r.published(it.key)
	if revoked || !listed && !r.enough(it.record.Votes.Ham) {
		return
	}
	spam := max(1, r.turnsIn(open.PublishedSpam, &r.over.publishedSpam, it.key))
	for turn := r.turnsIn(open.PublishedRevoked, &r.over.publishedRevoked, it.key) + 1; turn <= spam; turn++ {
		k := r.opts.Keys.Turn(it.key, turn)
		r.over.publishedRevoked.add(k, 1)
		r.out.PublishedRevoked = append(r.out.PublishedRevoked, k)
	}
}

// published returns the last state of a key that was shared with peers: listed, taken off, or neither.
func (r *Resolver) published(key filter.Key) (listed, revoked bool) {
	for i, g := range r.view.Block.Live {
		var none table
		addedSpam, addedRevoked := &none, &none
		if i == 0 {
			addedSpam, addedRevoked = &r.over.publishedSpam, &r.over.publishedRevoked
		}
		turns := func(set book.Bitset, overlay *table) int {
			return evidence.Turns(func(turn int) bool {
				k := r.at(g, r.opts.Keys.Turn(key, turn))
				return overlay.has(k) || r.in(set, k)
			})
		}
		spamSet, revokedSet := g.Shared()
		on, out := turns(spamSet, addedSpam), turns(revokedSet, addedRevoked)
		if on+out > 0 {
			return on > out, on <= out
		}
	}
	return false, false
}
