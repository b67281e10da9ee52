package wire

import (
	"time"
)

// A Topic identifies the destination of a message.
type Topic struct {
	Kind Kind
	// Origin is the node that a delta, head or image belongs to, or the node that is asked.
	Origin Hint
	// Key identifies the pages of an image: a later image with the same key replaces it. For an ask
	// it identifies the node that asks.
	Key string
}

// Sender returns the node that may publish under the topic.
func (t Topic) Sender() (h Hint, ok bool) {
	if t.Kind != KindAsk {
		return t.Origin, true
	}
	return ParseHint(t.Key)
}

// An Arrival is a message that a bus hands over; the receiver owns it.
type Arrival struct {
	Topic   Topic
	Network string // fingerprint of another network; "" for this node's own
	Data    []byte
	Stored  time.Time // when the broker stored it; zero for a live message
}
