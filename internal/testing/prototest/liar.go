package prototest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A Lie is what a [Liar] says about everything, or the error that it returns for everything.
type Lie struct {
	Name                 string
	Err                  error
	Sightings, Spam, Ham uint32
	Judged               bulkhead.Judgement
	Confidence           int
	Error                float64
}

// ErrFault is a fault of a node that is none of the reasons for refusals.
var ErrFault = errors.New("disk on fire")

// Lies returns a filter's errors in both directions, every judgement, and every error: the
// reasons for refusals, a fault of the node, and an answer that came too late.
func Lies() []Lie {
	return []Lie{
		{Name: "nothing"},
		{Name: "spam", Spam: 1, Judged: bulkhead.JudgedSpam, Confidence: 100, Error: 1},
		{Name: "doubtful spam", Spam: 9, Ham: 8, Judged: bulkhead.JudgedSpam, Confidence: 51, Error: 1},
		{Name: "revoked", Spam: 9, Ham: 1, Judged: bulkhead.Revoked, Error: 1},
		{Name: "counts", Sightings: bulkhead.Many - 1, Error: 1},
		{Name: "full", Sightings: bulkhead.Many, Spam: bulkhead.Many, Ham: bulkhead.Many, Judged: bulkhead.JudgedSpam,
			Confidence: 100, Error: 1},
		{Name: "malformed", Err: fmt.Errorf("liar: %w", bulkhead.ErrMalformed)},
		{Name: "unauthorised", Err: fmt.Errorf("liar: %w", bulkhead.ErrUnauthorised)},
		{Name: "forbidden", Err: fmt.Errorf("liar: %w", bulkhead.ErrForbidden)},
		{Name: "over limit", Err: fmt.Errorf("liar: %w", bulkhead.ErrOverLimit)},
		{Name: "geometry", Err: fmt.Errorf("liar: %w", bulkhead.ErrGeometry)},
		{Name: "read-only", Err: fmt.Errorf("liar: %w", bulkhead.ErrReadOnly)},
		{Name: "fault", Err: ErrFault},
		{Name: "late", Err: context.DeadlineExceeded},
	}
}

// A Liar is a [bulkhead.Counter] with one lie. It accepts and forgets every report. Its methods may
// be called concurrently.
type Liar struct {
	Lie
	// Asked counts the calls.
	Asked atomic.Int64
}

// Check implements [bulkhead.Clearinghouse].
func (l *Liar) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	l.Asked.Add(1)
	if l.Err != nil {
		return bulkhead.Verdict{}, l.Err
	}
	v := bulkhead.Verdict{
		Judged: l.Judged, Confidence: l.Confidence, Threshold: q.Threshold, Sightings: l.Sightings,
		SpamVotes: l.Spam, HamVotes: l.Ham, Error: l.Error, Reasons: []string{"because I say so"},
	}
	if v.Threshold == 0 {
		v.Threshold = 20
	}
	f := bulkhead.Finding{Sightings: l.Sightings, Spam: l.Spam, Ham: l.Ham, Judged: l.Judged,
		Confidence: l.Confidence, Error: l.Error}
	f.Bulk = f.Sightings >= v.Threshold
	v.Bulk = f.Bulk
	v.Class = new(House).class(&v)
	if f.Known() {
		f.First, f.Last = time.Unix(1, 0), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
		v.First = f.First
	}
	for _, sig := range q.Signatures {
		f.Signature = sig
		v.Findings = append(v.Findings, f)
	}
	return v, nil
}

// Report implements [bulkhead.Clearinghouse].
func (l *Liar) Report(_ context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	l.Asked.Add(1)
	if l.Err != nil {
		return bulkhead.Receipt{}, l.Err
	}
	return bulkhead.Receipt{Counted: len(r.Signatures)}, nil
}

// Look implements [bulkhead.Counter].
func (l *Liar) Look(_ context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, _ bulkhead.Aspect) error {
	l.Asked.Add(1)
	for i := range sigs {
		out[i] = bulkhead.Look{Sightings: l.Sightings, Spam: l.Spam, Judged: l.Judged, Confidence: l.Confidence,
			First: 1 << 40, Error: l.Error}
	}
	return l.Err
}

// Count implements [bulkhead.Counter].
func (l *Liar) Count(context.Context, []bulkhead.Signature, []uint32) error {
	l.Asked.Add(1)
	return l.Err
}
