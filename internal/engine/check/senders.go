package check

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
)

// places holds the buffers of [scratch.Senders].
type places struct {
	asks    [evidence.SenderPlaces]evidence.Ask
	records [evidence.SenderPlaces]evidence.Record
}

// Senders implements [verdict.Pairs] for the current message. It joins the sketches of the node and of
// the peers whose deliveries count.
func (s *scratch) Senders(i int) (n uint32) {
	if !s.peers {
		return 0 // the node's own count is exact
	}
	for place := range s.places.asks {
		s.places.asks[place] = evidence.Ask{Key: s.keys.SenderPlace(s.asks[i].Key, place),
			Wants: evidence.Delivered | evidence.Names}
	}
	s.reader.Read(s.places.asks[:], s.places.records[:])
	for place := range s.places.records {
		if r := &s.places.records[place]; r.Old+r.New > 0 {
			n++
		}
	}
	return n
}

// Vouched implements [verdict.Pairs] for the current message. The tally shows deliveries of the last days. A generation
// of the blocklist does not record days, so only one that ended at least half a day ago counts.
func (s *scratch) Vouched(i int) bool {
	if !s.peers {
		return false
	}
	key := s.keys.Delivered(s.asks[i].Key)
	var of [1]evidence.Record
	if s.reader.Read([]evidence.Ask{{Key: key, Wants: evidence.Delivered}}, of[:]); of[0].Old > of[0].Late {
		return true
	}
	ended := s.opts.Now().Add(-time.Duration(s.opts.Day) * time.Second / 2).Truncate(s.opts.Week)
	return s.reader.Vouched(key, s.opts.Accounts.Policy().Promotion, uint64(max(0, ended.Unix())))
}
