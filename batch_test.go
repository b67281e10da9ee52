package bulkhead

import (
	"context"
	"errors"
	"testing"
)

// one answers each query with the number of spam votes that the sum of its single signature gives.
type one struct {
	Clearinghouse
	checks, fails int
}

func (h *one) Check(_ context.Context, q Query) (Verdict, error) {
	if h.checks++; h.checks == h.fails {
		return Verdict{}, ErrMalformed
	}
	return Verdict{SpamVotes: uint32(q.Signatures[0].Sum()[0])}, nil
}

// many is a BatchChecker whose Check must not be called.
type many struct{ one }

func (h *many) CheckBatch(_ context.Context, queries []Query, verdicts []Verdict) error {
	for i := range queries {
		verdicts[i].SpamVotes = 100 + uint32(queries[i].Signatures[0].Sum()[0])
	}
	return nil
}

func TestCheckBatch(t *testing.T) {
	queries := make([]Query, 3)
	for i := range queries {
		queries[i].Signatures = []Signature{MustSignature(PyzorDigest, append([]byte{byte(i)}, make([]byte, 19)...))}
	}
	votes := func(house Clearinghouse) (got [3]uint32, err error) {
		verdicts := make([]Verdict, len(queries))
		err = CheckBatch(t.Context(), house, queries, verdicts)
		for i := range verdicts {
			got[i] = verdicts[i].SpamVotes
		}
		return got, err
	}
	single := &one{}
	if got, err := votes(single); err != nil || got != [3]uint32{0, 1, 2} || single.checks != 3 {
		t.Errorf("one by one: %v after %d checks, %v", got, single.checks, err)
	}
	failing := &one{fails: 2}
	if _, err := votes(failing); !errors.Is(err, ErrMalformed) || failing.checks != 2 {
		t.Errorf("the second check fails: %v after %d checks", err, failing.checks)
	}
	batch := &many{}
	if got, err := votes(batch); err != nil || got != [3]uint32{100, 101, 102} || batch.checks != 0 {
		t.Errorf("at once: %v with %d single checks, %v", got, batch.checks, err)
	}
}
