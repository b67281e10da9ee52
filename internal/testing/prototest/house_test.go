package prototest

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/bulkheadtest"
)

var white = bulkhead.MustSignature(bulkhead.Exact, []byte("white"))

func TestHouse(t *testing.T) {
	bulkheadtest.Suite{White: white, Open: func(testing.TB) bulkhead.Clearinghouse {
		return &House{White: map[bulkhead.Signature]bool{white: true}}
	}}.Run(t)
}

func TestTally(t *testing.T) {
	bulkheadtest.Suite{White: white, Open: func(testing.TB) bulkhead.Clearinghouse {
		h := NewTally(3)
		h.White = map[bulkhead.Signature]bool{white: true}
		return h
	}}.Run(t)
}
