package study

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/bulkhead-mail/bulkhead/lab/study/arrays"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A plan is all the work of a run and its results. Results of parts that are not wanted
// are nil.
type plan struct {
	config   *experiment.Config
	units    []*experiment.Unit
	tables   map[int][]*experiment.TableResult
	draws    []*experiment.DrawResult
	seeds    []*experiment.RepeatResult
	families []*experiment.RepeatResult
	offset   []*experiment.OffsetResult
	orders   []*experiment.DrawResult
	equal    []*experiment.EqualResult
	lines    []*arrays.LinesResult
	growth   *experiment.GrowthResult
	arrayResults
}

// arrayResults are the studies of the arrays that nodes run.
type arrayResults struct {
	node       []*arrays.NodeResult
	revocation *arrays.RevocationResult
	membership *arrays.MembershipResult
	twoPart    *arrays.TwoPartResult
	rate       *arrays.RateResult
	merge      []*arrays.MergeResult
	deletion   *arrays.DeletionResult
	split      *arrays.SplitResult
	dcc        *arrays.DCCResult
	speed      *arrays.SpeedResult
}

// add adds a unit and passes its result on.
func add[T any](p *plan, u *experiment.Unit, result T) T {
	p.units = append(p.units, u)
	return result
}

// addAll adds several units and passes their results on.
func addAll[T any](p *plan, work func() ([]*experiment.Unit, []T)) []T {
	units, results := work()
	p.units = append(p.units, units...)
	return results
}

func newPlan(c *experiment.Config) *plan {
	p := &plan{config: c}
	p.units, p.tables = c.TableUnits()
	corpus := arrays.CorpusSource(c)
	if c.Wants("draws") {
		p.draws = addAll(p, c.DrawUnits)
	}
	if c.Wants("seeds") {
		p.seeds = addAll(p, c.SeedUnits)
	}
	if c.Wants("families") {
		p.families = addAll(p, c.FamilyUnits)
	}
	if c.Wants("offset") {
		p.offset = addAll(p, c.OffsetUnits)
		p.orders = addAll(p, c.OrderUnits)
	}
	if c.Wants("equal") {
		p.equal = addAll(p, c.EqualUnits)
	}
	if c.Wants("lines") {
		p.lines = addAll(p, func() ([]*experiment.Unit, []*arrays.LinesResult) { return arrays.LineUnits(c) })
	}
	if c.Wants("node") {
		units, results := arrays.NodeUnits(c, corpus)
		p.units, p.node = append(p.units, units...), results
	}
	if c.Wants("revocation") {
		u, r := arrays.RevocationUnit(c)
		p.revocation = add(p, u, r)
	}
	if c.Wants("growth") {
		u, r := c.GrowthUnit()
		p.growth = add(p, u, r)
	}
	if c.Wants("membership") {
		u, r := arrays.MembershipUnit(c)
		p.membership = add(p, u, r)
	}
	if c.Wants("twopart") {
		u, r := arrays.TwoPartUnit(c)
		p.twoPart = add(p, u, r)
	}
	if c.Wants("rate") {
		u, r := arrays.RateUnit(c)
		p.rate = add(p, u, r)
	}
	if c.Wants("merge") {
		p.merge = addAll(p, func() ([]*experiment.Unit, []*arrays.MergeResult) { return arrays.MergeUnits(c) })
	}
	if c.Wants("deletion") {
		u, r := arrays.DeletionUnit(c)
		p.deletion = add(p, u, r)
	}
	if c.Wants("split") {
		u, r := arrays.SplitUnit(c, corpus)
		p.split = add(p, u, r)
	}
	if c.Wants("dcc") && c.Corpus != "" {
		u, r := arrays.DCCUnit(c, corpus)
		p.dcc = add(p, u, r)
	}
	if c.Wants("speed") {
		u, r := arrays.SpeedUnit(c)
		p.speed = add(p, u, r)
	}
	return p
}

// rows returns the lines of the experiments that were run.
func (p *plan) rows() (all [][]experiment.Row) {
	for _, e := range experiment.Experiments() {
		var rows []experiment.Row
		for _, r := range p.tables[e.Number] {
			rows = append(rows, r.Row(&e, p.config.Rounds))
		}
		if rows != nil {
			all = append(all, rows)
		}
	}
	return all
}

// write puts everything into the folder for results.
func (p *plan) write(ctx context.Context) error {
	rows := p.rows()
	compared := experiment.Compare(rows, p.spreads())
	if len(rows) > 0 {
		if err := p.file("tables.csv", func(w io.Writer) error { return experiment.WriteTables(w, rows) }); err != nil {
			return err
		}
		err := p.file("comparison.csv", func(w io.Writer) error { return experiment.WriteComparison(w, compared) })
		if err != nil {
			return err
		}
	}
	for name, result := range p.measured() {
		b, err := json.MarshalIndent(result, "", "\t")
		if err != nil {
			return fmt.Errorf("study: %s: %w", name, err)
		}
		if err := experiment.WriteFile(filepath.Join(p.config.Out, name+".json"), append(b, '\n')); err != nil {
			return err
		}
	}
	figures, err := p.figures(rows)
	if err != nil {
		return err
	}
	for _, f := range figures {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.config.Small() {
			f.Dots = 640
		}
		if err := writeFigure(f, filepath.Join(p.config.Out, "figures"), "svg", "png"); err != nil {
			return err
		}
	}
	return p.report(ctx, rows, compared, figures)
}

// measured returns the results of all parts but the experiments, by the names of their
// files.
func (p *plan) measured() map[string]any {
	all := map[string]any{}
	if p.draws != nil {
		all["draws"] = p.draws
	}
	if p.seeds != nil {
		all["seeds"] = p.seeds
	}
	if p.families != nil {
		all["families"] = p.families
	}
	if p.offset != nil {
		all["offset"], all["orders"] = p.offset, p.orders
	}
	if p.equal != nil {
		all["equal"] = p.equal
	}
	if p.lines != nil {
		all["lines"] = p.lines
	}
	if p.node != nil {
		all["node"] = p.node
	}
	if p.revocation != nil {
		all["revocation"] = p.revocation
	}
	if p.growth != nil {
		all["growth"] = p.growth
	}
	if p.membership != nil {
		all["membership"] = p.membership
	}
	if p.twoPart != nil {
		all["twopart"] = p.twoPart
	}
	if p.rate != nil {
		all["rate"] = p.rate
	}
	if p.merge != nil {
		all["merge"] = p.mergeRows()
	}
	if p.deletion != nil {
		all["deletion"] = p.deletion
	}
	if p.split != nil {
		all["split"] = p.split
	}
	if p.dcc != nil {
		all["dcc"] = p.dcc
	}
	if p.speed != nil {
		all["speed"] = p.speed
	}
	return all
}

// mergeRows returns the lines of all networks.
func (p *plan) mergeRows() (rows []arrays.MergeRow) {
	for _, r := range p.merge {
		rows = append(rows, r.Rows...)
	}
	return rows
}

// file writes one file of the results.
func (p *plan) file(name string, write func(io.Writer) error) error {
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		return fmt.Errorf("study: %s: %w", name, err)
	}
	return experiment.WriteFile(filepath.Join(p.config.Out, name), buf.Bytes())
}

// Run carries out the study and writes its tables, figures and report. It
// returns early, keeping what is finished, when ctx ends.
func Run(ctx context.Context, c experiment.Config) error {
	if err := c.Complete(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("study: %w", err)
	}
	p := newPlan(&c)
	if err := c.Work(ctx, p.units); err != nil {
		return err
	}
	return p.write(ctx)
}
