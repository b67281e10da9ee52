package member

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A Requester is a bus whose broker may belong to a node that is asked for what it keeps.
type Requester interface {
	Name() string
	Connected() bool
	// Holder returns the key of the hub; ok is false if it is not known yet.
	Holder() (key wire.Public, ok bool)
	// Request returns the answer of the broker's owner to a request with the given subject.
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
}
