package attack

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/bulkhead-mail/bulkhead/lab/figure"
)

// Honest returns the numbers of honest users against which attacks are measured.
func Honest() []int { return []int{0, 5, 50} }

// Says is the result in words: what the attack takes, how many votes undo it, and a dagger if
// the log does not warn of it.
func (r *Result) Says() string {
	if r.Takes > 0 && !r.Visible {
		return r.takes() + " †"
	}
	return r.takes()
}

func (r *Result) takes() string {
	switch {
	case r.Takes == 0:
		return fmt.Sprintf("never up to %d", r.Limit)
	case r.Undone > 0:
		return fmt.Sprintf("%d, undone by %d", r.Takes, r.Undone)
	case r.mend != nil:
		return fmt.Sprintf("%d, not undone by %d", r.Takes, answers(r.Honest, r.Takes))
	}
	return fmt.Sprint(r.Takes)
}

//go:embed report.tmpl
var page string

// Report writes results, for each scenario one against each of [Honest], as a page in
// Markdown that shows the figures of [Figures].
func Report(w io.Writer, results []Result) error {
	t, err := template.New("attacks").Parse(page)
	if err != nil {
		return err
	}
	tables := make(map[string]string) // by means
	for of := range slices.Chunk(results, len(Honest())) {
		row := "| " + of[0].Name
		for i := range of {
			row += " | " + of[i].Says()
		}
		tables[string(of[0].Means)] += row + " |\n"
	}
	for means, rows := range tables {
		head := "| to"
		for _, honest := range Honest() {
			head += fmt.Sprintf(" | against %d", honest)
		}
		tables[means] = head + " |\n|---" + strings.Repeat("|---", len(Honest())) + "|\n" + strings.TrimSuffix(rows, "\n")
	}
	return t.Execute(w, tables)
}

// Prices writes what each attack takes, one line each: its name, its means, the number of honest users,
// the number of means that it takes (0 if the limit is not enough), the limit, and the number of votes
// that undo it. [ReadPrices] reads it.
func Prices(w io.Writer, results []Result) error {
	for i := range results {
		r := &results[i]
		if _, err := fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n", r.Name, r.Means, r.Honest, r.Takes, r.Limit,
			r.Undone); err != nil {
			return err
		}
	}
	return nil
}

// ReadPrices reads what [Prices] has written.
func ReadPrices(r io.Reader) (all []Result, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		var p Result
		if len(fields) == 6 {
			p.Name, p.Means = fields[0], Means(fields[1])
			_, err = fmt.Sscan(strings.Join(fields[2:], " "), &p.Honest, &p.Takes, &p.Limit, &p.Undone)
		}
		if len(fields) != 6 || err != nil {
			return nil, fmt.Errorf("attack: %.80q is no price", lines.Text())
		}
		all = append(all, p)
	}
	return all, lines.Err()
}

// Figures returns the pictures of the report: what mailboxes and peers it takes, and
// what betrayal costs.
func Figures(ctx context.Context, results []Result) ([]figure.Figure, error) {
	weights := figure.Figure{
		Name: "weight", Title: "An account that lies on day 30", XLabel: "day", YLabel: "weight of its vote",
		YMin: 0, YMax: 0.8, XMin: 0, XMax: 3*agedDays - 1,
	}
	for i, lies := range []int{1, 2, 4} {
		days, err := Betrayal(ctx, lies)
		if err != nil {
			return nil, err
		}
		s := figure.Series{Label: fmt.Sprintf("newsletters reported: %d", lies), Color: figure.Palette(i), Dashed: i == 1}
		for _, d := range days {
			s.Xs, s.Ys = append(s.Xs, float64(d.Day)), append(s.Ys, d.Weight)
		}
		weights.Series = append(weights.Series, s)
	}
	return []figure.Figure{takesFigure(results), weights}, nil
}

// takesFigure draws what some attacks take against more and more honest users.
func takesFigure(results []Result) figure.Figure {
	f := figure.Figure{Name: "takes", Title: "What it takes", XLabel: "honest users who object",
		YLabel: "mailboxes or peers"}
	for i, of := range []struct {
		name  string
		means Means
	}{
		{"un-list a campaign of 10 reports", Mailboxes},
		{"list the next issue as well", Mailboxes},
		{"list an issue of an established newsletter", Mailboxes},
		{"list an established newsletter as a peer", Peers},
	} {
		s := figure.Series{Label: fmt.Sprintf("%s: %s", of.means, of.name), Color: figure.Palette(i), Shape: figure.Shapes(i)}
		for _, r := range results {
			if r.Name == of.name && r.Means == of.means && r.Takes > 0 {
				s.Xs, s.Ys = append(s.Xs, float64(r.Honest)), append(s.Ys, float64(r.Takes))
			}
		}
		if len(s.Xs) > 0 {
			f.Series = append(f.Series, s)
		}
	}
	f.LegendLeft = true
	return f
}
