package mesh

import (
	"context"
	"encoding/hex"
	"time"
)

// A topic identifies the destination of a message.
type topic struct {
	kind kind
	// origin is the node that a delta, head or image belongs to, or the node that is asked.
	origin hint
	// key identifies the pages of an image: a later image with the same key replaces it. For an ask
	// it identifies the node that asks.
	key string
}

func (h hint) String() string { return hex.EncodeToString(h[:]) }

// parseHint reads the text that [hint.String] writes.
func parseHint(text string) (h hint, ok bool) {
	// Errors need no check: malformed text differs from the text of the decoded bytes.
	_, _ = hex.Decode(h[:], []byte(text[:min(len(text), hex.EncodedLen(len(h)))]))
	return h, text == h.String()
}

// sender returns the node that may publish under the topic.
func (t topic) sender() (h hint, ok bool) {
	if t.kind != kindAsk {
		return t.origin, true
	}
	return parseHint(t.key)
}

// An arrival is a message that a bus hands over; the receiver owns it.
type arrival struct {
	topic   topic
	network string // fingerprint of another network; "" for this node's own
	msg     []byte
	stored  time.Time // when the broker stored it; zero for a live message
}

// A bus carries messages between nodes. It may lose, repeat, reorder and forget them. Its methods
// may be called concurrently; handlers are called from any goroutine, and may block.
type bus interface {
	// publish sends a message, or returns an error if the bus is disconnected. Deltas and images
	// are also stored, for nodes that connect later.
	publish(t topic, msg []byte) error
	// listen calls handle for every delta and head, for every ask addressed to self, and for heads
	// of other networks, as far as the broker lets the node receive them. The node's own messages
	// are included. It is called once, before the other methods.
	listen(self hint, all bool, handle func(arrival)) error
	// listenImages does the same for the images of an origin, until stop is called.
	listenImages(origin hint, handle func(arrival)) (stop func(), err error)
	// storedDeltas and storedImages call handle for the stored deltas of all origins since a time,
	// or for the stored images of one origin, in order. They return at the end, or when handle
	// returns false. At most a few megabytes are in flight at once.
	storedDeltas(ctx context.Context, origin *hint, since time.Time, handle func(arrival) (more bool)) error
	storedImages(ctx context.Context, origin hint, handle func(arrival) (more bool)) error
	// proves reports whether publishing under another node's topic is impossible, because the
	// broker is this node's own.
	proves() bool
	// up receives a value whenever the bus has connected or reconnected.
	up() <-chan struct{}
	name() string // the configured address, without a password
	status() BusStatus
	close() error
}

// BusStatus is the state of one connection to a broker.
type BusStatus struct {
	Server    string // address
	Connected bool
	Error     string // the last error; "" if none since the connection was made
	BytesIn   uint64 // of messages, without protocol lines
	BytesOut  uint64
	// Trouble names, as a metric does, the problem of a server run by another operator; "" if none
	// is known. Answer is the time that its last answer took; 0 before the first, and for a hub.
	Trouble string
	Answer  time.Duration
}
