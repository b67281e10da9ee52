package arrays

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A dccRow is f_dcc, the share of messages shown at or above a threshold that
// they had not reached, for one filter over one stream of real signatures.
type dccRow struct {
	Scheme    string  `json:"scheme"`
	Cells     float64 `json:"cells"` // for each different signature
	K         int     `json:"k"`
	Threshold int     `json:"threshold"`
	Asked     int     `json:"asked"` // look-ups of signatures below the threshold
	WrongI    int     `json:"wrong_i"`
	WrongR    int     `json:"wrong_r"`
	// The same for signatures that were never reported before.
	AskedNew  int `json:"asked_new"`
	WrongNewI int `json:"wrong_new_i"`
	WrongNewR int `json:"wrong_new_r"`
	// Signatures that are not of the stream, asked for at its end.
	AskedUnseen  int `json:"asked_unseen"`
	WrongUnseenI int `json:"wrong_unseen_i"`
	WrongUnseenR int `json:"wrong_unseen_r"`
	// The probability that an unseen signature is shown at the threshold when
	// the stream has ended, from the share of cells that have reached it.
	UnseenI  float64 `json:"unseen_i"`
	UnseenR  float64 `json:"unseen_r"`
	Equation float64 `json:"equation"` // Eq. 4
	Skewed   float64 `json:"skewed"`   // the formula for skewed counts
}

// A DCCResult is f_dcc, measured on counts of real mail.
type DCCResult struct {
	Rounds    int             `json:"rounds"`
	Summaries []streamSummary `json:"summaries"`
	Rows      []dccRow        `json:"rows"`
}

// A streamSummary describes the counts of a stream of real mail.
type streamSummary struct {
	Scheme    string `json:"scheme"`
	Messages  int    `json:"messages"`
	Reports   int    `json:"reports"`
	Different int    `json:"different"`
	Repeated  int    `json:"repeated"` // different signatures reported twice or more
	Reach20   int    `json:"reach_20"` // and 20 times or more
	Largest   int    `json:"largest"`
}

// DCCThresholds returns the counts from which mail is bulk.
func DCCThresholds() []int { return []int{2, 5, 10, 20} }

// DCCCells returns the sizes of the arrays, in cells an element.
func DCCCells() []float64 { return []float64{0.25, 0.5, 1, 2, 4, 8} }

func dccHashes() []int { return []int{3, 4, 6} }

// DCCUnit returns the work of measuring f_dcc on real mail.
func DCCUnit(c *experiment.Config, corpus func(context.Context) (*corpusResult, error)) (*experiment.Unit, *DCCResult) {
	r := &DCCResult{}
	return &experiment.Unit{
		Name: "dcc", Cost: 0.05 * float64(c.Rounds), Result: r,
		Have: func() bool { return r.Rounds >= c.Rounds },
		Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
			mail, err := corpus(ctx)
			if err != nil {
				return err
			}
			*r = DCCResult{Rounds: c.Rounds}
			names := mail.schemes()
			steps := float64(len(names) * len(DCCCells()) * len(dccHashes()))
			for _, scheme := range names {
				stream := mail.Streams[scheme]
				counts := mail.counts(scheme)
				r.Summaries = append(r.Summaries, summarise(mail, scheme, counts))
				for _, cells := range DCCCells() {
					for _, k := range dccHashes() {
						rows, err := measureDCC(ctx, c, stream, counts, cells, k)
						if err != nil {
							return err
						}
						for i := range rows {
							rows[i].Scheme = scheme
						}
						r.Rows = append(r.Rows, rows...)
						tick(float64(len(r.Rows)) / float64(len(DCCThresholds())) / steps)
					}
				}
			}
			return nil
		},
	}, r
}

