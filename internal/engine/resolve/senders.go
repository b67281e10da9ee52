package resolve

import (
	"bytes"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// enoughSenders is the maximum number of senders of a link, claimed name, file or contact that are counted a week.
// More senders make no difference to a verdict, and each costs keys.
const enoughSenders = 10

// senders counts the sender's domain among the senders of each link to another domain, of the claimed
// name and of each attached file and contact, once for as long as the blocklist's generations live. The count is this
// node's own: a sum over several nodes would count one sender several times. So each sender also takes its place in
// a sketch, see [evidence.SenderPlaces], which peers can join with theirs. Senders whose From has no
// verified domain do not count, since they can choose any From.
func (r *Resolver) senders(m *Message, own []byte) {
	r.buf.bases = r.buf.bases[:0]
	for i, base := range m.Keys {
		switch m.Signatures[i].Scheme() {
		case bulkhead.Link:
			if host, _, _ := bytes.Cut(m.Signatures[i].Sum(), []byte{'/'}); verdict.Within(host, own) {
				continue
			}
		case bulkhead.Claim, bulkhead.Attachment, bulkhead.Contact:
		default:
			continue
		}
		r.buf.bases = append(r.buf.bases, base)
	}
	r.users(string(own))
}

// authors counts the claimed name among the names that mail of an address claims. A platform sends the mail of all
// its customers from one address, under the name of each.
func (r *Resolver) authors(m *Message, address filter.Key) {
	for i := range m.Signatures {
		if m.Signatures[i].Scheme() == bulkhead.Claim {
			r.buf.bases = append(r.buf.bases[:0], address)
			r.users(string(m.Signatures[i].Sum()))
		}
	}
}

// users counts a user, a domain or a name, for each of r.buf.bases that no live generation knows from it.
func (r *Resolver) users(who string) {
	if len(r.buf.bases) == 0 {
		return
	}
	r.buf.keys = r.buf.keys[:0]
	for _, base := range r.buf.bases {
		r.buf.keys = append(r.buf.keys, base.With(evidence.Addresses))
	}
	counted := r.countAll(r.view.Block.Live[0].Names)
	r.over.names.raise(r.buf.keys, counted)
	r.buf.links = r.buf.links[:0]
	for j, base := range r.buf.bases {
		if counted[j] < enoughSenders {
			r.buf.links = append(r.buf.links, base)
		}
	}
	fresh := r.newTo(who, r.buf.links)
	for _, base := range fresh {
		for _, k := range []filter.Key{r.opts.Keys.Sender(who, base), base.With(evidence.Addresses),
			r.place(who, base).With(evidence.Sighting)} {
			r.name(k, 1)
		}
	}
	if len(r.view.Remote.Origins)+len(r.view.Remote.Counts) > 0 {
		r.showSenders(who, fresh)
	}
}

// place returns the key of a user's place in the sketch of a link.
func (r *Resolver) place(who string, base filter.Key) filter.Key {
	return r.opts.Keys.SenderPlace(base, evidence.PlaceOf(r.opts.Keys.Sender(who, base)))
}

// newTo returns the links that no live generation knows from a user.
func (r *Resolver) newTo(who string, links []filter.Key) []filter.Key {
	for g, block := range r.view.Block.Live {
		if len(links) == 0 {
			break
		}
		r.buf.keys = r.buf.keys[:0]
		for _, base := range links {
			r.buf.keys = append(r.buf.keys, r.at(block, r.opts.Keys.Sender(who, base)))
		}
		known := r.countAll(block.Names)
		if g == 0 {
			r.over.names.raise(r.buf.keys, known)
		}
		fresh := links[:0]
		for j, base := range links {
			if known[j] == 0 {
				fresh = append(fresh, base)
			}
		}
		links = fresh
	}
	return links
}

// showSenders enters the sketches of r.buf.bases into the open generation of the tally, because peers
// see the tally alone and it forgets sooner than names. It shows a link with as many senders as a
// signature needs sightings to be shared. fresh are the links to which the domain is new.
func (r *Resolver) showSenders(domain string, fresh []filter.Key) {
	floor, senders := r.floor(), r.weeks(evidence.Addresses)
	for j, base := range r.buf.bases {
		if senders[j] < floor {
			continue
		}
		r.showPlaces(base, floor)
		if slices.Contains(fresh, base) {
			r.out.Counts.add(r.place(domain, base).With(evidence.Sighting), floor)
		}
	}
}

// showNames shows peers the links, senders and networks of a message, among r.buf.which, that were delivered as
// often as a signature must be to be shared, once in each generation of the blocklist. Peers see the tally, which
// has days, and the spam filter, which they keep for as long as names.
func (r *Resolver) showNames(m *Message) {
	open := r.view.Block.Live[0]
	if len(r.view.Remote.Origins)+len(r.view.Remote.Counts) == 0 || open.ShownFull() {
		return
	}
	bases := r.buf.bases[:0]
	r.buf.keys = r.buf.keys[:0]
	for _, i := range r.buf.which {
		switch m.Signatures[i].Scheme().Facet() {
		case bulkhead.LinkFacet, bulkhead.SenderFacet, bulkhead.NetworkFacet:
			bases = append(bases, m.Keys[i])
			r.buf.keys = append(r.buf.keys, r.opts.Keys.Delivered(m.Keys[i]))
		}
	}
	shared, _ := open.Shared()
	added := r.over.listed()
	if open.Floor > 0 {
		added = &r.over.publishedSpam
	}
	shown := r.hasNow(shared, added)
	r.buf.bases = bases[:0]
	for i, base := range bases {
		if !shown[i] {
			r.buf.bases = append(r.buf.bases, base)
		}
	}
	for i, n := range r.weeks(evidence.Sighting) {
		if n < r.floor() {
			continue
		}
		k := r.opts.Keys.Delivered(r.buf.bases[i])
		r.out.Counts.add(k.With(evidence.Sighting), r.floor())
		if open.Floor > 0 {
			r.show(k)
		} else {
			r.enterSpam(k)
		}
	}
}

// floor returns the count from which peers see a signature, at least 1.
func (r *Resolver) floor() uint32 { return max(1, r.view.Tally.Live[0].Floor) }

// weeks returns the counts of a kind of r.buf.bases among the names of all live generations.
func (r *Resolver) weeks(kind uint8) []uint32 {
	sums := make([]uint32, len(r.buf.bases))
	for g, block := range r.view.Block.Live {
		if len(sums) == 0 {
			break
		}
		r.buf.keys = r.buf.keys[:0]
		for _, base := range r.buf.bases {
			r.buf.keys = append(r.buf.keys, r.at(block, base).With(kind))
		}
		known := r.countAll(block.Names)
		if g == 0 {
			r.over.names.raise(r.buf.keys, known)
		}
		for j, n := range known {
			sums[j] = book.Add(sums[j], n)
		}
	}
	return sums
}

// showPlaces shows the taken places of a link's sketch, once a day on which the link is delivered.
func (r *Resolver) showPlaces(base filter.Key, floor uint32) {
	shown := r.opts.Keys.SenderPlace(base, evidence.SenderPlaces).With(evidence.Sighting)
	r.buf.keys = append(r.buf.keys[:0], shown)
	if r.countAll(r.view.Tally.Live[0].Counts)[0] > 0 || r.over.counted().has(shown) {
		return
	}
	r.count(shown, 1)
	var taken [evidence.SenderPlaces]bool
	for _, block := range r.view.Block.Live {
		r.buf.keys = r.buf.keys[:0]
		for i := range taken {
			r.buf.keys = append(r.buf.keys, r.at(block, r.opts.Keys.SenderPlace(base, i)).With(evidence.Sighting))
		}
		for i, n := range r.countAll(block.Names) {
			taken[i] = taken[i] || n > 0
		}
	}
	for i, is := range taken {
		if is {
			r.out.Counts.add(r.opts.Keys.SenderPlace(base, i).With(evidence.Sighting), floor)
		}
	}
}
