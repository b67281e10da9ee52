package arrays

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A rateRow is one line of Finch's table, for one limit.
type rateRow struct {
	Relative float64 `json:"relative"` // rate over limit
	Limit    int     `json:"limit"`
	Asked    int     `json:"asked"`
	Found    int     `json:"found"`
	Measured float64 `json:"measured"` // different items counted, over the true number
}

// A RateResult compares Finch's table with measurements.
type RateResult struct {
	Rounds int       `json:"rounds"`
	Rows   []rateRow `json:"rows"`
}

// FinchPrinted is Finch's "1 in" column.
func FinchPrinted() map[float64]string {
	return map[float64]string{0.5: "1 in 170000", 1: "1 in 1700", 2: "1 in 40", math.E: "1 in 10.7", 4: "1 in 3.2"}
}

// RateUnit returns the work of Finch's table.
func RateUnit(c *experiment.Config) (*experiment.Unit, *RateResult) {
	r := &RateResult{}
	return &experiment.Unit{
		Name: "rate", Cost: 0.012 * float64(c.Rounds), Result: r,
		Have: func() bool { return r.Rounds >= c.Rounds },
		Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
			*r = RateResult{Rounds: c.Rounds}
			for _, limit := range []int{10, 100, 1000} {
				for _, e := range paper.UniqueRateErrors() {
					row := rateRow{Relative: e.Relative, Limit: limit}
					if err := row.measure(ctx, c, e.Rate); err != nil {
						return err
					}
					r.Rows = append(r.Rows, row)
					tick(float64(len(r.Rows)) / 15)
				}
			}
			return nil
		},
	}, r
}

// measure lets senders send to r x limit different recipients at one moment, and
// asks their filters for others.
func (row *rateRow) measure(ctx context.Context, c *experiment.Config, rate float64) error {
	ask := int(math.Min(3e6, math.Max(2e4, 200/rate)) * float64(c.Rounds) / 1000)
	perSender := 20 * row.Limit
	now := time.Unix(1, 0)
	var counted, sent float64
	for sender := uint64(0); row.Asked < ask; sender++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Another key for each sender stands for other recipients.
		u, err := filter.NewUniqueRate(filter.UniqueRateConfig{
			Limit: float64(row.Limit), Period: time.Hour, Mode: filter.Strict, Secret: experiment.SecretOf(c.Seed, sender),
		})
		if err != nil {
			return err
		}
		state := make([]byte, u.StateBytes())
		var item [8]byte
		n := int(math.Round(row.Relative * float64(row.Limit)))
		for i := range n {
			binary.LittleEndian.PutUint64(item[:], uint64(i))
			m, err := u.Measure(&state, now, item[:], 1)
			if err != nil {
				return err
			}
			if i == n-1 {
				counted += m.Rate
			}
		}
		sent += float64(n)
		var probe []byte
		for i := range perSender {
			binary.LittleEndian.PutUint64(item[:], uint64(n+i))
			probe = append(probe[:0], state...)
			m, err := u.Measure(&probe, now, item[:], 1)
			if err != nil {
				return err
			}
			if !m.New {
				row.Found++
			}
		}
		row.Asked += perSender
	}
	row.Measured = counted / sent
	return nil
}
