package resolve

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// together records, for each part of the message that is listed now, that the message's samples
// occurred together with it. The record is never removed, and need not be: it has no meaning for a
// part that is not listed. With a floor, peers see the record of a part that has enough voters,
// from the second message on.
func (r *Resolver) together(m *Message) {
	open := r.view.Block.Live[0]
	if open.Floor > 0 {
		r.samplesOf(m, r.manyVoted)
		before := slices.Clone(r.hasNow(open.Spam, r.over.listed()))
		for i, seen := range r.hasNow(open.PublishedSpam, &r.over.publishedSpam) {
			if !seen && before[i] {
				r.show(r.buf.keys[i])
			}
		}
	}
	r.samplesOf(m, func(*item) bool { return true })
	for i, has := range r.hasNow(open.Spam, r.over.listed()) {
		if !has {
			r.enterSpam(r.buf.keys[i])
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

// unlike counts, for each part that was listed before, a root's vote on a further text: the message has too few of the
// samples that occurred together with the part to contain a text reported before.
func (r *Resolver) unlike(m *Message, who *voter) {
	if !who.Root || len(m.Samples) < verdict.PartMatch {
		return
	}
	for i := range r.items {
		it := &r.items[i]
		if !it.part || it.judged != bulkhead.JudgedSpam || !r.lists(it) {
			continue
		}
		var e verdict.Evidence
		columns := r.ledger.of(i)
		for g := range columns {
			e.Contexts = book.Add(e.Contexts, columns[g].All[evidence.Contexts])
		}
		if verdict.OfOneText(r.sharedWith(m, it), &e) < verdict.PartMatch {
			r.raise(0, it.key, evidence.Contexts, &columns[0].All[evidence.Contexts], 1)
		}
	}
}

// sharedWith returns how many of the message's samples, the part among them, occurred together with a part before.
func (r *Resolver) sharedWith(m *Message, part *item) int {
	n, pairs := 1, r.buf.bases[:0]
	for _, k := range m.Samples {
		if k != part.key {
			pairs = append(pairs, r.opts.Keys.Together(part.key, k))
		}
	}
	r.buf.bases = pairs
	for g, block := range r.view.Block.Live {
		r.buf.keys = r.buf.keys[:0]
		for _, k := range pairs {
			r.buf.keys = append(r.buf.keys, r.at(block, k))
		}
		has := r.hasAll(block.Spam)
		if g == 0 {
			r.over.listed().also(r.buf.keys, has)
		}
		rest := pairs[:0]
		for j, k := range pairs {
			if has[j] {
				n++
			} else {
				rest = append(rest, k)
			}
		}
		if pairs = rest; len(pairs) == 0 {
			break
		}
	}
	return n
}
