package prototest

import (
	"context"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// An Ailing is a [Tally] that fails at one chosen call; [Ailing.Test] tries each call in
// turn. Its methods may be called concurrently.
type Ailing struct {
	*Tally
	// Aside reports whether a front door looks a signature up in the background. Such calls
	// neither fail nor count. nil means none.
	Aside func(bulkhead.Signature) bool

	mu     sync.Mutex
	calls  int
	failAt int // 0: at none
}

// Call counts a call, and returns [ErrFault] if it is the one that must fail. Fakes of other
// things that a front door calls may share it.
func (a *Ailing) Call() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls++; a.calls == a.failAt {
		return ErrFault
	}
	return nil
}

// arm makes the n-th call from now on fail.
func (a *Ailing) arm(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls, a.failAt = 0, n
}

// failed reports whether the call that must fail has come.
func (a *Ailing) failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failAt > 0 && a.calls >= a.failAt
}

// Test calls do again and again, with a fault at the first call to the clearinghouse, then
// at the second, until do makes no more calls. do must return an error exactly when there was
// a fault.
func (a *Ailing) Test(t testing.TB, what string, do func() error) {
	t.Helper()
	defer a.arm(0)
	for n := 1; ; n++ {
		a.arm(n)
		err := do()
		failed := a.failed()
		if failed != (err != nil) {
			t.Errorf("%s with a fault at call %d: faulty %v, but returned %v", what, n, failed, err)
		}
		if failed {
			continue
		}
		if n == 1 {
			t.Errorf("%s asks nothing that could fail", what)
		}
		return
	}
}

// Check implements [bulkhead.Clearinghouse].
func (a *Ailing) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	if err := a.Call(); err != nil {
		return bulkhead.Verdict{}, err
	}
	return a.Tally.Check(ctx, q)
}

// Report implements [bulkhead.Clearinghouse].
func (a *Ailing) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	if err := a.Call(); err != nil {
		return bulkhead.Receipt{}, err
	}
	return a.Tally.Report(ctx, r)
}

// Look implements [bulkhead.Counter].
func (a *Ailing) Look(ctx context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	if a.Aside == nil || len(sigs) == 0 || !a.Aside(sigs[0]) {
		if err := a.Call(); err != nil {
			return err
		}
	}
	return a.Tally.Look(ctx, sigs, out, what)
}

// Count implements [bulkhead.Counter].
func (a *Ailing) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	if err := a.Call(); err != nil {
		return err
	}
	return a.Tally.Count(ctx, sigs, n)
}
