package bulkhead

import "context"

// A BatchChecker answers many queries at once. A [Clearinghouse] may implement it.
type BatchChecker interface {
	// CheckBatch writes the verdict on queries[i] to verdicts[i]. Both slices have the same length.
	// It may reuse the Findings that the verdicts hold. After an error the verdicts have no
	// meaning.
	CheckBatch(ctx context.Context, queries []Query, verdicts []Verdict) error
}

// CheckBatch writes the verdict on queries[i] to verdicts[i]: in one call if the clearinghouse is a
// [BatchChecker], otherwise one by one. It returns the first error, after which the verdicts have
// no meaning. The slices must be of equal length.
func CheckBatch(ctx context.Context, house Clearinghouse, queries []Query, verdicts []Verdict) error {
	if b, ok := house.(BatchChecker); ok {
		return b.CheckBatch(ctx, queries, verdicts)
	}
	for i := range queries {
		v, err := house.Check(ctx, queries[i])
		if err != nil {
			return err
		}
		verdicts[i] = v
	}
	return nil
}
