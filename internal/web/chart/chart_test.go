package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func html(t interface{ Fatal(...any) }, n interface{ Render(io.Writer) error }) string {
	var b strings.Builder
	if err := n.Render(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestChart checks that every number of a chart is in its table and its titles, that events outside it
// are left out, and that names are escaped.
func TestChart(t *testing.T) {
	start := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	c := Chart{Title: "<Verdicts>", Slot: time.Hour,
		Starts: []time.Time{start, start.Add(time.Hour), start.Add(2 * time.Hour), start.Add(3 * time.Hour)},
		Series: []Series{{"spam", "spam", []uint64{0, 1234, 0, 7}}, {"good", "good", []uint64{0, 2, 0, 0}}},
		Marks: []Mark{{start.Add(-time.Second), "before"}, {start.Add(90 * time.Minute), "<restart>"},
			{start.Add(4 * time.Hour), "after"}}}
	got := html(t, c.Draw())
	for _, want := range []string{"01:00 to 02:00: 1\u202f234 spam, 2 good", "00:00 to 01:00: nothing",
		"&lt;Verdicts&gt;: 1\u202f241 spam, 2 good", "01:30 &lt;restart&gt;", `x1="375"`, ">2k<", ">1k<",
		`<th scope="row">03:00 to 04:00</th><td class="num">7</td><td class="num">0</td>`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, not := range []string{"before", "after", "<restart>", `scope="row">00:00`} {
		if strings.Contains(got, not) {
			t.Errorf("%q is in\n%s", not, got)
		}
	}
}

// TestDrawings checks that no drawing leaves its box, whatever the numbers, and that it is well-formed.
func TestDrawings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "slots")
		c := Chart{Slot: rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "slot")}
		for i := range n {
			c.Starts = append(c.Starts, time.Unix(0, 0).Add(time.Duration(i)*c.Slot))
		}
		for range rapid.IntRange(1, 5).Draw(t, "series") {
			c.Series = append(c.Series, Series{"spam", "spam",
				rapid.SliceOfN(rapid.Uint64Range(0, 1<<40), n, n).Draw(t, "values")})
		}
		for _, text := range []string{html(t, c.Draw()), html(t, Spark("spam", "x", c.Series[0].Values)),
			html(t, Balance(rapid.Float64Range(-3, 3).Draw(t, "x"), "x"))} {
			d := xml.NewDecoder(strings.NewReader(text))
			for {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err, text)
				}
			}
			if strings.Contains(text, `="-`) || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Fatal(text)
			}
		}
	})
}

// TestTop checks that an axis reaches its numbers, with a round end that is less than twice as far.
func TestTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1<<50).Draw(t, "n")
		if top := Top(n); top < n || top > 2*max(n, 1) || top%2 != 0 && top != n {
			t.Fatalf("Top(%d) = %d", n, top)
		}
	})
	for n, want := range map[uint64]string{
		0: "2", 3: "4", 7: "8", 9: "10", 11: "20", 150: "200", 5999: "6k", 1_200_000: "2M"} {
		if got := Short(Top(n)); got != want {
			t.Errorf("the axis of %d ends at %s, want %s", n, got, want)
		}
	}
}
