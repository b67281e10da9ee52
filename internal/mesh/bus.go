package mesh

import (
	"context"
	"encoding/hex"
	"time"
)

// A topic says where a message goes.
type topic struct {
	kind kind
	// origin is whose delta, head or image it is, or who is asked.
	origin hint
	// key says which pages an image has: a later one with the same key replaces it. Of
	// an ask it says who asks.
	key string
}

func (h hint) String() string { return hex.EncodeToString(h[:]) }

// parseHint reads what [hint.String] writes.
func parseHint(text string) (h hint, ok bool) {
	// Whatever else the text is, it is not that of the bytes that were found in it.
	_, _ = hex.Decode(h[:], []byte(text[:min(len(text), hex.EncodedLen(len(h)))]))
	return h, text == h.String()
}

// sender returns who may publish under the topic.
func (t topic) sender() (h hint, ok bool) {
	if t.kind != kindAsk {
		return t.origin, true
	}
	return parseHint(t.key)
}

// An arrival is a message that a bus hands over; the receiver owns it.
type arrival struct {
	topic   topic
	network string // of another network, its fingerprint; "" of this one
	msg     []byte
	stored  time.Time // when the broker stored it; zero if it comes as it is published
}

// A bus carries messages between nodes. It may lose, repeat, reorder and forget
// them. Its methods may be called concurrently; handlers are called from any
// goroutine, and may wait.
type bus interface {
	// publish sends a message, or returns an error if the bus is away. Deltas
	// and images are stored as well, for those who come later.
	publish(t topic, msg []byte) error
	// listen has handle called for every delta and head, and every ask for
	// self, of others and of the node itself, and for heads of other networks, as
	// far as the broker lets the node hear them. It is called once, first.
	listen(self hint, all bool, handle func(arrival)) error
	// listenImages does the same for the images of an origin, until stop is called.
	listenImages(origin hint, handle func(arrival)) (stop func(), err error)
	// stored calls handle for the stored deltas of all origins since a time, or for the
	// stored images of one, in order, and returns at the end, or when handle wants no
	// more. No more than some megabytes of them are under way at once.
	storedDeltas(ctx context.Context, origin *hint, since time.Time, handle func(arrival) (more bool)) error
	storedImages(ctx context.Context, origin hint, handle func(arrival) (more bool)) error
	// proves reports whether nobody can publish under another's topic, because the broker
	// is this node's own.
	proves() bool
	// up receives a value whenever the bus has come (back).
	up() <-chan struct{}
	name() string // the address that it was made for, without a password
	status() BusStatus
	close() error
}

// BusStatus is the state of one connection to a broker.
type BusStatus struct {
	Server    string // address
	Connected bool
	Error     string // the last one, "" if none since it is connected
	BytesIn   uint64 // of messages, without the protocol's lines
	BytesOut  uint64
	// Trouble is what is wrong with a server that somebody else runs, as a metric
	// names it; "" if nothing is known. Answer is what it took to answer last; 0
	// before the first time, and of a hub.
	Trouble string
	Answer  time.Duration
}
