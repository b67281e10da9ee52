package dcc

import (
	"context"
	"iter"

	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
)

// compute sets the checksums of the message. Its error is the error of ctx.
func (m *mailing) compute(ctx context.Context) error {
	sums, err := digests.Sums(ctx, m.message, m.opt)
	for _, sum := range sums {
		if sum.Other {
			m.other = append(m.other, sum)
		} else {
			m.sums = append(m.sums, sum)
		}
	}
	return err
}

// counts reports whether a checksum is counted: of a kept type, and one that
// clients send.
func (s *Ifd) counts(sum *digests.Sum) bool { return s.book.keeps(sum.Type) && !sum.Local }

// kept returns the checksums of a message that are counted.
func (s *Ifd) kept(m *mailing) []Checksum {
	var kept []Checksum
	for sum := range m.all() {
		if s.counts(sum) {
			kept = append(kept, Checksum{sum.Type, sum.Sum})
		}
	}
	return kept
}

// all iterates over the checksums that are shown, and then over the others.
func (m *mailing) all() iter.Seq[*digests.Sum] {
	return func(yield func(*digests.Sum) bool) {
		for _, sums := range [][]digests.Sum{m.sums, m.other} {
			for i := range sums {
				if !yield(&sums[i]) {
					return
				}
			}
		}
	}
}

// showTotals sets the totals that are shown. There is a tally for each checksum that is counted;
// report means that the tallies include the message.
func (s *Ifd) showTotals(m *mailing, tallies []tally, report bool) {
	total := func() Total {
		now := &tallies[0]
		tallies = tallies[1:]
		m.settle(now)
		t := Total{now.total(), now.total()}
		if report {
			before := now.before(uint32(m.rcptNum), m.spam)
			t.Previous = before.total()
			if m.spam && now.targets.Added > 0 { // or it is whitelisted
				t.Current = Many
			}
		}
		return t
	}
	for _, sum := range m.sums {
		c := countedSum{Sum: sum, threshold: s.Thresholds[sum.Type]}
		if s.counts(&sum) {
			c.kept, c.total = true, total()
			if m.near(&c, report); m.metrics.listed && ofText(sum.Type) {
				c.total = Total{Many, Many}
			}
		}
		m.metrics.sums = append(m.metrics.sums, c)
	}
	// Clients of another release have counted the message by their rules.
	for len(tallies) > 0 {
		t := total()
		for i := range m.metrics.sums {
			if c := &m.metrics.sums[i]; c.Type == digests.TypeFuz1 {
				c.total = Total{max(c.total.Current, t.Current), max(c.total.Previous, t.Previous)}
			}
		}
	}
}
