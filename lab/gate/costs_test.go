package gate

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCosts reads the table of the repository. It must be of the last release: the next release has its costs in it.
func TestCosts(t *testing.T) {
	f, err := os.Open("costs.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := ReadCosts(f)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`(?m)^## ([0-9.]+) - `).FindSubmatch(changes)
	if release == nil {
		t.Fatal("CHANGELOG.md has no release")
	}
	if c.Release != string(release[1]) {
		t.Errorf("costs since %s, and the last release is %s", c.Release, release[1])
	}
}

func TestReadCosts(t *testing.T) {
	c, err := ReadCosts(strings.NewReader("# since 0.1.0\nhttp check\t1.4\trules\npolicy\t1.2\tlimits\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Cost{1.4, "rules"}); c.Release != "0.1.0" || len(c.Of) != 2 || c.Of["http check"] != want {
		t.Errorf("read %+v", c)
	}
	for name, text := range map[string]string{
		"empty":           "",
		"no release":      "http check\t1.4\trules\n",
		"empty release":   "# since \n",
		"no reason":       "# since 0.1.0\nhttp check\t1.4\t\n",
		"two fields":      "# since 0.1.0\nhttp check\t1.4\n",
		"unknown request": "# since 0.1.0\nhttp chek\t1.4\trules\n",
		"twice":           "# since 0.1.0\npolicy\t1.4\trules\npolicy\t1.5\trules\n",
		"no number":       "# since 0.1.0\npolicy\tmuch\trules\n",
		"NaN":             "# since 0.1.0\npolicy\tNaN\trules\n",
		"no cost":         "# since 0.1.0\npolicy\t1\trules\n",
		"endless":         "# since 0.1.0\npolicy\t11\trules\n",
	} {
		if c, err := ReadCosts(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read %+v", name, c)
		}
	}
}

// TestSlower: a row is slower if all of its interval is beyond the limit, above its cost.
func TestSlower(t *testing.T) {
	for _, c := range []struct {
		low, ratio, high, cost float64
		want                   bool
	}{
		{1.11, 1.2, 1.3, 0, true},
		{1.05, 1.2, 1.3, 0, false}, // may be noise
		{0.8, 0.9, 1.0, 0, false},
		{1.5, 1.52, 1.54, 1.4, false},
		{1.55, 1.56, 1.57, 1.4, true},
	} {
		r := Row{Low: c.low, Ratio: c.ratio, High: c.high, Cost: Cost{Ratio: c.cost}}
		if got := r.Slower(1.1); got != c.want {
			t.Errorf("Slower of %+v = %v, want %v", r, got, c.want)
		}
	}
}
