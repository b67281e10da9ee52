package member

import (
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// Contained returns the organisations in the counts that the node publishes; nil if it is no
// aggregate.
func (b *Book) Contained() []wire.Organisation {
	if b.opts.Organisations == nil {
		return nil
	}
	list := slices.Clone(b.opts.Organisations())
	slices.SortFunc(list, wire.CompareOrganisations)
	return slices.Compact(list)
}

// Choose returns the keys of the peers that may be members of an aggregate of this node, and all
// organisations that are then in it, the node first. Candidates are the peers of weight 1 whose key
// or group is in named, or all peers of weight 1 if named has "*". Peers that would bring too many
// organisations are not chosen; left counts them.
func (b *Book) Choose(named []string) (keys []string, all []wire.Organisation, left int) {
	all = []wire.Organisation{wire.Organisation(b.opts.Identity.Hint())}
	for _, p := range b.List() {
		group := p.Group != "" && slices.Contains(named, p.Group)
		if p.Origin().Weight != 1 || !group && !slices.Contains(named, p.ID) && !slices.Contains(named, "*") {
			continue
		}
		b.mu.Lock()
		in := []wire.Organisation{wire.Organisation(p.Key.Hint())}
		if mem := b.Members[p.Key.Hint()]; mem != nil && len(mem.Organisations) > 0 {
			in = mem.Organisations
		}
		b.mu.Unlock()
		if len(all)+len(in) > wire.MaxOrganisations {
			left++
			continue
		}
		keys, all = append(keys, p.ID), append(all, in...)
	}
	return keys, all, left
}

// within returns the organisations in the aggregates among some peers.
func (b *Book) within(keys []string) map[wire.Organisation]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[wire.Organisation]bool)
	for _, mem := range b.Members {
		if slices.Contains(keys, mem.ID) {
			for _, o := range mem.Organisations {
				out[o] = true
			}
		}
	}
	return out
}

// CountedTwice returns why an aggregate may not be counted, or "". A conflicting organisation in it is
// this node, a counted peer, or in another counted aggregate. Peers that are counted already take
// precedence, so an aggregate that claims the organisations of others harms only itself.
func (b *Book) CountedTwice(h wire.Hint) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	it := b.Members[h]
	if it == nil || it.Origin().Weight == 0 || len(it.Organisations) == 0 {
		return ""
	}
	in := func(o wire.Organisation) bool {
		_, found := slices.BinarySearchFunc(it.Organisations, o, wire.CompareOrganisations)
		return found
	}
	if in(wire.Organisation(b.opts.Identity.Hint())) {
		return "this node is in it, and would be counted twice"
	}
	for other, mem := range b.Members {
		if other == h || mem.Origin().Weight == 0 {
			continue
		}
		if len(mem.Organisations) == 0 && in(wire.Organisation(other)) {
			return fmt.Sprintf("%s is in it, and is counted already", mem.Label())
		}
		if i := slices.IndexFunc(mem.Organisations, in); i >= 0 {
			return fmt.Sprintf("%s is in it, and in %s, which is counted already", wire.Hint(mem.Organisations[i]), mem.Label())
		}
	}
	return ""
}
