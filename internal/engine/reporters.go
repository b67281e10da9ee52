package engine

import (
	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// buckets is how many buckets the accounts are in. The filters of votes remember,
// besides who voted spam on a signature, of which buckets somebody did: among a
// hundred thousand accounts the few who did are found without asking for each.
// The value is part of the data on disk.
const buckets = 256

// bucketOf returns the bucket of an account. Nobody without the secret can choose
// names that share one.
func bucketOf(secret filter.Secret, name string) uint8 {
	return uint8(secret.Key([]byte("bucket"), []byte(name)).Lo)
}

func (r *resolver) bucketKey(bucket uint8, base filter.Key) filter.Key {
	return uniqueKey(r.e.opts.Secret, "bucket", bulkhead.Spam, string([]byte{bucket}), base)
}

// members are the open accounts whose weight is earned, by bucket.
type members struct {
	byBucket [buckets][]string
	len      int
}

func (e *Engine) members() *members {
	m := new(members)
	for _, name := range e.accounts.Members() {
		b := bucketOf(e.opts.Secret, name)
		m.byBucket[b] = append(m.byBucket[b], name)
		m.len++
	}
	return m
}

// suspects returns the members who may have voted spam on the signature in a
// generation that lives: all of the buckets of which somebody did.
func (r *resolver) suspects(base filter.Key) (names []string) {
	if r.members == nil {
		r.members = r.e.members()
	}
	if r.members.len == 0 {
		return nil
	}
	keys := make([]filter.Key, buckets)
	for b := range keys {
		keys[b] = r.bucketKey(uint8(b), base)
	}
	for b, n := range r.newest(keys) {
		if n >= 0 {
			names = append(names, r.members.byBucket[b]...)
		}
	}
	return names
}

// newest returns, for each key, the place in the view of the newest generation
// whose filter of votes has it; -1 if none does.
func (r *resolver) newest(keys []filter.Key) []int {
	places, has := make([]int, len(keys)), make([]bool, len(keys))
	for i, k := range keys {
		if places[i] = -1; r.voted[k] {
			places[i] = 0
		}
	}
	for n, g := range r.view.block.Live {
		g.Votes.HasBatch(keys, has)
		for i := range has {
			if has[i] && places[i] < 0 {
				places[i] = n
			}
		}
	}
	return places
}

// eachReporter calls fn for every member who voted spam on the signature in a
// generation that lives, with the place of the newest such in the view. The
// filters of votes are the only record of who did.
func (r *resolver) eachReporter(base filter.Key, fn func(name string, newest int)) {
	names := r.suspects(base)
	keys := make([]filter.Key, len(names))
	for i, name := range names {
		a, _ := r.e.accounts.Get(name)
		keys[i] = uniqueKey(r.e.opts.Secret, a.Voice(), bulkhead.Spam, "", base)
	}
	for i, n := range r.newest(keys) {
		if n >= 0 {
			fn(names[i], n)
		}
	}
}
