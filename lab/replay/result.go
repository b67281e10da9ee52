package replay

import (
	"math"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/lab/reliability"
)

// A Result is the outcome of a replay. The command's --json prints its JSON form.
type Result struct {
	Messages    int         `json:"messages"`
	Bytes       int         `json:"bytes"`      // of the messages
	Spam        int         `json:"spam"`       // deliveries, like the next two
	Ham         int         `json:"ham"`        //
	Unsigned    int         `json:"unsigned"`   // without any signature: spam among them cannot be caught
	Signatures  int         `json:"signatures"` // different ones
	Capacity    uint64      `json:"capacity"`   // signatures that a generation of the tally is sized for
	First       time.Time   `json:"first"`
	Last        time.Time   `json:"last"`
	Filters     Counts      `json:"filters"`
	Exact       Counts      `json:"exact"`
	Differences Differences `json:"differences"`
	Series      []Point     `json:"series"`
	// Judges are the filters first, and then the peers.
	Judges      []Judge `json:"judges"`
	Groups      []Group `json:"groups,omitempty"` // by name
	ReadSeconds float64 `json:"read_seconds"`     // to read mail and compute signatures
}

// A Group is what the filters said of the mail of one [Mail.Group].
type Group struct {
	Name          string `json:"name"`
	Spam          int    `json:"spam"` // deliveries
	Caught        int    `json:"caught"`
	SpamSuspected int    `json:"spam_suspected"`
	Ham           int    `json:"ham"`
	HamFlagged    int    `json:"ham_flagged"`
	HamSuspected  int    `json:"ham_suspected"`
}

// A Counts is what one engine said.
type Counts struct {
	Caught        int            `json:"caught"`         // spam called spam
	SpamSuspected int            `json:"spam_suspected"` // further spam suspected
	SpamBulk      int            `json:"spam_bulk"`      // further spam called bulk only
	HamFlagged    int            `json:"ham_flagged"`    // ham called spam
	HamSuspected  int            `json:"ham_suspected"`  // further ham suspected
	HamBulk       int            `json:"ham_bulk"`       // further ham called bulk only
	Flagged       []string       `json:"flagged,omitempty"`
	Reports       int            `json:"reports"` // by recipients
	Revokes       int            `json:"revokes"`
	Schemes       []SchemeCounts `json:"schemes"`
	StateBytes    uint64         `json:"state_bytes"`
	PerSecond     float64        `json:"messages_per_second"` // checked, counted and acted upon
	// Reliability is how many of the deliveries answered with a confidence were spam.
	Reliability reliability.Table `json:"reliability"`
}

// A SchemeCounts is what the signatures of one scheme did in a run.
type SchemeCounts struct {
	Scheme     string `json:"scheme"`
	Caught     int    `json:"caught"`      // spam with a listed signature of this scheme (of bands: enough of them)
	Only       int    `json:"only"`        // of these, spam without one of any other scheme
	HamFlagged int    `json:"ham_flagged"` // ham with one
}

// A Differences compares the filters with the exact maps.
type Differences struct {
	Verdicts  int      `json:"verdicts"` // compared
	Spam      int      `json:"spam"`     // called spam by one and not by the other
	Bulk      int      `json:"bulk"`     // likewise bulk
	Findings  int      `json:"findings"` // compared: signatures of all deliveries
	Judged    int      `json:"judged"`   // judged differently
	Counts    int      `json:"counts"`   // counted differently
	Messages  []string `json:"messages,omitempty"`
	CountRate float64  `json:"count_rate"`      // Counts / Findings
	JudgeRate float64  `json:"judge_rate"`      // Judged / Findings
	Stated    float64  `json:"stated_count"`    // rate that the tally is sized for
	StatedJ   float64  `json:"stated_judgment"` // rate that the blocklist is sized for
}

// A Point is one slice of time.
type Point struct {
	Start      time.Time `json:"start"`
	Spam       int       `json:"spam"`
	Caught     int       `json:"caught"`
	Ham        int       `json:"ham"`
	HamFlagged int       `json:"ham_flagged"`
}