func summarise(mail *corpusResult, scheme string, counts []uint32) streamSummary {
	s := streamSummary{Scheme: scheme, Messages: mail.Messages, Reports: len(mail.Streams[scheme]), Different: len(counts)}
	for _, n := range counts {
		if n >= 2 {
			s.Repeated++
		}
		if n >= 20 {
			s.Reach20++
		}
		s.Largest = max(s.Largest, int(n))
	}
	return s
}

// measureDCC replays a stream into filters under several sets of hash functions: at 1000
// rounds about a million look-ups, in 1 to 50 replays.
func measureDCC(ctx context.Context, c *experiment.Config, reports []int32, counts []uint32, cells float64,
	k int) ([]dccRow, error) {
	m := max(64, int(cells*float64(len(counts))))
	draws := max(1, min(50, 1_000_000/len(reports))*c.Rounds/1000)
	rows := make([]dccRow, len(DCCThresholds()))
	for i, t := range DCCThresholds() {
		heavy := 0
		for _, n := range counts {
			if int(n) >= t {
				heavy++
			}
		}
		rows[i] = dccRow{
			Cells: cells, K: k, Threshold: t,
			Equation: paper.DCCFalsePositive(uint64(m), uint64(len(reports)), k, uint64(t), uint64(slices.Max(counts))),
			Skewed:   paper.BulkFalsePositive(uint64(m), uint64(len(counts)), k, float64(heavy)/float64(len(counts))),
		}
	}
	r := experiment.Stream(c.Seed, "dcc", m, k)
	for range draws {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		replayDCC(reports, len(counts), m, k, r, rows, 1/float64(draws), 2000*c.Rounds/draws)
	}
	return rows, nil
}

// replayDCC looks every report up before it counts it, in both extensions, and at the end asks for
// unseen signatures that were never reported.
func replayDCC(reports []int32, different, m, k int, r *rand.Rand, rows []dccRow, weight float64, unseen int) {
	index := make([]uint32, 0, different*k)
	for range different {
		index = appendDistinct(index, r, m, k)
	}
	refined, intuitive := make(experiment.CellArray, m), make(experiment.CellArray, m)
	truth := make([]uint32, different)
	for _, id := range reports {
		ps := index[int(id)*k : (int(id)+1)*k]
		shownR, shownI := refined.Count(ps), intuitive.Count(ps)
		for i := range rows {
			t := uint32(rows[i].Threshold)
			if truth[id] >= t {
				continue
			}
			rows[i].look(truth[id] == 0, shownI >= t, shownR >= t)
		}
		truth[id]++
		refined.Raise(ps, 1)
		for _, p := range ps {
			intuitive[p]++
		}
	}
	for i := range rows {
		t := uint32(rows[i].Threshold)
		rows[i].UnseenR += weight * math.Pow(shareAbove(refined, t), float64(k))
		rows[i].UnseenI += weight * math.Pow(shareAbove(intuitive, t), float64(k))
	}
	var ps []uint32
	for range unseen {
		ps = appendDistinct(ps[:0], r, m, k)
		shownR, shownI := refined.Count(ps), intuitive.Count(ps)
		for i := range rows {
			rows[i].AskedUnseen++
			rows[i].WrongUnseenI += experiment.Bit(shownI >= uint32(rows[i].Threshold))
			rows[i].WrongUnseenR += experiment.Bit(shownR >= uint32(rows[i].Threshold))
		}
	}
}

// look counts one look-up.
func (r *dccRow) look(isNew, wrongI, wrongR bool) {
	r.Asked++
	r.WrongI += experiment.Bit(wrongI)
	r.WrongR += experiment.Bit(wrongR)
	r.AskedNew += experiment.Bit(isNew)
	r.WrongNewI += experiment.Bit(isNew && wrongI)
	r.WrongNewR += experiment.Bit(isNew && wrongR)
}

// shareAbove returns the share of cells of at least t.
func shareAbove(a experiment.CellArray, t uint32) float64 {
	n := 0
	for _, v := range a {
		if v >= t {
			n++
		}
	}
	return float64(n) / float64(len(a))
}
