package study

import (
	"context"
	"math/rand/v2"
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

type deletionResult struct {
	Rounds int           `json:"rounds"`
	Rows   []deletionRow `json:"rows"`
}

func (c *Config) deletionUnit() (*unit, *deletionResult) {
	r := &deletionResult{}
	n := max(1, c.Rounds/50)
	return &unit{
		name: "deletion", cost: 0.15 * float64(n), result: r,
		have: func() bool { return r.Rounds >= n },
		run: func(ctx context.Context, _ *simulator, tick func(float64)) error {
			*r = deletionResult{Rounds: n}
			for i, share := range []float64{0.01, 0.1, 0.3} {
				row := deletionRow{Share: share}
				for trial := range n {
					if err := ctx.Err(); err != nil {
						return err
					}
					row.add(stream(c.Seed, "deletion", i, trial), 1/float64(n*mergeKeys))
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
	intuitive, all, minima, one    cellArray
	refined, revoked, revokedSmall cellArray
	deletions                      []uint16
}

func newDeletionTrial(r *rand.Rand, share float64) *deletionTrial {
	t := &deletionTrial{truth: make([]uint32, mergeKeys)}
	var reports []uint16
	for i := range t.truth {
		t.index = appendDistinct(t.index, r, mergeCells, mergeK)
		t.small = appendDistinct(t.small, r, mergeCells/8, mergeK)
		c := paretoCount(r, mergeTail, 10_000)
		t.truth[i] = uint32(c)
		for range c {
			reports = append(reports, uint16(i))
		}
	}
	r.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
	t.intuitive, t.refined = make(cellArray, mergeCells), make(cellArray, mergeCells)
	for _, i := range reports {
		ps := t.cells(int(i))
		t.refined.raise(ps, 1)
		for _, p := range ps {
			t.intuitive[p]++
		}
	}
	t.all, t.minima, t.one = append(cellArray(nil), t.refined...), append(cellArray(nil), t.refined...), append(cellArray(nil), t.refined...)
	t.revoked, t.revokedSmall = make(cellArray, mergeCells), make(cellArray, mergeCells/8)
	for _, i := range r.Perm(mergeKeys)[:int(share*mergeKeys)] {
		for range t.truth[i] {
			t.deletions = append(t.deletions, uint16(i))
		}
		t.truth[i] = 0
	}
	r.Shuffle(len(t.deletions), func(i, j int) { t.deletions[i], t.deletions[j] = t.deletions[j], t.deletions[i] })
	return t
}

func (t *deletionTrial) cells(i int) []uint32 { return t.index[i*mergeK : (i+1)*mergeK] }

func (t *deletionTrial) smallCells(i int) []uint32 { return t.small[i*mergeK : (i+1)*mergeK] }

// lower decreases those cells of ps that want says, but none below 0.
func (a cellArray) lower(ps []uint32, want func(v, least uint32, done int) bool) {
	least, done := a.count(ps), 0
	for _, p := range ps {
		if v := a[p]; v > 0 && want(v, least, done) {
			a[p]--
			done++
		}
	}
}

func (t *deletionTrial) delete() {
	for _, i := range t.deletions {
		ps := t.cells(int(i))
		t.intuitive.lower(ps, func(_, _ uint32, _ int) bool { return true })
		t.all.lower(ps, func(_, _ uint32, _ int) bool { return true })
		t.minima.lower(ps, func(v, least uint32, _ int) bool { return v == least })
		t.one.lower(ps, func(v, least uint32, done int) bool { return v == least && done == 0 })
		t.revoked.raise(ps, 1)
		t.revokedSmall.raise(t.smallCells(int(i)), 1)
	}
}

// add runs one trial and adds weight for each element counted too low.
func (row *deletionRow) add(r *rand.Rand, weight float64) {
	t := newDeletionTrial(r, row.Share)
	t.delete()
	for i, want := range t.truth {
		ps := t.cells(i)
		count := t.refined.count(ps)
		for dst, got := range map[*float64]uint32{
			&row.Intuitive: t.intuitive.count(ps), &row.AllCells: t.all.count(ps),
			&row.MinimaOnly: t.minima.count(ps), &row.OneCell: t.one.count(ps),
			&row.Revocation:  count - min(count, t.revoked.count(ps)),
			&row.Revocation8: count - min(count, t.revokedSmall.count(t.smallCells(i))),
		} {
			if got < want {
				*dst += weight
			}
		}
	}
}
