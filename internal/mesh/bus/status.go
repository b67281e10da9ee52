package bus

import (
	"time"
)

// Status is the state of one connection to a broker.
type Status struct {
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
