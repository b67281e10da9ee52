package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// holding returns the signatures of a message that holds the given samples, of which the
// first own ones are its own.
func holding(n int, samples []uint64, own int, others bulkhead.SampleKind) []bulkhead.Signature {
	sigs := []bulkhead.Signature{sig(bulkhead.Exact, n), bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24")}
	var sketch []bulkhead.Sample
	for i, v := range samples {
		s := bulkhead.Sample{Value: v, Kind: bulkhead.SampleOwn}
		if i >= own {
			s.Kind = others
		} else if i < 8 {
			sigs = append(sigs, s.Signature())
		}
		sketch = append(sketch, s)
	}
	return bulkhead.AppendSketch(sigs, sketch)
}

// values are n samples of their own.
func values(from, n int) (out []uint64) {
	for i := range n {
		out = append(out, uint64(from+i)*0x9e3779b97f4a7c15>>16)
	}
	return out
}

func ballot(t *testing.T, e *Engine, user string, vote bulkhead.Vote, sigs []bulkhead.Signature) {
	t.Helper()
	report(t, e, bulkhead.Report{Signatures: sigs, Vote: vote, Reporter: bulkhead.Reporter{User: user}})
}

func classOf(t *testing.T, e *Engine, sigs []bulkhead.Signature) bulkhead.Class {
	t.Helper()
	v, err := e.Check(t.Context(), bulkhead.Query{Signatures: sigs})
	if err != nil {
		t.Fatal(err)
	}
	return v.Class
}

// TestContained: a message that holds five samples of a reported one, a sample that the
// vote was on among them, is a changed copy of it.
func TestContained(t *testing.T) {
	e := open(t, Options{})
	known := values(0, 24)
	ballot(t, e, "ann", bulkhead.Spam, holding(1, known, 24, 0))
	const suspected, unknown = bulkhead.ClassSuspected, bulkhead.ClassUnknown
	for _, c := range []struct {
		name    string
		samples []uint64
		kind    bulkhead.SampleKind
		want    bulkhead.Class
	}{
		{"all", append(values(100, 100), known...), bulkhead.SampleOther, suspected},
		{"five", append(values(200, 100), known[7:12]...), bulkhead.SampleOther, suspected},
		{"four", append(values(300, 100), known[7:11]...), bulkhead.SampleOther, unknown},
		{"none that votes are on", append(values(400, 100), known[8:]...), bulkhead.SampleOther, unknown},
		{"quoted", append(values(500, 100), known...), bulkhead.SampleQuoted, suspected},
		{"others", values(600, 128), bulkhead.SampleOther, unknown},
	} {
		if got := classOf(t, e, holding(2, c.samples, 24, c.kind)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	ballot(t, e, "bob", bulkhead.Spam, holding(1, known, 24, 0))
	longer := append(values(100, 100), known...)
	if got := classOf(t, e, holding(2, longer, 24, bulkhead.SampleOther)); got != bulkhead.ClassSpam {
		t.Errorf("two votes: %v, want spam", got)
	}
	if got := classOf(t, e, holding(2, longer, 24, bulkhead.SampleQuoted)); got != suspected {
		t.Errorf("two votes, quoted: %v, want suspected: who forwards spam is no spammer", got)
	}
	for _, user := range []string{"ann", "bob"} {
		ballot(t, e, user, bulkhead.Revocation, holding(1, known, 24, 0))
	}
	if got := classOf(t, e, holding(2, longer, 24, bulkhead.SampleOther)); got != unknown {
		t.Errorf("revoked: %v, want unknown", got)
	}
}

// TestSamplesOfSeveral: samples of several reported messages make no match, however many
// are known.
func TestSamplesOfSeveral(t *testing.T) {
	e := open(t, Options{})
	var samples []uint64
	for n := range 10 {
		known := values(1000*n, 24)
		ballot(t, e, fmt.Sprint("user", n), bulkhead.Spam, holding(n, known, 24, 0))
		samples = append(samples, known[0], known[1], known[20])
	}
	if got := classOf(t, e, holding(99, samples, 0, bulkhead.SampleOther)); got != bulkhead.ClassUnknown {
		t.Errorf("%d samples of 10 messages: %v, want unknown", len(samples), got)
	}
	ballot(t, e, "ann", bulkhead.Spam, holding(100, values(50_000, 24), 24, 0))
	if got := classOf(t, e, holding(99, append(samples, values(50_000, 5)...), 0,
		bulkhead.SampleOther)); got != bulkhead.ClassSuspected {
		t.Errorf("with five of one: %v, want suspected", got)
	}
}

// TestSharedPhrase: a phrase that reported messages share joins no samples of different messages. A message with five
// samples of one of them still matches.
func TestSharedPhrase(t *testing.T) {
	e := open(t, Options{})
	phrase := values(0, 1)[0]
	samples := []uint64{phrase}
	for n := range 10 {
		known := append([]uint64{phrase}, values(1000*(n+1), 23)...)
		for _, user := range []string{"ann", "bob"} { // the second report is of the same text
			ballot(t, e, user, bulkhead.Spam, holding(n, known, 24, 0))
		}
		samples = append(samples, known[20])
	}
	if got := classOf(t, e, holding(99, samples, 0, bulkhead.SampleOther)); got != bulkhead.ClassUnknown {
		t.Errorf("a phrase and a sample of each of 10 messages: %v, want unknown", got)
	}
	for n := 5; n < 10; n++ {
		own := values(1000*(n+1), 4)
		others := append(samples[:4:4], samples[n+1]) // three of others, and one of message n
		for k, want := range map[int]bulkhead.Class{2: bulkhead.ClassUnknown, 3: bulkhead.ClassSuspected} {
			if got := classOf(t, e, holding(99, slices.Concat(own[:k], others), 0, bulkhead.SampleOther)); got != want {
				t.Errorf("a phrase and %d samples of message %d: %v, want %v", k+1, n, got, want)
			}
		}
	}
}

// TestQuotedByMany: a sample that occurs in much other mail without reports is no longer a reason
// for suspicion, although a vote fell on it.
func TestQuotedByMany(t *testing.T) {
	e := open(t, Options{})
	disclaimer := values(0, 24)
	ballot(t, e, "ann", bulkhead.Spam, holding(1, disclaimer, 24, 0))
	suspected := 0
	for n := range 100 {
		m := holding(2+n, append(values(1000+100*n, 60), disclaimer...), 24, bulkhead.SampleOther)
		if classOf(t, e, m) == bulkhead.ClassSuspected {
			suspected++
		}
		report(t, e, bulkhead.Report{Signatures: m, Recipients: []string{fmt.Sprint("user", n)}})
	}
	if suspected < 40 || suspected > 80 {
		t.Errorf("%d of 100 messages suspected, want some at first and then no more", suspected)
	}
	if got := classOf(t, e, holding(99, append(values(90_000, 60), disclaimer...), 24,
		bulkhead.SampleOther)); got != bulkhead.ClassUnknown {
		t.Errorf("after 100 deliveries: %v, want unknown", got)
	}
}

// TestKnownBefore: after one vote, a text that was often delivered as a message's own words does
// not list other messages that contain it.
func TestKnownBefore(t *testing.T) {
	e := open(t, Options{})
	words := values(0, 24)
	for n := range 100 {
		m := holding(n, slices.Concat(words[:12], values(1000+100*n, 12)), 24, bulkhead.SampleOther)
		report(t, e, bulkhead.Report{Signatures: m, Recipients: []string{fmt.Sprint("user", n)}})
	}
	ballot(t, e, "ann", bulkhead.Spam, holding(200, words, 24, 0))
	if got := classOf(t, e, holding(201, append(values(90_000, 60), words[:12]...), 24,
		bulkhead.SampleOther)); got != bulkhead.ClassUnknown {
		t.Errorf("%v, want unknown", got)
	}
}

// TestSketchAlone: a sketch alone cannot be reported.
func TestSketchAlone(t *testing.T) {
	e := open(t, Options{})
	sketch := bulkhead.AppendSketch(nil, []bulkhead.Sample{{Value: 1}})
	if _, err := e.Report(t.Context(), bulkhead.Report{Signatures: sketch, Vote: bulkhead.Spam}); err == nil {
		t.Error("a report of nothing but a sketch was taken")
	}
}
