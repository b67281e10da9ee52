package gate

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Cost is the processor time that a kind of request takes since a release, because the server does more for it.
type Cost struct {
	Ratio  float64 // to the time at the release, above 1
	Reason string
}

// Costs are the costs since a release, by request.
type Costs struct {
	Release string // for example "0.1.0"
	Of      map[string]Cost
}

// maxCost bounds the ratio of a cost.
const maxCost = 10

// ReadCosts reads a table of costs. Its first line is "# since RELEASE". Each further line is a request, a ratio
// above 1 and a reason, separated by tabs. The error names the line.
func ReadCosts(r io.Reader) (Costs, error) {
	lines := bufio.NewScanner(r)
	lines.Scan()
	release, ok := strings.CutPrefix(lines.Text(), "# since ")
	if !ok || release == "" {
		return Costs{}, fmt.Errorf("gate: costs: line 1 is %.40q, want \"# since RELEASE\"", lines.Text())
	}
	c := Costs{Release: release, Of: map[string]Cost{}}
	for n := 2; lines.Scan(); n++ {
		if err := c.read(lines.Text()); err != nil {
			return Costs{}, fmt.Errorf("gate: costs: line %d: %w", n, err)
		}
	}
	return c, lines.Err()
}

func (c *Costs) read(line string) error {
	fields := strings.Split(line, "\t")
	if len(fields) != 3 || fields[2] == "" {
		return fmt.Errorf("%.40q, want a request, a ratio and a reason", line)
	}
	request := fields[0]
	if !slices.ContainsFunc(cases([][]byte{nil}), func(b benchmark) bool { return b.name == request }) {
		return fmt.Errorf("no request %.40q", request)
	}
	if _, twice := c.Of[request]; twice {
		return fmt.Errorf("%s for the second time", request)
	}
	ratio, err := strconv.ParseFloat(fields[1], 64)
	if err != nil || !(ratio > 1 && ratio <= maxCost) {
		return fmt.Errorf("ratio %.40q, want above 1 and at most %d", fields[1], maxCost)
	}
	c.Of[request] = Cost{ratio, fields[2]}
	return nil
}
