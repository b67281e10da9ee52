package await

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			after, limit time.Duration
			want         bool
		}{
			{0, 0, true}, {time.Second, 2 * time.Second, true}, {time.Second, time.Second / 2, false},
			{time.Hour, 0, false},
		} {
			began := time.Now()
			got := Within(tt.limit, func() bool { return time.Since(began) >= tt.after })
			if took := time.Since(began); got != tt.want || took > min(tt.after, tt.limit)+longest {
				t.Errorf("a condition after %v, limit %v: %v after %v", tt.after, tt.limit, got, took)
			}
		}
	})
}

// failing records what a test reports.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatalf(string, ...any) { f.failed = true }

func TestTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, want := range []bool{true, false} {
			f := &failing{TB: t}
			if True(f, "a condition", func() bool { return want }); f.failed == want {
				t.Errorf("the condition is %v: the test failed %v", want, f.failed)
			}
		}
	})
}
