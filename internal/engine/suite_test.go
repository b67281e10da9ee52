package engine

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/bulkheadtest"
)

// TestClearinghouse: the engine is a Clearinghouse and a Counter as their
// documentation says, with its filters and in maps.
func TestClearinghouse(t *testing.T) {
	white := sig(bulkhead.Exact, 5)
	list, err := NewWhitelist(WhitelistEntries{Signatures: []string{white.String()}})
	if err != nil {
		t.Fatal(err)
	}
	for name, exact := range map[string]bool{"filters": false, "maps": true} {
		t.Run(name, func(t *testing.T) {
			bulkheadtest.Suite{White: white, Open: func(t testing.TB) bulkhead.Clearinghouse {
				return open(t, Options{Whitelist: list, Exact: exact,
					Tally: BookOptions{Generation: DefaultTally().Generation, Keep: 3, Capacity: 200_000, Error: 1e-6}})
			}}.Run(t)
		})
	}
	t.Run("as a clearinghouse alone", func(t *testing.T) {
		bulkheadtest.TestClearinghouse(t, func(t testing.TB) bulkhead.Clearinghouse {
			return struct{ bulkhead.Clearinghouse }{open(t, Options{Exact: true})}
		})
	})
}
