package outside_test

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/bulkheadtest"

	"example.com/outside"
)

// TestHouse: the clearinghouse of this module does what every one must do.
func TestHouse(t *testing.T) {
	bulkheadtest.TestClearinghouse(t, func(testing.TB) bulkhead.Clearinghouse { return new(outside.House) })
}
