package bulkhead

import (
	"context"
	"fmt"
)

// A Look is what is known of one signature by itself. It is the [Finding] of front
// doors whose protocol has counts and no verdicts.
type Look struct {
	Sightings uint32
	Spam      uint32    // spam votes; 0 if Judged is Unjudged
	Judged    Judgement // Unjudged for a signature that is whitelisted
	// Confidence that the signature marks spam, 0 to 100; 0 unless Judged is
	// JudgedSpam.
	Confidence int
	First      int64 // start of the oldest generation that holds it, seconds since 1970; 0 if none
	// Error is the probability, at the present fill of the filters, that an uncounted signature
	// would show as many Sightings; 0 if there are none.
	Error float64
}

// An Aspect is a kind of information that a caller of [Counter].Look requests. Combine several with
// "|".
type Aspect uint8

// The aspects.
const (
	Counts     Aspect = 1 << iota // Sightings, First and Error
	Judgements                    // Judged, Spam and Confidence; First too if it is judged
	// Aside is not an aspect. It excludes the look from the count of checks, because the look
	// belongs to a check that was counted already, or is the program's own.
	Aside
)

// A Counter is a Clearinghouse that also counts single signatures, at a fraction of
// the cost of messages. [CounterOf] makes one from any Clearinghouse.
type Counter interface {
	Clearinghouse
	// Look writes what is known of sigs[i] to out[i], for any number of signatures,
	// whatever out[i] held before. Fields of aspects that are not wanted may be zero.
	// After an error, out is undefined.
	Look(ctx context.Context, sigs []Signature, out []Look, what Aspect) error
	// Count counts n[i] sightings of sigs[i], 1 to [Many], for all i or for none. It
	// skips whitelisted signatures. When it returns nil, the sightings are as
	// durable as the node promises. It refuses what [ValidCounts] refuses, with the
	// same error.
	Count(ctx context.Context, sigs []Signature, n []uint32) error
}

// A CountReporter counts signatures and takes a report in one step. A [Counter] may implement it.
type CountReporter interface {
	// CountAndReport does what [Counter].Count and [Clearinghouse].Report do, and waits for the disk
	// once. Both are counted, or neither, with one exception: after an error that [Tolerate] turns
	// into nil, the signatures are counted and the report is not. Without signatures it is Report.
	CountAndReport(ctx context.Context, sigs []Signature, n []uint32, r Report) (Receipt, error)
}

// CountAndReport counts signatures and takes a report: in one step if house is a [CountReporter],
// otherwise first the signatures and then the report. In the latter case, after an error, the
// signatures may have been counted.
func CountAndReport(ctx context.Context, house Counter, sigs []Signature, n []uint32, r Report) (Receipt, error) {
	if len(sigs) == 0 && len(n) == 0 {
		return house.Report(ctx, r)
	}
	if both, ok := house.(CountReporter); ok {
		return both.CountAndReport(ctx, sigs, n, r)
	}
	if err := house.Count(ctx, sigs, n); err != nil {
		return Receipt{}, fmt.Errorf("%w: %w", errUncounted, err)
	}
	return house.Report(ctx, r)
}

// ValidCounts returns nil if a [Counter] may be asked to count sigs[i] n[i] times:
// there are as many numbers as signatures, possibly none, each number is 1 to [Many],
// and each signature is valid. Otherwise its error wraps [ErrMalformed].
func ValidCounts(sigs []Signature, n []uint32) error {
	if len(sigs) != len(n) {
		return fmt.Errorf("bulkhead: %w: %d counts of %d signatures", ErrMalformed, len(n), len(sigs))
	}
	for i := range sigs {
		if !sigs[i].Valid() {
			return fmt.Errorf("bulkhead: %w: signature %d of %d is invalid", ErrMalformed, i+1, len(sigs))
		}
		if n[i] == 0 || n[i] > Many {
			return fmt.Errorf("bulkhead: %w: count %d of %d is %d, want 1 to %d", ErrMalformed, i+1, len(n), n[i], Many)
		}
	}
	return nil
}

// CounterOf returns house itself if it is a Counter, or else one that uses Check and
// Report, up to 512 signatures at a time. When Count of the latter fails, it may have
// counted some of the signatures.
func CounterOf(house Clearinghouse) Counter {
	if c, ok := house.(Counter); ok {
		return c
	}
	return counter{house}
}

type counter struct{ Clearinghouse }

// counterPart is the number of signatures in one query or report.
const counterPart = 512

func (c counter) Look(ctx context.Context, sigs []Signature, out []Look, _ Aspect) error {
	out = out[:len(sigs)]
	for start := 0; start < len(sigs); start += counterPart {
		end := min(start+counterPart, len(sigs))
		v, err := c.Check(ctx, Query{Signatures: sigs[start:end], Terse: true})
		if err != nil {
			return err
		}
		for i := range v.Findings {
			f, l := &v.Findings[i], &out[start+i]
			*l = Look{Sightings: f.Sightings, Judged: f.Judged}
			if v.Whitelisted != "" {
				l.Judged = Unjudged
			}
			if l.Judged != Unjudged {
				l.Spam = f.Spam
			}
			if l.Judged == JudgedSpam {
				l.Confidence = f.Confidence
			}
			if f.Sightings > 0 {
				l.Error = f.Error
			}
			if !f.First.IsZero() {
				l.First = f.First.Unix()
			}
		}
	}
	return nil
}

func (c counter) Count(ctx context.Context, sigs []Signature, n []uint32) error {
	if err := ValidCounts(sigs, n); err != nil {
		return err
	}
	for start := 0; start < len(sigs); {
		end := start + 1
		for end < len(sigs) && end-start < counterPart && n[end] == n[start] {
			end++
		}
		if _, err := c.Report(ctx, Report{Signatures: sigs[start:end], Vote: Sighting, Count: n[start]}); err != nil {
			return err
		}
		start = end
	}
	return nil
}
