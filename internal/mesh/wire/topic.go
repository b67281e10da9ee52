package wire

import (
	"errors"
	"fmt"
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
	// Still, if Data is empty, is the sum of the head that the origin still publishes.
	Still HeadSum
}

// ErrTooLarge reports that a bus never accepts a message of that size.
var ErrTooLarge = errors.New("mesh: message is larger than the broker accepts")

// Prefixes of the subjects of requests to the node that owns a broker; the start of the requesting
// node's key follows.
const (
	GroupPrefix  = "bh.group."
	SecretPrefix = "bh.secret."
)

// NetworkName returns the fingerprint of the network whose secret has the given ID.
func NetworkName(keyID uint64) string { return fmt.Sprintf("%016x", keyID) }
