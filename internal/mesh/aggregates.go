package mesh

import (
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// contains returns the organisations in the counts that the node publishes; nil if it is no
// aggregate.
func (b *Book) contains() []wire.Organisation {
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
	for _, p := range b.peerList() {
		group := p.Group != "" && slices.Contains(named, p.Group)
		if p.origin().Weight != 1 || !group && !slices.Contains(named, p.ID) && !slices.Contains(named, "*") {
			continue
		}
		b.mu.Lock()
		in := []wire.Organisation{wire.Organisation(p.key.Hint())}
		if mem := b.members[p.key.Hint()]; mem != nil && len(mem.organisations) > 0 {
			in = mem.organisations
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
	for _, mem := range b.members {
		if slices.Contains(keys, mem.ID) {
			for _, o := range mem.organisations {
				out[o] = true
			}
		}
	}
	return out
}

// twice returns why an aggregate may not be counted, or "". A conflicting organisation in it is
// this node, a counted peer, or in another counted aggregate. Peers that are counted already take
// precedence, so an aggregate that claims the organisations of others harms only itself.
func (b *Book) twice(h wire.Hint) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	it := b.members[h]
	if it == nil || it.origin().Weight == 0 || len(it.organisations) == 0 {
		return ""
	}
	in := func(o wire.Organisation) bool {
		_, found := slices.BinarySearchFunc(it.organisations, o, wire.CompareOrganisations)
		return found
	}
	if in(wire.Organisation(b.opts.Identity.Hint())) {
		return "this node is in it, and would be counted twice"
	}
	for other, mem := range b.members {
		if other == h || mem.origin().Weight == 0 {
			continue
		}
		if len(mem.organisations) == 0 && in(wire.Organisation(other)) {
			return fmt.Sprintf("%s is in it, and is counted already", mem.label())
		}
		if i := slices.IndexFunc(mem.organisations, in); i >= 0 {
			return fmt.Sprintf("%s is in it, and in %s, which is counted already", wire.Hint(mem.organisations[i]), mem.label())
		}
	}
	return ""
}
