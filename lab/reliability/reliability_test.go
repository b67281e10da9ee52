package reliability

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/interval"
)

// TestBands compares the bands of random answers with sums over all of them.
func TestBands(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type answer struct {
		class      bulkhead.Class
		confidence int
		spam       bool
	}
	var all []answer
	var halves [2]Table
	for i := range 5000 {
		a := answer{bulkhead.Class(rng.IntN(int(bulkhead.NumClasses))), rng.IntN(101), rng.IntN(3) > 0}
		if i < 50 { // the ends
			a.confidence = 100 * (i % 2)
		}
		all = append(all, a)
		halves[i%2].Add(a.class, a.confidence, a.spam)
	}
	var table Table
	table.Merge(&halves[0])
	table.Merge(&halves[1])
	counted := 0
	for _, b := range table.Bands() {
		var answers, spam int
		var promised float64
		for _, a := range all {
			if a.class.String() != b.Class || a.confidence < b.From || a.confidence > b.To {
				continue
			}
			answers++
			promised += float64(a.confidence) / 100
			if a.spam {
				spam++
			}
		}
		low, high := interval.Wilson(spam, answers)
		if b.Answers != answers || b.Spam != spam || math.Abs(b.Sum-promised) > 1e-9 || b.Low != low || b.High != high ||
			answers == 0 {
			t.Errorf("%+v; want %d answers, %d spam, %.2f said, %.3f to %.3f", b, answers, spam, promised, low, high)
		}
		if got, want := b.Observed(),
			float64(spam)/float64(answers); got != want || b.Promised() < float64(b.From)/100-1e-9 ||
			b.Promised() > float64(b.To)/100+1e-9 {
			t.Errorf("%+v: observed %v, want %v; promised %v", b, got, want, b.Promised())
		}
		counted += b.Answers
	}
	if counted != len(all) {
		t.Errorf("the bands have %d of %d answers", counted, len(all))
	}
	var empty Table
	if got := empty.Bands(); len(got) != 0 {
		t.Errorf("bands of nothing: %+v", got)
	}
}

// TestEnds: confidences that cannot be are counted where they are nearest.
func TestEnds(t *testing.T) {
	var table Table
	table.Add(bulkhead.ClassSpam, 101, true)
	table.Add(bulkhead.ClassUnknown, -1, false)
	bands := table.Bands()
	if len(bands) != 2 || bands[0].To != 100 || bands[0].Spam != 1 || bands[1].From != 0 || bands[1].Answers != 1 {
		t.Errorf("%+v", bands)
	}
}

func TestForms(t *testing.T) {
	var table Table
	for i := range 30 {
		table.Add(bulkhead.ClassSpam, 80, i < 27)
		table.Add(bulkhead.ClassSuspected, 47, i < 15)
	}
	table.Add(bulkhead.ClassBulk, 0, false)
	var b strings.Builder
	if err := table.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"80 to 84", "80.0", "90.00 %", "74.38 to 96.54", "suspected", "50.00 %", "bulk"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	text, err := json.Marshal(&table)
	if err != nil {
		t.Fatal(err)
	}
	var back []Band
	if err := json.Unmarshal(text, &back); err != nil || len(back) != 3 || back[0] != table.Bands()[0] {
		t.Errorf("%s: %v, %+v", text, err, back)
	}
	var svg bytes.Buffer
	p := Picture{{"one", &table}, {"nothing", new(Table)}}
	if err := p.PlotSVG(&svg); err != nil || !strings.Contains(svg.String(), "as promised") {
		t.Errorf("%v: %s", err, svg.String())
	}
	if err := p.PlotPNG(io.Discard); err != nil {
		t.Error(err)
	}
}
