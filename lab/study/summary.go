package study

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// A Summary describes how well the tables of a run agree with the printed ones.
type Summary struct {
	Compared int      // printed numbers with a number of ours beside them
	Within3  int      // that differ by at most 3 standard errors
	Empty    int      // without an error on either side, which says nothing
	Outside  []string // the others, a line each
}

// Summarise reads comparison.csv in a run's folder for results. Without one, the summary is
// empty.
func Summarise(out string) (s Summary, err error) {
	f, err := os.Open(filepath.Join(out, "comparison.csv"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	} else if err != nil {
		return s, fmt.Errorf("study: %w", err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return s, fmt.Errorf("study: comparison.csv: %w", err)
	}
	for _, line := range lines[min(1, len(lines)):] {
		if len(line) != 11 {
			return s, fmt.Errorf("study: comparison.csv: line %q", line)
		}
		z, err := strconv.ParseFloat(line[8], 64)
		if err != nil {
			return s, fmt.Errorf("study: comparison.csv: line %q", line)
		}
		s.Compared++
		if math.Abs(z) <= 3 {
			s.Within3++
		} else if math.IsNaN(z) {
			s.Empty++
		} else {
			s.Outside = append(s.Outside,
				fmt.Sprintf("Experiment %s, %s, m = %s, k = %s: printed %s, measured %s, %.1f standard errors",
					line[0], line[1], line[2], line[3], line[4], line[6], z))
		}
	}
	return s, nil
}
