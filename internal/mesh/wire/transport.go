package wire

import (
	"context"
	"time"
)

// A Transport carries messages between nodes. It may lose, repeat, reorder and forget them. Its methods
// may be called concurrently; handlers are called from any goroutine, and may block.
type Transport interface {
	// Publish sends a message, or returns an error if the bus is disconnected. Deltas and images
	// are also stored, for nodes that connect later.
	Publish(t Topic, msg []byte) error
	// ListenImages calls handle for every image of an origin, until stop is called.
	ListenImages(origin Hint, handle func(Arrival)) (stop func(), err error)
	// StoredDeltas and StoredImages call handle for the stored deltas of all origins since a time,
	// or for the stored images of one origin, in order. They return at the end, or when handle
	// returns false. At most a few megabytes are in flight at once.
	StoredDeltas(ctx context.Context, origin *Hint, since time.Time, handle func(Arrival) (extra bool)) error
	StoredImages(ctx context.Context, origin Hint, handle func(Arrival) (extra bool)) error
	// Proves reports whether publishing under another node's topic is impossible, because the
	// broker is this node's own.
	Proves() bool
	// Connected reports whether the bus is connected to a broker.
	Connected() bool
	Name() string // the configured address, without a password
}
