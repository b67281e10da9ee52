package study

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
)

// A plan is all the work of a run and its results. Results of parts that are not wanted
// are nil.
type plan struct {
	config     *Config
	units      []*unit
	tables     map[int][]*tableResult
	draws      []*drawResult
	seeds      []*repeatResult
	families   []*repeatResult
	offset     []*offsetResult
	orders     []*drawResult
	equal      []*equalResult
	lines      []*linesResult
	node       []*nodeResult
	revocation *revocationResult
	growth     *growthResult
	membership *membershipResult
	twoPart    *twoPartResult
	rate       *rateResult
	merge      []*mergeResult
	deletion   *deletionResult
	split      *splitResult
	dcc        *dccResult
	speed      *speedResult
}

// add adds a unit and passes its result on.
func add[T any](p *plan, u *unit, result T) T {
	p.units = append(p.units, u)
	return result
}

// addAll adds several units and passes their results on.
func addAll[T any](p *plan, work func() ([]*unit, []T)) []T {
	units, results := work()
	p.units = append(p.units, units...)
	return results
}

func (c *Config) plan() *plan {
	p := &plan{config: c}
	p.units, p.tables = c.tableUnits()
	corpus := c.corpusSource()
	if c.wants("draws") {
		p.draws = addAll(p, c.drawUnits)
	}
	if c.wants("seeds") {
		p.seeds = addAll(p, c.seedUnits)
	}
	if c.wants("families") {
		p.families = addAll(p, c.familyUnits)
	}
	if c.wants("offset") {
		p.offset = addAll(p, c.offsetUnits)
		p.orders = addAll(p, c.orderUnits)
	}
	if c.wants("equal") {
		p.equal = addAll(p, c.equalUnits)
	}
	if c.wants("lines") {
		p.lines = addAll(p, c.lineUnits)
	}
	if c.wants("node") {
		units, results := c.nodeUnits(corpus)
		p.units, p.node = append(p.units, units...), results
	}
	if c.wants("revocation") {
		u, r := c.revocationUnit()
		p.revocation = add(p, u, r)
	}
	if c.wants("growth") {
		u, r := c.growthUnit()
		p.growth = add(p, u, r)
	}
	if c.wants("membership") {
		u, r := c.membershipUnit()
		p.membership = add(p, u, r)
	}
	if c.wants("twopart") {
		u, r := c.twoPartUnit()
		p.twoPart = add(p, u, r)
	}
	if c.wants("rate") {
		u, r := c.rateUnit()
		p.rate = add(p, u, r)
	}
	if c.wants("merge") {
		p.merge = addAll(p, c.mergeUnits)
	}
	if c.wants("deletion") {
		u, r := c.deletionUnit()
		p.deletion = add(p, u, r)
	}
	if c.wants("split") {
		u, r := c.splitUnit(corpus)
		p.split = add(p, u, r)
	}
	if c.wants("dcc") && c.Corpus != "" {
		u, r := c.dccUnit(corpus)
		p.dcc = add(p, u, r)
	}
	if c.wants("speed") {
		u, r := c.speedUnit()
		p.speed = add(p, u, r)
	}
	return p
}

// rows returns the lines of the experiments that were run.
func (p *plan) rows() (all [][]row) {
	for _, e := range experiments() {
		var rows []row
		for _, r := range p.tables[e.number] {
			rows = append(rows, r.row(&e, p.config.Rounds))
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
	compared := compare(rows, p.spreads())
	if len(rows) > 0 {
		if err := p.file("tables.csv", func(w io.Writer) error { return writeTables(w, rows) }); err != nil {
			return err
		}
		if err := p.file("comparison.csv", func(w io.Writer) error { return writeComparison(w, compared) }); err != nil {
			return err
		}
	}
	for name, result := range p.measured() {
		b, err := json.MarshalIndent(result, "", "\t")
		if err != nil {
			return fmt.Errorf("study: %s: %w", name, err)
		}
		if err := writeFile(filepath.Join(p.config.Out, name+".json"), append(b, '\n')); err != nil {
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
		if p.config.small() {
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
func (p *plan) mergeRows() (rows []mergeRow) {
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
	return writeFile(filepath.Join(p.config.Out, name), buf.Bytes())
}
