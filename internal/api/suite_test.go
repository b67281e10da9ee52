package api

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/bulkheadtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestClearinghouse: a node behind HTTP behaves, as a Clearinghouse and a Counter, like a node in
// the same process.
func TestClearinghouse(t *testing.T) {
	white := sign(t, "dcc/body:77")
	bulkheadtest.Suite{White: white, Open: func(t testing.TB) bulkhead.Clearinghouse {
		house := prototest.NewTally(3)
		house.White = map[bulkhead.Signature]bool{white: true}
		return dial(t, house, "")
	}}.Run(t)
}
