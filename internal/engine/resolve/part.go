package resolve

import "slices"

// together records, for each part of the message that is listed now, that the message's
// samples occurred together with it. Nothing takes that back, and nothing needs to: it has
// no meaning for a part that is not listed.
func (r *Resolver) together(m *Message) {
	r.bases = r.bases[:0]
	for i := range r.items {
		if it := &r.items[i]; it.part && r.lists(it) {
			r.bases = append(r.bases, it.key)
		}
	}
	r.keys = r.keys[:0]
	for i, part := range r.bases {
		for _, k := range m.Samples {
			if k != part && !slices.Contains(r.bases[:i], k) {
				r.keys = append(r.keys, r.opts.Keys.Together(part, k))
			}
		}
	}
	if len(r.keys) == 0 {
		return
	}
	has := r.hasAll(r.view.Block.Live[0].Spam)
	for i, k := range r.keys {
		if !has[i] && !r.over.listed().has(k) {
			r.enterSpam(k)
		}
	}
}
