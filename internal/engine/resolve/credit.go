package resolve

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// buckets is the number of buckets that accounts are divided into. The filters of votes remember
// who voted spam on a signature, and which buckets these voters belong to. So a few voters among a
// hundred thousand accounts are found without a look-up for each account. The number is part of the
// data on disk.
const buckets = 256

// members are the open accounts that earn their weight, by bucket for each epoch.
type members struct {
	byBucket [][buckets][]string
	filled   []uint8 // buckets with a member in some epoch, each once
}

// collectMembers returns the members of today.
func (r *Resolver) collectMembers() *members {
	m := &members{byBucket: make([][buckets][]string, max(1, len(r.view.KeyIDs)))}
	names := r.opts.Accounts.Members()
	for epoch := range m.byBucket {
		for _, name := range names {
			b := r.opts.Keys.BucketOf(epoch, name)
			m.byBucket[epoch][b] = append(m.byBucket[epoch][b], name)
		}
	}
	for b := range buckets {
		if slices.ContainsFunc(m.byBucket, func(all [buckets][]string) bool { return len(all[b]) > 0 }) {
			m.filled = append(m.filled, uint8(b))
		}
	}
	return m
}

// confirm credits the members who reported a text and have not changed their mind. It runs before
// who, a voter that an administrator vouches for, lists the text.
func (r *Resolver) confirm(m *Message, who *voter, it *item) {
	if !it.fresh || m.Vote != bulkhead.Spam || !who.Confirms || it.facet != bulkhead.TextFacet {
		return
	}
	if b := it.record.Votes; b.Spam+b.StrangerSpam == 0 {
		return
	}
	r.eachSupporter(it.key, who, func(name string, newest int) {
		if r.once("confirmed", name, newest, it.key) {
			r.credit(trust.Credit{
				Account: name, Confirmed: 1, Day: trust.Day(r.opts.Now()), Network: trust.Mark(who.reporter), By: who.units,
			})
		}
	})
}

// blame debits the members who reported a text that is now revoked and still stand by their report.
// Members who took their own report back are not to blame.
func (r *Resolver) blame(who *voter, base filter.Key) {
	r.eachSupporter(base, who, func(name string, newest int) {
		if r.once("reverted", name, newest, base) {
			r.credit(trust.Credit{Account: name, Reverted: 1, Day: trust.Day(r.opts.Now())})
		}
	})
}

// once reports whether an account has not yet been credited with, or debited for, its newest report
// of a signature. A report may be confirmed many times, on many days, and counts once.
func (r *Resolver) once(what, name string, newest int, base filter.Key) bool {
	k := r.opts.Keys.Once(what, name, base)
	for _, block := range r.view.Block.Live[1 : newest+1] {
		if r.in(block.Votes, r.at(block, k)) {
			return false
		}
	}
	return r.first(k)
}

// credit records a change of an account's record, once for each report: the signatures of a message
// stand or fall together.
func (r *Resolver) credit(c trust.Credit) {
	if !slices.Contains(r.out.Credits[r.credited:], c) {
		r.out.Credits = append(r.out.Credits, c)
	}
}

// eachSupporter calls fn for every member, except the voter who, whose latest vote on the signature
// is for spam.
func (r *Resolver) eachSupporter(base filter.Key, who *voter, fn func(name string, newest int)) {
	r.eachReporter(base, func(name string, newest int) {
		if name == who.name {
			return
		}
		a, ok := r.opts.Accounts.Get(name)
		// A vote in the name of the account's network, cast before the account had proved itself,
		// also counts.
		if ok && (r.standsBy(base, a.Voice()) || a.From.IsValid() && r.standsBy(base, networkVoice(trust.Voucher(a.From)))) {
			fn(name, newest)
		}
	})
}

// eachReporter calls fn for every member who voted spam on the signature in a live generation. It
// passes the index of the newest such generation in the view. The filters of votes are the only
// record of these members.
func (r *Resolver) eachReporter(base filter.Key, fn func(name string, newest int)) {
	names := r.suspects(base)
	keys := make([]filter.Key, 0, len(names))
	for _, name := range names {
		a, _ := r.opts.Accounts.Get(name)
		keys = append(keys, r.opts.Keys.Vote(a.Voice(), bulkhead.Spam, base))
	}
	for i, n := range r.newest(keys) {
		if n >= 0 {
			fn(names[i], n)
		}
	}
}

// suspects returns the members who may have voted spam on the signature in a live generation: all
// members of the buckets with a spam voter. Buckets without a member are not asked for.
func (r *Resolver) suspects(base filter.Key) (names []string) {
	m := r.members()
	bucketKeys := make([]filter.Key, len(m.filled)) // hashed once for all generations
	found := make([][buckets]bool, len(m.byBucket))
	for i, b := range m.filled {
		bucketKeys[i] = r.opts.Keys.Bucket(b, base)
		found[0][b] = r.over.votes().has(bucketKeys[i])
	}
	keys, has := make([]filter.Key, len(m.filled)), make([]bool, len(m.filled))
	for _, block := range r.view.Block.Live {
		epoch, ok := r.view.Epoch(block.SpamGeometry)
		if !ok {
			continue
		}
		for i, k := range bucketKeys {
			keys[i] = r.opts.Keys.At(epoch, k)
		}
		block.Votes.HasBatch(keys, has)
		for i, b := range m.filled {
			found[epoch][b] = found[epoch][b] || has[i]
		}
	}
	for _, b := range m.filled {
		for epoch := range found {
			if !found[epoch][b] {
				continue
			}
			for _, name := range m.byBucket[epoch][b] {
				if len(found) == 1 || !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// newest returns, for each key, the index in the view of the newest generation whose filter of
// votes has it, or -1 if none has.
func (r *Resolver) newest(keys []filter.Key) []int {
	places, has := make([]int, len(keys)), make([]bool, len(keys))
	for i, k := range keys {
		if places[i] = -1; r.over.votes().has(k) {
			places[i] = 0
		}
	}
	there := make([]filter.Key, len(keys))
	for n, block := range r.view.Block.Live {
		for i, k := range keys {
			there[i] = r.at(block, k)
		}
		block.Votes.HasBatch(there, has)
		for i := range has {
			if has[i] && places[i] < 0 {
				places[i] = n
			}
		}
	}
	return places
}
