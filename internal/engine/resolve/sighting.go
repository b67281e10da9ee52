package resolve

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// sighting decides a sighting by a root. It counts once for each recipient who has not received the
// same today, and as a delivery unless the message was caught.
func (r *Resolver) sighting(receipt *bulkhead.Receipt, m *Message, who *voter) {
	if len(m.Keys) == 0 {
		return
	}
	if m.ID != "" && !r.newReport(who.Voice, m) {
		receipt.Duplicate += len(m.Keys)
		return
	}
	texts := r.copies(m, m.Keys[identity(m)].With(1))
	r.buf.names = r.buf.names[:0]
	any := false // whether any name counts
	for i, base := range m.Keys {
		n, f := texts, m.Signatures[i].Scheme().Facet()
		if named(f) {
			n = r.copies(m, base.With(2))
			any = any || n > 0
		}
		r.buf.names = append(r.buf.names, n)
		if n == 0 {
			receipt.Duplicate++
			continue
		}
		receipt.Counted++
		r.see(m, i, n)
	}
	r.spreads(m, texts)
	r.accused(m)
	r.held(m, texts)
	r.learnDelivery(m)
	if !any {
		return
	}
	fresh := r.names(m)
	sender := slices.IndexFunc(m.Signatures, func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.Sender })
	if sender >= 0 && r.buf.names[sender] > 0 && !m.Seen.Caught {
		all := r.opts.Keys.Everything()
		r.countAndName(all.With(evidence.Sighting), r.buf.names[sender])
		if fresh {
			r.countAndName(all.With(evidence.Addresses), 1)
		}
	}
}

// see counts n copies for a signature. No decision of the batch reads sightings, so the overlay need not have them.
func (r *Resolver) see(m *Message, i int, n uint32) {
	base, f := m.Keys[i], m.Signatures[i].Scheme().Facet()
	r.out.Counts.add(base.With(evidence.Sighting), n)
	switch {
	case r.undelivered(m, f):
		r.out.Counts.add(base.With(evidence.Caught), n)
	case f == bulkhead.NetworkFacet && !m.Seen.Flagged,
		m.Seen.GoodSender && (f == bulkhead.LinkFacet || stands(m.Signatures[i].Scheme())):
		r.out.Counts.add(base.With(evidence.Good), n)
	}
}

// undelivered reports whether a message does not count as a delivery of its signatures of a facet.
// A caught message does not count, with two exceptions. It counts for its sender if only the text
// condemned it. It always counts for its network: otherwise the reported share of the network's
// mail could only rise.
func (r *Resolver) undelivered(m *Message, f bulkhead.Facet) bool {
	switch f {
	case bulkhead.NetworkFacet:
		return false
	case bulkhead.SenderFacet:
		return m.Seen.Caught && !m.Seen.TextAlone
	}
	return m.Seen.Caught
}

// named reports whether signatures of a facet are names.
func named(f bulkhead.Facet) bool {
	return blamed(f) && f != bulkhead.AttachmentFacet && f != bulkhead.ImageFacet
}

// held counts a message for each part of a reported text that it contains. A part that occurs in
// much mail that is not spam is a common quotation.
func (r *Resolver) held(m *Message, n uint32) {
	for i, k := range m.Seen.Held {
		if n == 0 || slices.Contains(m.Keys, k) || slices.Contains(m.Seen.Held[:i], k) {
			continue
		}
		r.out.Counts.add(k.With(evidence.Sighting), n)
		switch {
		case m.Seen.Caught:
			r.out.Counts.add(k.With(evidence.Caught), n)
		case m.Seen.GoodSender:
			r.out.Counts.add(k.With(evidence.Good), n)
		}
	}
}

// stands reports whether deliveries by senders of good standing are counted for a scheme. They are
// counted for the schemes that sign the whole text, and for its parts.
func stands(s bulkhead.Scheme) bool {
	switch s {
	case bulkhead.Near, bulkhead.RazorE8, bulkhead.RspamdShingle:
		return false
	}
	return s.Facet() == bulkhead.TextFacet
}

// copies returns the number of copies that count for a key: one for each recipient who has not received
// one today.
func (r *Resolver) copies(m *Message, key filter.Key) (n uint32) {
	if len(m.Recipients) == 0 {
		return min(max(m.Count, 1), bulkhead.Many)
	}
	for _, to := range m.Recipients {
		if r.firstReport(r.opts.Keys.Recipient(to, key)) {
			n++
		}
	}
	return n
}

