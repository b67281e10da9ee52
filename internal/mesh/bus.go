package mesh

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A bus carries messages between nodes. It may lose, repeat, reorder and forget them. Its methods
// may be called concurrently; handlers are called from any goroutine, and may block.
type bus interface {
	// publish sends a message, or returns an error if the bus is disconnected. Deltas and images
	// are also stored, for nodes that connect later.
	publish(t wire.Topic, msg []byte) error
	// listen calls handle for every delta and head, for every ask addressed to self, and for heads
	// of other networks, as far as the broker lets the node receive them. The node's own messages
	// are included. It is called once, before the other methods.
	listen(self wire.Hint, all bool, handle func(wire.Arrival)) error
	// listenImages does the same for the images of an origin, until stop is called.
	listenImages(origin wire.Hint, handle func(wire.Arrival)) (stop func(), err error)
	// storedDeltas and storedImages call handle for the stored deltas of all origins since a time,
	// or for the stored images of one origin, in order. They return at the end, or when handle
	// returns false. At most a few megabytes are in flight at once.
	storedDeltas(ctx context.Context, origin *wire.Hint, since time.Time, handle func(wire.Arrival) (more bool)) error
	storedImages(ctx context.Context, origin wire.Hint, handle func(wire.Arrival) (more bool)) error
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

// A hub is a bus whose broker may belong to a node that is asked for what it keeps.
type hub interface {
	name() string
	connected() bool
	// holder returns the key of the hub; ok is false if it is not known yet.
	holder() (key wire.Public, ok bool)
	// request returns the answer of the broker's owner to a request with the given subject.
	request(ctx context.Context, subject string, data []byte) ([]byte, error)
}
