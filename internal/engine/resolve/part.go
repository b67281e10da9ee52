package resolve

import "slices"

// together records, for each part of the message that is listed now, that the message's samples
// occurred together with it. The record is never removed, and need not be: it has no meaning for a
// part that is not listed. With a floor, peers see the record of a part that has enough voters,
// from the second message on.
func (r *Resolver) together(m *Message) {
	open := r.view.Block.Live[0]
	if open.Floor > 0 {
		r.samplesOf(m, r.manyVoted)
		before := slices.Clone(r.hasAll(open.Spam))
		for i, seen := range r.hasAll(open.PublishedSpam) {
			if k := r.buf.keys[i]; !seen && !r.over.publishedSpam.has(k) && (before[i] || r.over.listed().has(k)) {
				r.show(k)
			}
		}
	}
	r.samplesOf(m, func(*item) bool { return true })
	if len(r.buf.keys) == 0 {
		return
	}
	has := r.hasAll(open.Spam)
	for i, k := range r.buf.keys {
		if !has[i] && !r.over.listed().has(k) {
			r.enterSpam(k)
		}
	}
}

// samplesOf sets r.buf.keys to the pairs of the message's samples with each part that is listed now and
// for which want returns true.
func (r *Resolver) samplesOf(m *Message, want func(*item) bool) {
	r.buf.bases = r.buf.bases[:0]
	for i := range r.items {
		if it := &r.items[i]; it.part && r.lists(it) && want(it) {
			r.buf.bases = append(r.buf.bases, it.key)
		}
	}
	r.buf.keys = r.buf.keys[:0]
	for i, part := range r.buf.bases {
		for _, k := range m.Samples {
			if k != part && !slices.Contains(r.buf.bases[:i], k) {
				r.buf.keys = append(r.buf.keys, r.opts.Keys.Together(part, k))
			}
		}
	}
}
