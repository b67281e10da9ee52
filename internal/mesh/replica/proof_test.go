package replica

import (
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestResetOfAnOrigin checks that the replica of an origin that has gone back is dropped a minute
// after the first doubt, once everything in doubt is of earlier processes than its own.
func TestResetOfAnOrigin(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		held := func(version, boot uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: version, Boot: boot}}
		}
		for name, tt := range map[string]struct {
			change func(t *origin)
			held   []engine.ArrayState
			after  time.Duration
			want   bool
		}{
			"of an earlier process":         {nil, held(9, 10), resetAfter, true},
			"too soon":                      {nil, held(9, 10), resetAfter - 1, false},
			"not in doubt":                  {func(t *origin) { t.suspect = false }, held(9, 10), resetAfter, false},
			"of another life":               {func(t *origin) { t.next = 5 }, held(9, 10), resetAfter, false},
			"of the same process":           {nil, held(9, 20), resetAfter, false},
			"played back of the same one":   {func(t *origin) { t.head.At = 31 }, held(9, 20), resetAfter, false},
			"of a higher number":            {nil, held(9, 30), resetAfter, false},
			"of a higher number, long ago":  {func(t *origin) { t.head.At = 31 }, held(9, 30), resetAfter, true},
			"played back":                   {func(t *origin) { t.head.At = 30 }, held(9, 30), resetAfter, false},
			"of the same process and sound": {nil, held(5, 20), resetAfter, true},
			"below what it found":           {nil, held(4, 20), resetAfter, true},
			"not named":                     {func(t *origin) { clear(t.heads) }, held(5, 20), resetAfter, false},
		} {
			r.again()
			r.Engine.Held, r.Engine.Forgotten = tt.held, nil
			r.t.suspect, r.t.doubted, r.t.head = true, time.Now(), wire.Stamp{Boot: 20, At: 20}
			r.t.heads[x] = wire.ArrayHead{Ref: x, Version: 5, Boot: 20, Lineage: wire.Lineage{{Boot: 20, Base: 5}}}
			r.t.evidence = wire.Evidence{Head: []byte{1}, Led: map[wire.Ref][]byte{x: {2}}}
			r.t.gone = []wire.Ref{x}
			r.t.waiting, r.t.backoff = 5, maxBackoff
			if tt.change != nil {
				tt.change(r.t)
			}
			bubble.Advance(tt.after)
			r.t.reset(t.Context())
			if got := len(r.Engine.Forgotten) > 0; got != tt.want || got && r.Engine.Forgotten[0] != 0 {
				t.Errorf("%s: forgotten since %v, want it: %v", name, r.Engine.Forgotten, tt.want)
			}
			if reset := !r.t.suspect && r.t.gone == nil && r.t.evidence.Led == nil && r.t.evidence.Head != nil &&
				r.t.doubted.IsZero() && r.t.waiting == 0 && r.t.backoff == 2*gapWait; tt.want && !reset {
				t.Errorf("%s: what is known of it is %+v", name, r.t)
			}
		}
	})
}
