package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// Node is the name of the [Judge] that is this project's engine with its filters.
const Node = "bulkhead"

// A Judge is how well one way to judge did on the deliveries of a replay: the node, or a
// clearinghouse that has nothing but one scheme, exactly counted. Recipients act on the wrong
// verdicts of each, so that every one learns from its own mistakes only.
type Judge struct {
	Name       string `json:"name"`
	Rule       string `json:"rule"`        // when a message is spam
	Caught     int    `json:"caught"`      // spam called spam
	HamFlagged int    `json:"ham_flagged"` // ham called spam
	Reports    int    `json:"reports"`     // by recipients
	Revokes    int    `json:"revokes"`
	// Curve is what would have been called spam at every other limit of the score, the
	// strictest first. It is read off one replay: with another limit recipients would have
	// reported other messages.
	Curve     []CurvePoint `json:"curve"`
	Detection Detection    `json:"detection"`
}

// A CurvePoint is a limit of the score: the deliveries that score as much or more.
type CurvePoint struct {
	Score float64 `json:"score"`
	Spam  int     `json:"spam"`
	Ham   int     `json:"ham"`
}

// A Detection is how soon spam was caught that was delivered more than once.
type Detection struct {
	Messages int `json:"messages"` // spam with two deliveries or more
	AtOnce   int `json:"at_once"`  // of these, caught from the first delivery on
	Caught   int `json:"caught"`   // of these, with a delivery that was caught, the first included
	// Missed is the median number of deliveries before the first that was caught, among all
	// Messages; -1 if half of them or more were never caught.
	Missed int `json:"missed"`
	// Within is how many were caught by a delivery so long after the first one.
	Within []WithinPoint `json:"within"`
}

// A WithinPoint is a number of messages caught within a time.
type WithinPoint struct {
	Seconds  int `json:"seconds"`
	Messages int `json:"messages"`
}

// waits are the times of [Detection.Within].
var waits = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, 45 * time.Minute,
	time.Hour, 90 * time.Minute, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour,
	24 * time.Hour, 48 * time.Hour, 96 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
}

// A judgement is what one judge says of one delivery.
type judgement struct {
	spam  bool
	score float64 // the more, the surer that it is spam
}

// judgementOf is the node's: classes by how sure they are, and within them the confidence.
func judgementOf(v *bulkhead.Verdict) judgement {
	return judgement{spam: v.Spam(), score: float64(101*int(v.Class) + v.Confidence)}
}

// A record gathers the figures of a [Judge].
type record struct {
	figures Judge
	scores  []scored
	traces  map[*letter]*trace
}

type scored struct {
	score float64
	spam  bool
}

// A trace is what became of the deliveries of one spam.
type trace struct {
	first  time.Time
	missed int // before the first that was caught
	caught bool
	after  time.Duration // from the first delivery to the one that was caught
}

func newRecord(name, rule string) *record {
	return &record{figures: Judge{Name: name, Rule: rule}, traces: make(map[*letter]*trace)}
}

// delivery counts one delivery.
func (r *record) delivery(e *event, j judgement) {
	r.scores = append(r.scores, scored{j.score, e.letter.spam})
	switch {
	case e.letter.spam && j.spam:
		r.figures.Caught++
	case j.spam:
		r.figures.HamFlagged++
	}
	if !e.letter.spam || e.letter.copies < 2 {
		return
	}
	t := r.traces[e.letter]
	if t == nil {
		t = &trace{first: e.at}
		r.traces[e.letter] = t
	}
	switch {
	case t.caught:
	case j.spam:
		t.caught, t.after = true, e.at.Sub(t.first)
	default:
		t.missed++
	}
}

// result returns the figures.
func (r *record) result() Judge {
	j := r.figures
	slices.SortFunc(r.scores, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	var p CurvePoint
	for i, s := range r.scores {
		if s.spam {
			p.Spam++
		} else {
			p.Ham++
		}
		if p.Score = s.score; i+1 == len(r.scores) || r.scores[i+1].score != s.score {
			j.Curve = append(j.Curve, p)
		}
	}
	d := &j.Detection
	var missed []int
	for _, t := range r.traces {
		d.Messages++
		if !t.caught {
			continue
		}
		d.Caught++
		missed = append(missed, t.missed)
		if t.missed == 0 {
			d.AtOnce++
		}
	}
	slices.Sort(missed)
	if d.Missed = -1; 2*d.Caught > d.Messages {
		d.Missed = missed[d.Messages/2]
	}
	for _, wait := range waits {
		w := WithinPoint{Seconds: int(wait.Seconds())}
		for _, t := range r.traces {
			if t.caught && t.after <= wait {
				w.Messages++
			}
		}
		d.Within = append(d.Within, w)
	}
	return j
}
