package mesh

import (
	"context"
	"fmt"
	"slices"
)

// An Organisation identifies a source of counts by the first bytes of the public key of its node.
// An aggregate, a node that publishes the sum of several organisations, lists all of them in every
// head, so that none is counted twice.
type Organisation [8]byte

// maxOrganisations bounds the organisations of one aggregate.
const maxOrganisations = 4096

func appendOrganisations(b []byte, list []Organisation) []byte {
	for _, o := range list {
		b = append(b, o[:]...)
	}
	return b
}

// parseOrganisations reads the output of appendOrganisations. Its error wraps errMessage.
func parseOrganisations(b []byte) (list []Organisation, err error) {
	const size = len(Organisation{})
	if len(b)%size != 0 || len(b)/size > maxOrganisations {
		return nil, fmt.Errorf("%w: organisations of %d bytes, limit %d of %d", errMessage, len(b), maxOrganisations, size)
	}
	for ; len(b) > 0; b = b[size:] {
		o := Organisation(b)
		if n := len(list); n > 0 && slices.Compare(list[n-1][:], o[:]) >= 0 {
			return nil, fmt.Errorf("%w: organisations are out of order", errMessage)
		}
		list = append(list, o)
	}
	return list, nil
}

func compareOrganisations(a, b Organisation) int { return slices.Compare(a[:], b[:]) }

// contains returns the organisations in the counts that the node publishes; nil if it is no
// aggregate.
func (m *Mesh) contains() []Organisation {
	if m.opts.Organisations == nil {
		return nil
	}
	list := slices.Clone(m.opts.Organisations())
	slices.SortFunc(list, compareOrganisations)
	return slices.Compact(list)
}

// Choose returns the keys of the peers that may be members of an aggregate of this node, and all
// organisations that are then in it, the node first. Candidates are the peers of weight 1 whose key
// or group is in named, or all peers of weight 1 if named has "*". Peers that would bring too many
// organisations are not chosen; left counts them.
func (m *Mesh) Choose(named []string) (keys []string, all []Organisation, left int) {
	all = []Organisation{Organisation(m.opts.Identity.public.hint())}
	for _, p := range m.peerList() {
		group := p.Group != "" && slices.Contains(named, p.Group)
		if p.origin().Weight != 1 || !group && !slices.Contains(named, p.ID) && !slices.Contains(named, "*") {
			continue
		}
		m.mu.Lock()
		in := []Organisation{Organisation(p.key.hint())}
		if mem := m.members[p.key.hint()]; mem != nil && len(mem.organisations) > 0 {
			in = mem.organisations
		}
		m.mu.Unlock()
		if len(all)+len(in) > maxOrganisations {
			left++
			continue
		}
		keys, all = append(keys, p.ID), append(all, in...)
	}
	return keys, all, left
}

// within returns the organisations in the aggregates among some peers.
func (m *Mesh) within(keys []string) map[Organisation]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[Organisation]bool)
	for _, mem := range m.members {
		if slices.Contains(keys, mem.ID) {
			for _, o := range mem.organisations {
				out[o] = true
			}
		}
	}
	return out
}

// organisations records which organisations a head lists for the sender's arrays.
func (r *receiver) organisations(ctx context.Context, p *peer, t *track, m *message) {
	if m.stamp.incarnation < t.named.incarnation || m.stamp.incarnation == t.named.incarnation && !m.stamp.newer(t.named) {
		return // replayed by another node
	}
	t.named = m.stamp
	r.figures(p.key.hint(), func(s *stats) { s.organisations = m.organisations })
	r.suspend(ctx, p, r.m.twice(p.key.hint()))
}

// twice returns why an aggregate may not be counted, or "". A conflicting organisation in it is
// this node, a counted peer, or in another counted aggregate. Peers that are counted already take
// precedence, so an aggregate that claims the organisations of others harms only itself.
func (m *Mesh) twice(h hint) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := m.members[h]
	if it == nil || it.origin().Weight == 0 || len(it.organisations) == 0 {
		return ""
	}
	in := func(o Organisation) bool {
		_, found := slices.BinarySearchFunc(it.organisations, o, compareOrganisations)
		return found
	}
	if in(Organisation(m.opts.Identity.public.hint())) {
		return "this node is in it, and would be counted twice"
	}
	for other, mem := range m.members {
		if other == h || mem.origin().Weight == 0 {
			continue
		}
		if len(mem.organisations) == 0 && in(Organisation(other)) {
			return fmt.Sprintf("%s is in it, and is counted already", mem.label())
		}
		if i := slices.IndexFunc(mem.organisations, in); i >= 0 {
			return fmt.Sprintf("%s is in it, and in %s, which is counted already", hint(mem.organisations[i]), mem.label())
		}
	}
	return ""
}