// CatchRate returns the share of spam that was called spam; 0 without spam.
func (r *Result) CatchRate() float64 { return rate(r.Filters.Caught, r.Spam) }

// FalseRate returns the share of ham that was called spam; 0 without ham.
func (r *Result) FalseRate() float64 { return rate(r.Filters.HamFlagged, r.Ham) }

func rate(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// maxNamed is how many messages a list in the result names.
const maxNamed = 100

// seriesPoints is about how many slices of time a series has.
const seriesPoints = 60

// runCounts gathers the figures of a [Counts].
type runCounts struct {
	Counts
	schemes map[bulkhead.Scheme]*SchemeCounts
}

// A tally gathers the figures of both runs.
type tally struct {
	result   Result
	start    time.Time
	slice    time.Duration
	distinct map[bulkhead.Signature]struct{}
	groups   map[string]*Group
}

func newTally(letters []*letter) *tally {
	t := &tally{start: letters[0].time, distinct: make(map[bulkhead.Signature]struct{}), groups: make(map[string]*Group)}
	last := letters[len(letters)-1].time
	span := last.Sub(t.start)
	t.slice = max(time.Hour, span/seriesPoints)
	for _, nice := range []time.Duration{6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour} {
		if t.slice > time.Hour && t.slice <= nice {
			t.slice = nice
			break
		}
	}
	if month := 30 * 24 * time.Hour; t.slice > month {
		t.slice = (t.slice + month - 1) / month * month
	}
	t.start = t.start.Truncate(t.slice)
	t.result.First, t.result.Last = letters[0].time, last
	t.result.Messages = len(letters)
	for _, l := range letters {
		t.result.Bytes += l.size
		for _, sig := range l.sigs {
			t.distinct[sig] = struct{}{}
		}
	}
	t.result.Signatures = len(t.distinct)
	return t
}

// point returns the slice of the series that a delivery falls into.
func (t *tally) point(e *event) *Point {
	n := max(0, int(e.at.Sub(t.start)/t.slice))
	for len(t.result.Series) <= n {
		t.result.Series = append(t.result.Series, Point{Start: t.start.Add(time.Duration(len(t.result.Series)) * t.slice)})
	}
	return &t.result.Series[n]
}

func (t *tally) unsigned(e *event) {
	t.result.Unsigned++
	t.arrived(e, t.point(e))
}

func (t *tally) arrived(e *event, p *Point) {
	g := t.group(e.letter.group)
	if e.letter.spam {
		t.result.Spam++
		p.Spam++
		g.Spam++
	} else {
		t.result.Ham++
		p.Ham++
		g.Ham++
	}
}

// group returns the figures of a group, those of mail without one included.
func (t *tally) group(name string) *Group {
	g := t.groups[name]
	if g == nil {
		g = &Group{Name: name}
		t.groups[name] = g
	}
	return g
}

// judged counts a verdict of the filters for the letter's group.
func (g *Group) judged(l *letter, v *bulkhead.Verdict) {
	suspected := v.Class == bulkhead.ClassSuspected
	switch {
	case l.spam && v.Spam():
		g.Caught++
	case l.spam && suspected:
		g.SpamSuspected++
	case v.Spam():
		g.HamFlagged++
	case suspected && !l.spam:
		g.HamSuspected++
	}
}

// delivery counts one delivery and the verdicts on it.
func (t *tally) delivery(s *simulation, e *event, verdicts *[2]bulkhead.Verdict) {
	p := t.point(e)
	t.arrived(e, p)
	for i, run := range s.runs {
		run.counts.verdict(e, &verdicts[i], s.opts.NearMatch)
	}
	if verdicts[0].Spam() {
		if e.letter.spam {
			p.Caught++
		} else {
			p.HamFlagged++
		}
	}
	t.group(e.letter.group).judged(e.letter, &verdicts[0])
	t.compare(e, &verdicts[0], &verdicts[1])
}

// verdict counts what one engine says of one delivery.
func (c *runCounts) verdict(e *event, v *bulkhead.Verdict, nearMatch int) {
	c.Reliability.Add(v.Class, v.Confidence, e.letter.spam)
	spam, suspected := v.Spam(), v.Class == bulkhead.ClassSuspected
	switch {
	case e.letter.spam && spam:
		c.Caught++
	case e.letter.spam && suspected:
		c.SpamSuspected++
	case e.letter.spam && v.Bulk:
		c.SpamBulk++
	case spam:
		c.HamFlagged++
		if len(c.Flagged) < maxNamed {
			c.Flagged = append(c.Flagged, e.letter.name)
		}
	case suspected:
		c.HamSuspected++
	case !e.letter.spam && v.Bulk:
		c.HamBulk++
	}
	if c.schemes == nil {
		c.schemes = make(map[bulkhead.Scheme]*SchemeCounts)
	}
	votes := schemeVotes(v, nearMatch)
	for _, scheme := range votes {
		r := c.schemes[scheme]
		if r == nil {
			r = &SchemeCounts{Scheme: scheme.String()}
			c.schemes[scheme] = r
		}
		if !e.letter.spam {
			r.HamFlagged++
			continue
		}
		r.Caught++
		if len(votes) == 1 {
			r.Only++
		}
	}
}

// schemeVotes returns the schemes that have a listed signature of the message;
// of bands, enough of them.
func schemeVotes(v *bulkhead.Verdict, nearMatch int) []bulkhead.Scheme {
	listed := make(map[bulkhead.Scheme]int)
	for i := range v.Findings {
		if f := &v.Findings[i]; f.Judged == bulkhead.JudgedSpam {
			listed[f.Signature.Scheme()]++
		}
	}
	var votes []bulkhead.Scheme
	for _, scheme := range sortedKeys(listed) {
		if scheme != bulkhead.Near || listed[scheme] >= nearMatch {
			votes = append(votes, scheme)
		}
	}
	return votes
}

// compare counts the differences between filters and exact maps.
func (t *tally) compare(e *event, a, b *bulkhead.Verdict) {
	d := &t.result.Differences
	d.Verdicts++
	differ := false
	if a.Spam() != b.Spam() {
		d.Spam++
		differ = true
	}
	if a.Bulk != b.Bulk {
		d.Bulk++
		differ = true
	}
	if differ && len(d.Messages) < maxNamed {
		d.Messages = append(d.Messages, e.letter.name)
	}
	for i := range a.Findings {
		f, g := &a.Findings[i], &b.Findings[i]
		d.Findings++
		if f.Judged != g.Judged {
			d.Judged++
		}
		if f.Sightings != g.Sightings || f.Spam != g.Spam || f.Ham != g.Ham {
			d.Counts++
		}
	}
}

// result puts the figures together.
func (s *simulation) result() *Result {
	r := s.tally.result
	r.Capacity = s.capacity
	for i, out := range []*Counts{&r.Filters, &r.Exact} {
		run := s.runs[i]
		*out = run.counts.Counts
		for _, scheme := range sortedKeys(run.counts.schemes) {
			out.Schemes = append(out.Schemes, *run.counts.schemes[scheme])
		}
		slices.SortStableFunc(out.Schemes, func(a, b SchemeCounts) int { return b.Caught - a.Caught })
		if seconds := run.spent.Seconds(); seconds > 0 {
			out.PerSecond = math.Round(float64(run.calls) / seconds)
		}
	}
	s.node.figures.Reports, s.node.figures.Revokes = r.Filters.Reports, r.Filters.Revokes
	r.Judges = append(r.Judges, s.node.result())
	for _, p := range s.peers {
		r.Judges = append(r.Judges, p.result())
	}
	for _, name := range sortedKeys(s.tally.groups) {
		if name != "" {
			r.Groups = append(r.Groups, *s.tally.groups[name])
		}
	}
	d := &r.Differences
	d.CountRate, d.JudgeRate = rate(d.Counts, d.Findings), rate(d.Judged, d.Findings)
	d.Stated, d.StatedJ = engine.DefaultTally().Error, engine.DefaultBlocklist().Error
	return &r
}