// identity returns the index of the signature that identifies the text best, and shows whether a
// recipient had the same text. Without a text it is the sender's or the network's.
func identity(m *Message) int {
	text, who := -1, -1
	for i := range m.Signatures {
		s := m.Signatures[i].Scheme()
		switch f := s.Facet(); {
		case f == bulkhead.TextFacet && (text < 0 || s == bulkhead.Exact):
			text = i
		case f == bulkhead.SenderFacet && (who < 0 || m.Signatures[who].Scheme() != bulkhead.Sender),
			f == bulkhead.NetworkFacet && who < 0:
			who = i
		}
	}
	if text < 0 {
		return max(0, who)
	}
	return text
}

// names records deliveries of names for longer than the tally lives, and the number of addresses of
// a sender's domain. The first address of a week is not counted: it is no sign that others use the
// domain. It reports whether this is the sender's first mail of the week.
func (r *Resolver) names(m *Message) (fresh bool) {
	r.buf.which, r.buf.keys = r.buf.which[:0], r.buf.keys[:0]
	domain, address := -1, -1
	for i, base := range m.Keys {
		f := m.Signatures[i].Scheme().Facet()
		if !named(f) || r.undelivered(m, f) {
			continue
		}
		if f == bulkhead.SenderFacet {
			switch verdict.KindOf(m.Signatures[i].Sum()) {
			case verdict.Domain:
				domain = len(r.buf.which)
			case verdict.Address:
				address = len(r.buf.which)
			}
		}
		r.buf.which = append(r.buf.which, i)
		r.buf.keys = append(r.buf.keys, base.With(evidence.Sighting))
	}
	if len(r.buf.keys) == 0 {
		return false
	}
	open := r.view.Block.Live[0]
	had := r.countAll(open.Names)
	r.over.names.raise(r.buf.keys, had)
	fresh, full := true, open.NamesFull()
	for j, i := range r.buf.which {
		fresh = fresh && (had[j] == 0 || m.Signatures[i].Scheme() != bulkhead.Sender)
		if n := r.buf.names[i]; n > 0 && (had[j] > 0 || !full) {
			r.name(r.buf.keys[j], n)
		}
	}
	if domain >= 0 && !full {
		known := address >= 0 && had[address] > 0
		if address >= 0 && had[domain] > 0 && !known {
			r.countAndName(m.Keys[r.buf.which[domain]].With(evidence.Addresses), 1)
		}
		if known && !m.Seen.Caught {
			r.authors(m, m.Keys[r.buf.which[address]])
		}
		if !m.Seen.Caught {
			r.senders(m, m.Signatures[r.buf.which[domain]].Sum())
		}
	}
	r.showNames(m)
	return fresh
}

// name raises a count of names. Decisions of the same batch see it.
func (r *Resolver) name(k filter.Key, n uint32) {
	r.over.names.add(k, n)
	r.out.Names.add(k, n)
}

// countAndName raises a count in both books. No decision of the batch reads it.
func (r *Resolver) countAndName(k filter.Key, n uint32) {
	r.out.Counts.add(k, n)
	r.out.Names.add(k, n)
}

// claims decides a sighting by a stranger. It counts once for a text, regardless of its number and
// of repetitions, and strangers together never make a text bulk. It does not count for links and
// senders, or strangers could make themselves known.
func (r *Resolver) claims(receipt *bulkhead.Receipt, m *Message, who *voter) {
	voice, limit := who.voice(), r.opts.Threshold()/2
	for i, base := range m.Keys {
		f := m.Signatures[i].Scheme().Facet()
		switch {
		case f != bulkhead.TextFacet && f != bulkhead.NoFacet, m.Signatures[i].Scheme() == bulkhead.Part,
			r.tallied(base, evidence.Claims) >= limit:
			receipt.Pending++
		case !r.firstReport(r.opts.Keys.Claim(voice, base)):
			receipt.Duplicate++
		default:
			r.count(base.With(evidence.Claims), 1)
			r.out.Counts.add(base.With(evidence.Sighting), 1)
			receipt.Counted++
		}
	}
}

// tallied returns a count of a key in the live generations of the tally and in the batch.
func (r *Resolver) tallied(base filter.Key, kind uint8) (sum uint32) {
	for _, g := range r.view.Tally.Live {
		epoch, _ := r.view.Epoch(g.CountsGeometry)
		r.buf.keys = append(r.buf.keys[:0], r.opts.Keys.At(epoch, base).With(kind))
		sum = book.Add(sum, r.countAll(g.Counts)[0])
	}
	return book.Add(sum, r.over.counted().count(base.With(kind)))
}
