package check

import "github.com/bulkhead-mail/bulkhead/internal/engine/evidence"

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
