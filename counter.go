package bulkhead

import (
	"context"
	"fmt"
)

// A Look is what is known of one signature by itself: a [Finding] for front
// doors whose protocol has counters and no verdicts.
type Look struct {
	Sightings uint32
	Spam      uint32    // spam votes; 0 unless Judged says more than Unjudged
	Judged    Judgement // Unjudged for a signature that is white-listed
	// Confidence that the signature marks spam, 0 to 100; 0 unless Judged is
	// JudgedSpam.
	Confidence int
	First      int64 // start of the oldest generation that holds it, seconds since 1970; 0 if none
	// Error is the probability that a signature nobody ever counted would be
	// shown so many times, at the present fill; 0 if there are no Sightings.
	Error float64
}

// An Aspect is what a caller of [Counter].Look wants to know; several may be
// joined by "|".
type Aspect uint8

// The aspects.
const (
	Counts     Aspect = 1 << iota // Sightings, First and Error
	Judgements                    // Judged, Spam and Confidence; First too if it is judged
	// Aside is no aspect but says that the look is not a client's check: it is a
	// further question of one that was counted, or the program's own. It is left
	// out of the count of checks.
	Aside
)

// A Counter is a Clearinghouse that counts signatures by themselves, at a
// fraction of the cost of messages. [CounterOf] makes one of any Clearinghouse.
type Counter interface {
	Clearinghouse
	// Look says what is known of any number of signatures: out[i], which need
	// not be empty before, is of sigs[i]. Fields of other aspects than those
	// wanted may be zero. On an error out says nothing.
	Look(ctx context.Context, sigs []Signature, out []Look, what Aspect) error
	// Count counts n[i] sightings of sigs[i], 1 to [Many], for all i or none.
	// White-listed signatures are passed over. When it returns nil, the
	// sightings are as durable as the node promises. What [ValidCounts] finds
	// wrong is refused, with an error that wraps [ErrMalformed].
	Count(ctx context.Context, sigs []Signature, n []uint32) error
}

// ValidCounts returns nil if a [Counter] may be asked to count sigs[i] n[i] times: as
// many numbers as signatures, each from 1 to [Many], and no signature invalid. Else
// its error wraps [ErrMalformed]. None to count is right.
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

// CounterOf returns house itself if it is a Counter, or else one that asks and
// reports message by message; its Count may have counted a part on an error.
func CounterOf(house Clearinghouse) Counter {
	if c, ok := house.(Counter); ok {
		return c
	}
	return counter{house}
}

type counter struct{ Clearinghouse }

// counterPart is how many signatures go into one query or report.
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
