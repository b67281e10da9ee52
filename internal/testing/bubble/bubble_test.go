package bubble

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Advance(time.Hour)
		if took := time.Since(began); took != time.Hour {
			t.Errorf("advanced by %v, want an hour", took)
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("Advance pauses outside a bubble")
		}
	}()
	Advance(time.Hour)
}
