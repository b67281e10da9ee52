package mesh

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A transport carries messages between nodes. It may lose, repeat, reorder and forget them. Its methods
// may be called concurrently; handlers are called from any goroutine, and may block.
type transport interface {
	// Publish sends a message, or returns an error if the bus is disconnected. Deltas and images
	// are also stored, for nodes that connect later.
	Publish(t wire.Topic, msg []byte) error
	// Listen calls handle for every delta and head, for every ask addressed to self, and for heads
	// of other networks, as far as the broker lets the node receive them. The node's own messages
	// are included. It is called once, before the other methods.
	Listen(self wire.Hint, all bool, handle func(wire.Arrival)) error
	// ListenImages does the same for the images of an origin, until stop is called.
	ListenImages(origin wire.Hint, handle func(wire.Arrival)) (stop func(), err error)
	// StoredDeltas and storedImages call handle for the stored deltas of all origins since a time,
	// or for the stored images of one origin, in order. They return at the end, or when handle
	// returns false. At most a few megabytes are in flight at once.
	StoredDeltas(ctx context.Context, origin *wire.Hint, since time.Time, handle func(wire.Arrival) (extra bool)) error
	StoredImages(ctx context.Context, origin wire.Hint, handle func(wire.Arrival) (extra bool)) error
	// Proves reports whether publishing under another node's topic is impossible, because the
	// broker is this node's own.
	Proves() bool
	// Up receives a value whenever the bus has connected or reconnected.
	Up() <-chan struct{}
	Name() string // the configured address, without a password
	Status() bus.Status
	Close() error
}
