package engine

import (
	"math"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// promotion is never 0: no weight at all must not be enough.
func (r *resolver) promotion() int64 {
	return max(1, int64(math.Round(r.e.accounts.Policy().Promotion*verdict.Unit)))
}

// settleSpam lists a signature if the balance after a spam vote says so. One that
// the node itself lists is entered into the newest generation again by a root, which
// keeps it from ageing out while reports go on. What only peers list stays theirs:
// the node's own listing would outlive them.
func (r *resolver) settleSpam(receipt *bulkhead.Receipt, l *ledger, judged bulkhead.Judgement, who voter, base filter.Key, counted bool) {
	lists := l.balance().Lists(r.promotion()) || who.Root && counted && r.walk(r.view.block.Live, base) == verdict.Listed
	switch {
	case lists && r.list(base):
		if judged != bulkhead.JudgedSpam {
			receipt.Listed++
		}
	case counted:
		receipt.Pending++
	}
}

// settleHam takes a listed signature off the blocklist if the balance after a ham
// vote or a revocation says so.
func (r *resolver) settleHam(receipt *bulkhead.Receipt, l *ledger, judged bulkhead.Judgement, who voter, base filter.Key, vote bulkhead.Vote, counted bool) {
	if judged != bulkhead.JudgedSpam {
		return
	}
	if !who.Root {
		receipt.Pending += pending(counted, vote)
		return
	}
	b, promotion := l.balance(), r.promotion()
	lifts := b.Ham-b.Spam >= promotion // what only peers list
	if r.walk(r.view.block.Live, base) == verdict.Listed {
		lifts = b.Lifts()
	}
	switch {
	case lifts:
		r.revoke(base)
		receipt.Revoked++
		r.blame(who, base)
	default:
		receipt.Pending += pending(counted, vote)
	}
}

// pending is what a vote that takes nothing off adds to a receipt: of a ham vote
// nobody expects it.
func pending(counted bool, vote bulkhead.Vote) int {
	if counted && vote == bulkhead.Revocation {
		return 1
	}
	return 0
}

// list enters a signature into the open generation's spam filter once more than
// into its revocation filter. It reports whether there is a turn left for that.
func (r *resolver) list(base filter.Key) bool {
	g := r.view.block.Live[0]
	revoked := r.turns(g.Revoked, r.revoked, base)
	if revoked >= maxTurns {
		return false
	}
	for turn := r.turns(g.Spam, r.spam, base) + 1; turn <= revoked+1; turn++ {
		k := turnKey(r.e.opts.Secret, base, turn)
		r.spam[k] = true
		r.out.spam = append(r.out.spam, k)
	}
	return true
}

// revoke enters a signature into the open generation's revocation filter as often as
// into its spam filter, and once at least: an older generation may list it, or a peer.
func (r *resolver) revoke(base filter.Key) {
	g := r.view.block.Live[0]
	spam := max(1, r.turns(g.Spam, r.spam, base))
	for turn := r.turns(g.Revoked, r.revoked, base) + 1; turn <= spam; turn++ {
		k := turnKey(r.e.opts.Secret, base, turn)
		r.revoked[k] = true
		r.out.revoked = append(r.out.revoked, k)
	}
}

// turns returns how often the open generation has a signature in a filter.
func (r *resolver) turns(set book.Bitset, overlay map[filter.Key]bool, base filter.Key) int {
	turn := 0
	for turn < maxTurns && r.has(set, overlay, turnKey(r.e.opts.Secret, base, turn+1)) {
		turn++
	}
	return turn
}

// judge returns the judgement of a signature, the overlay included.
func (r *resolver) judge(base filter.Key) bulkhead.Judgement {
	own := r.walk(r.view.block.Live, base)
	var peers verdict.Peers
	for _, o := range r.view.remote.Origins {
		if o.Weight > 0 {
			peers.Add(r.walkRemote(o.Block, base), o.Weight, false)
		}
	}
	for _, l := range r.view.remote.Lists {
		peers.Add(r.walkMerged(l.Block, base), l.Weight, true)
	}
	return verdict.Judge(own, peers, r.e.accounts.Policy().Promotion)
}

// walk judges by the node's own blocklist.
func (r *resolver) walk(gens []*book.Block, base filter.Key) verdict.State {
	state := verdict.Nothing
	for i, g := range gens {
		spam, revoked := r.spam, r.revoked
		if i > 0 { // the overlay belongs to the open generation
			spam, revoked = nil, nil
		}
		state = r.step(state, base,
			func(k filter.Key) bool { return r.has(g.Spam, spam, k) },
			func(k filter.Key) bool { return r.has(g.Revoked, revoked, k) })
		if state.Decided() {
			break
		}
	}
	return state
}

// step takes one more generation, older than those before.
func (r *resolver) step(state verdict.State, base filter.Key, spam, revoked func(filter.Key) bool) verdict.State {
	listed, off := spam(base), revoked(base)
	if listed && off && relisted(r.e.opts.Secret, base, spam, revoked) {
		off = false
	}
	return state.Next(listed, off)
}

func (r *resolver) walkRemote(gens []*replica.Block, base filter.Key) verdict.State {
	state := verdict.Nothing
	for _, g := range gens {
		state = r.step(state, base,
			func(k filter.Key) bool { return g.Spam != nil && g.Spam.Has(k) },
			func(k filter.Key) bool { return g.Revoked != nil && g.Revoked.Has(k) })
		if state.Decided() {
			break
		}
	}
	return state
}

func (r *resolver) walkMerged(gens []*replica.MergedBlock, base filter.Key) verdict.State {
	state := verdict.Nothing
	for _, g := range gens {
		state = r.step(state, base, anyHas(g.Spam), anyHas(g.Revoked))
		if state.Decided() {
			break
		}
	}
	return state
}

// anyHas returns whether any of the arrays has a key.
func anyHas(arrays []*filter.Bits) func(filter.Key) bool {
	return func(k filter.Key) bool {
		for _, b := range arrays {
			if b.Has(k) {
				return true
			}
		}
		return false
	}
}
