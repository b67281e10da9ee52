package calibration

import (
	"hash/maphash"

	"github.com/bulkhead-mail/bulkhead"
)

// maxRemembered is the number of decisions after which the older half is forgotten. A decision takes
// some 20 bytes.
const maxRemembered = 1 << 17

// decisions are the numbers of the first and the last decision on a text, or on one message with the text.
type decisions struct{ first, last uint16 }

// A memory remembers decisions by text, and by text with Message-ID.
type memory struct {
	young, old map[uint64]decisions
}

var seed = maphash.MakeSeed()

// hash returns the hash of the text that signatures identify best; ok is false without any text.
func hash(sigs []bulkhead.Signature, id string) (sum uint64, ok bool) {
	var h maphash.Hash
	h.SetSeed(seed)
	best := -1
	for i := range sigs {
		s := sigs[i].Scheme()
		if s.Facet() == bulkhead.TextFacet && (best < 0 || s == bulkhead.Exact) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	_, _ = h.WriteString(sigs[best].Scheme().String())
	_, _ = h.Write(sigs[best].Sum())
	_, _ = h.WriteString(id)
	return h.Sum64(), true
}

// note remembers the decision on a message.
func (m *memory) note(sigs []bulkhead.Signature, id string, decided uint16) {
	m.add(sigs, "", decided)
	if id != "" {
		m.add(sigs, id, decided)
	}
}

func (m *memory) add(sigs []bulkhead.Signature, id string, decided uint16) {
	sum, ok := hash(sigs, id)
	if !ok {
		return
	}
	if len(m.young) >= maxRemembered/2 || m.young == nil {
		m.young, m.old = make(map[uint64]decisions), m.young
	}
	d, known := m.young[sum]
	if !known {
		if d, known = m.old[sum]; !known {
			d.first = decided
		}
	}
	d.last = decided
	m.young[sum] = d
}

// find returns the number of the decision that a vote is about, or 0 if none is remembered. Of several
// copies without a Message-ID, a report of spam is most likely about the first, which was let through if
// any was, and an objection about the last.
func (m *memory) find(sigs []bulkhead.Signature, id string, vote bulkhead.Vote) uint16 {
	ids := []string{id, ""}
	if id == "" {
		ids = ids[1:]
	}
	for _, id := range ids {
		sum, ok := hash(sigs, id)
		if !ok {
			break
		}
		for _, all := range []map[uint64]decisions{m.young, m.old} {
			if d, known := all[sum]; known {
				if vote == bulkhead.Spam {
					return d.first
				}
				return d.last
			}
		}
	}
	return 0
}
