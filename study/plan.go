package study

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// A plan is all work of a run, and where its results come to lie.
type plan struct {
	config *Config
	units  []*unit
	tables map[int][]*tableResult
	took   time.Duration
}

func (c *Config) plan() (*plan, error) {
	p := &plan{config: c}
	p.units, p.tables = c.tableUnits()
	return p, nil
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
func (p *plan) write() error {
	rows := p.rows()
	if len(rows) > 0 {
		if err := p.file("tables.csv", func(w io.Writer) error { return writeTables(w, rows) }); err != nil {
			return err
		}
		err := p.file("comparison.csv", func(w io.Writer) error { return writeComparison(w, compare(rows)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// file writes one file of the results.
func (p *plan) file(name string, write func(io.Writer) error) error {
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		return fmt.Errorf("study: %s: %w", name, err)
	}
	return writeFile(filepath.Join(p.config.Out, name), buf.Bytes())
}
