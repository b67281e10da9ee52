package arrays

import (
	"context"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A deletionRow is what happens when a share of the elements is deleted completely: the
// share of all elements that is then counted too low, for each way to delete.
type deletionRow struct {
	Share       float64 `json:"share"`        // of the elements that are deleted
	Intuitive   float64 `json:"intuitive"`    // all cells decreased, intuitive
	AllCells    float64 `json:"all_cells"`    // all cells decreased, refined
	MinimaOnly  float64 `json:"minima_only"`  // only the cells at the minimum, refined
	OneCell     float64 `json:"one_cell"`     // one cell at the minimum, refined
	Revocation  float64 `json:"revocation"`   // refined less a filter of the deleted, same size
	Revocation8 float64 `json:"revocation_8"` // the same with a filter of 1/8 of the size
}

// A DeletionResult compares the ways to delete from filters of both kinds.
type DeletionResult struct {
	Rounds int           `json:"rounds"`
	Rows   []deletionRow `json:"rows"`
}

// DeletionUnit returns the work of comparing the ways to delete.
func DeletionUnit(c *experiment.Config) (*experiment.Unit, *DeletionResult) {
	r := &DeletionResult{}
	n := max(1, c.Rounds/50)
	return &experiment.Unit{
		Name: "deletion", Cost: 0.15 * float64(n), Result: r,
		Have: func() bool { return r.Rounds >= n },
		Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
			*r = DeletionResult{Rounds: n}
			for i, share := range []float64{0.01, 0.1, 0.3} {
				row := deletionRow{Share: share}
				for trial := range n {
					if err := ctx.Err(); err != nil {
						return err
					}
					row.add(experiment.Stream(c.Seed, "deletion", i, trial), 1/float64(n*MergeKeys))
					tick((float64(i) + float64(trial+1)/float64(n)) / 3)
				}
				r.Rows = append(r.Rows, row)
			}
			return nil
		},
	}, r
}

// A deletionTrial holds one array for each way to delete.
type deletionTrial struct {
	index                          []uint32
	small                          []uint32 // cells in the array of 1/8
	truth                          []uint32
	intuitive, all, minima, one    experiment.CellArray
	refined, revoked, revokedSmall experiment.CellArray
	deletions                      []uint16
}

func newDeletionTrial(r *rand.Rand, share float64) *deletionTrial {
	t := &deletionTrial{truth: make([]uint32, MergeKeys)}
	var reports []uint16
	for i := range t.truth {
		t.index = appendDistinct(t.index, r, mergeCells, MergeK)
		t.small = appendDistinct(t.small, r, mergeCells/8, MergeK)
		c := paretoCount(r, mergeTail, 10_000)
		t.truth[i] = uint32(c)
		for range c {
			reports = append(reports, uint16(i))
		}
	}
	r.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
	t.intuitive, t.refined = make(experiment.CellArray, mergeCells), make(experiment.CellArray, mergeCells)
	for _, i := range reports {
		ps := t.cells(int(i))
		t.refined.Raise(ps, 1)
		for _, p := range ps {
			t.intuitive[p]++
		}
	}
	t.all, t.minima, t.one = append(experiment.CellArray(nil), t.refined...), append(experiment.CellArray(nil),
		t.refined...), append(experiment.CellArray(nil), t.refined...)
	t.revoked, t.revokedSmall = make(experiment.CellArray, mergeCells), make(experiment.CellArray, mergeCells/8)
	for _, i := range r.Perm(MergeKeys)[:int(share*MergeKeys)] {
		for range t.truth[i] {
			t.deletions = append(t.deletions, uint16(i))
		}
		t.truth[i] = 0
	}
	r.Shuffle(len(t.deletions), func(i, j int) { t.deletions[i], t.deletions[j] = t.deletions[j], t.deletions[i] })
	return t
}

func (t *deletionTrial) cells(i int) []uint32 { return t.index[i*MergeK : (i+1)*MergeK] }

func (t *deletionTrial) smallCells(i int) []uint32 { return t.small[i*MergeK : (i+1)*MergeK] }

func (t *deletionTrial) delete() {
	for _, i := range t.deletions {
		ps := t.cells(int(i))
		t.intuitive.Lower(ps, func(_, _ uint32, _ int) bool { return true })
		t.all.Lower(ps, func(_, _ uint32, _ int) bool { return true })
		t.minima.Lower(ps, func(v, least uint32, _ int) bool { return v == least })
		t.one.Lower(ps, func(v, least uint32, done int) bool { return v == least && done == 0 })
		t.revoked.Raise(ps, 1)
		t.revokedSmall.Raise(t.smallCells(int(i)), 1)
	}
}

// add runs one trial and adds weight for each element counted too low.
func (row *deletionRow) add(r *rand.Rand, weight float64) {
	t := newDeletionTrial(r, row.Share)
	t.delete()
	for i, want := range t.truth {
		ps := t.cells(i)
		count := t.refined.Count(ps)
		for dst, got := range map[*float64]uint32{
			&row.Intuitive: t.intuitive.Count(ps), &row.AllCells: t.all.Count(ps),
			&row.MinimaOnly: t.minima.Count(ps), &row.OneCell: t.one.Count(ps),
			&row.Revocation:  count - min(count, t.revoked.Count(ps)),
			&row.Revocation8: count - min(count, t.revokedSmall.Count(t.smallCells(i))),
		} {
			if got < want {
				*dst += weight
			}
		}
	}
}
