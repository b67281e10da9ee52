// Package bulkheadtest tests implementations of [bulkhead.Clearinghouse], as testing/fstest tests
// file systems.
//
//	func TestHouse(t *testing.T) {
//		bulkheadtest.TestClearinghouse(t, func(t testing.TB) bulkhead.Clearinghouse { return newHouse(t) })
//	}
//
// A Clearinghouse that is also a [bulkhead.Counter] is tested as a Counter. The tests make no
// allowance for false positives: give filters room for some hundred thousand signatures.
package bulkheadtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// TestClearinghouse tests the clearinghouses that open returns, with the defaults of
// a [Suite].
func TestClearinghouse(t *testing.T, open func(testing.TB) bulkhead.Clearinghouse) {
	Suite{Open: open}.Run(t)
}

// A Suite is the set of tests, with what they need to know of the clearinghouse.
type Suite struct {
	// Open returns an empty clearinghouse, and arranges for it to be closed when the test ends.
	Open func(testing.TB) bulkhead.Clearinghouse
	// Reporter casts the votes: its spam vote alone lists a signature, and its revocation alone
	// removes the listing. The zero Reporter is a caller inside the process.
	Reporter bulkhead.Reporter
	// White is a whitelisted signature. If it is the zero Signature, whitelisting is not tested.
	White bulkhead.Signature
}

// Run runs all tests, each on a clearinghouse of its own.
func (s Suite) Run(t *testing.T) {
	for _, tt := range []struct {
		name string
		test func(desk)
	}{
		{"Unknown", testUnknown},
		{"SightingsAddUp", testSightings},
		{"Full", testFull},
		{"Order", testOrder},
		{"Threshold", testThreshold},
		{"IDs", testIDs},
		{"VotesOfOneVoter", testOneVoter},
		{"LatestVoteCounts", testLatest},
		{"Refusals", testRefusals},
		{"Terse", testTerse},
		{"WhiteList", testWhite},
		{"Contexts", testContexts},
		{"Concurrency", testConcurrency},
		{"CountAndLook", testCounter},
		{"CountsRefused", testCounterRefusals},
		{"CountsOfWhite", testCounterWhite},
		{"CountAndReport", testCountAndReport},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.test(desk{t, s, s.Open(t)})
		})
	}
}

// A desk sends the queries and reports of one test.
type desk struct {
	*testing.T
	suite Suite
	house bulkhead.Clearinghouse
}

// sig returns the n-th of the signatures that the tests use.
func sig(n int) bulkhead.Signature {
	sum := sha256.Sum256(fmt.Append(nil, "bulkheadtest ", n))
	return bulkhead.MustSignature(bulkhead.Exact, sum[:20])
}

func sigs(n ...int) (all []bulkhead.Signature) {
	for _, i := range n {
		all = append(all, sig(i))
	}
	return all
}

// to returns the numbers from 0 to n-1.
func to(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func (d desk) query(q bulkhead.Query) bulkhead.Verdict {
	d.Helper()
	q.Reporter = d.suite.Reporter
	v, err := d.house.Check(d.Context(), q)
	if err != nil {
		d.Fatalf("check of %d signatures: %v", len(q.Signatures), err)
	}
	if len(v.Findings) != len(q.Signatures) {
		d.Fatalf("%d findings for %d signatures", len(v.Findings), len(q.Signatures))
	}
	classed(d, &v)
	return v
}

func (d desk) check(sigs ...bulkhead.Signature) bulkhead.Verdict {
	d.Helper()
	return d.query(bulkhead.Query{Signatures: sigs})
}

func (d desk) finding(n int) bulkhead.Finding {
	d.Helper()
	return d.check(sig(n)).Findings[0]
}

func (d desk) report(r bulkhead.Report) bulkhead.Receipt {
	d.Helper()
	r.Reporter = d.suite.Reporter
	receipt, err := d.house.Report(d.Context(), r)
	if err != nil {
		d.Fatalf("report %v of %d signatures: %v", r.Vote, len(r.Signatures), err)
	}
	return receipt
}

// vote reports one signature.
func (d desk) vote(v bulkhead.Vote, n int) bulkhead.Receipt {
	d.Helper()
	return d.report(bulkhead.Report{Signatures: sigs(n), Vote: v})
}

// unchanged returns a function that compares later findings on signatures with the present ones.
func (d desk) unchanged(of ...bulkhead.Signature) func(when string) {
	d.Helper()
	before := d.check(of...)
	return func(when string) {
		d.Helper()
		if after := d.check(of...); !slices.EqualFunc(after.Findings, before.Findings, same) {
			d.Errorf("%s: findings %+v, were %+v", when, after.Findings, before.Findings)
		}
	}
}

// same compares two findings, regardless of the internal form of their times.
func same(a, b bulkhead.Finding) bool {
	dates := a.First.Equal(b.First) && a.Last.Equal(b.Last)
	a.First, a.Last, b.First, b.Last = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return dates && a == b
}

// refused reports whether err is an error with which a clearinghouse refuses a request.
func refused(err error) bool {
	for _, reason := range []error{
		bulkhead.ErrMalformed, bulkhead.ErrUnauthorised, bulkhead.ErrForbidden, bulkhead.ErrOverLimit,
		bulkhead.ErrGeometry, bulkhead.ErrReadOnly,
	} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}
