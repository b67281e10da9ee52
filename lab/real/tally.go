package real

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"text/tabwriter"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/interval"
)

// Counts is what became of deliveries.
type Counts struct {
	Cases     int `json:"cases"`
	Spam      int `json:"spam"`
	Suspected int `json:"suspected"`
	Bulk      int `json:"bulk"`
	Good      int `json:"good"`
	Unknown   int `json:"unknown"`
	// Partial is the number of answers of doors that have no class for good senders. It is part
	// of the other numbers.
	Partial int `json:"partial"`
}

func (c *Counts) add(a Answer) {
	c.Cases++
	switch a.Class {
	case bulkhead.ClassSpam:
		c.Spam++
	case bulkhead.ClassSuspected:
		c.Suspected++
	case bulkhead.ClassBulk:
		c.Bulk++
	case bulkhead.ClassGood:
		c.Good++
	default:
		c.Unknown++
	}
	if a.Partial {
		c.Partial++
	}
}

func (c *Counts) merge(o *Counts) {
	c.Cases, c.Spam, c.Suspected, c.Bulk = c.Cases+o.Cases, c.Spam+o.Spam, c.Suspected+o.Suspected, c.Bulk+o.Bulk
	c.Good, c.Unknown, c.Partial = c.Good+o.Good, c.Unknown+o.Unknown, c.Partial+o.Partial
}

// A campaignID names a campaign of one plan.
type campaignID struct {
	plan     string
	campaign int
}

// A row is what was counted of one name of a dimension, by campaign.
type row map[campaignID]*Counts

// A rowID names a row. The dimension "kind" has all deliveries.
type rowID struct {
	spam bool
	Group
}

// WayCounts is what became of the votes by one way.
type WayCounts struct {
	Spam    int `json:"spam"` // votes taken
	Ham     int `json:"ham"`
	Refused int `json:"refused"` // understood by the node, and not taken
	// Reason is the last refusal, "" for none.
	Reason string `json:"reason,omitempty"`
}

// A Reason is why deliveries were called spam or suspected, in the words of the node with names
// and numbers left out.
type Reason struct {
	IsSpam bool   `json:"is_spam"`
	Class  string `json:"class"`
	Kind   string `json:"kind"`
	Text   string `json:"text"`
}

// particulars matches the names and numbers in a reason.
var particulars = regexp.MustCompile(`\S*[0-9@/]\S*|\S+\.\S+|'[^']*'`)

// A ruleID names a rule with the class that it gave: one rule can give several.
type ruleID struct{ class, rule string }

// A Tally counts what was said of the deliveries of one or several plans.
type Tally struct {
	rows    map[rowID]row
	Doors   map[Door]int
	Ways    map[Way]*WayCounts
	reasons map[Reason]int
	rules   map[ruleID]*RuleCount
	Seconds float64
}

// NewTally returns an empty tally.
func NewTally() *Tally {
	return &Tally{rows: map[rowID]row{}, Doors: map[Door]int{}, Ways: map[Way]*WayCounts{}, reasons: map[Reason]int{},
		rules: map[ruleID]*RuleCount{}}
}

func (t *Tally) delivered(p *Plan, d *Delivery, a Answer) {
	t.Doors[p.Sites[d.Site].Door]++
	id := campaignID{p.Name, d.Campaign}
	if a.Class >= bulkhead.ClassSuspected {
		t.reasons[Reason{d.Spam, a.Class.String(), d.Kind, particulars.ReplaceAllString(a.Reason, "_")}]++
		if c := t.rule(ruleID{a.Class.String(), a.Rule}); d.Spam {
			c.Spam++
		} else {
			c.Genuine++
		}
	}
	groups := []Group{{"kind", "all"}, {"kind", d.Kind}, {"door", string(p.Sites[d.Site].Door)}}
	for _, g := range append(groups, d.Groups...) {
		r := t.row(rowID{d.Spam, g})
		if r[id] == nil {
			r[id] = new(Counts)
		}
		r[id].add(a)
	}
}

func (t *Tally) row(id rowID) row {
	if t.rows[id] == nil {
		t.rows[id] = row{}
	}
	return t.rows[id]
}

func (t *Tally) rule(id ruleID) *RuleCount {
	if t.rules[id] == nil {
		t.rules[id] = &RuleCount{Class: id.class, Rule: id.rule}
	}
	return t.rules[id]
}

func (t *Tally) way(w Way) *WayCounts {
	if t.Ways[w] == nil {
		t.Ways[w] = new(WayCounts)
	}
	return t.Ways[w]
}

func (t *Tally) voted(w Way, vote bulkhead.Vote, err error) {
	c := t.way(w)
	switch {
	case err != nil:
		c.Refused++
		c.Reason = err.Error()
	case vote == bulkhead.Ham:
		c.Ham++
	default:
		c.Spam++
	}
}

// Merge adds what another tally, of other plans, has counted.
func (t *Tally) Merge(o *Tally) {
	for id, r := range o.rows {
		maps.Copy(t.row(id), r)
	}
	for d, n := range o.Doors {
		t.Doors[d] += n
	}
	for reason, n := range o.reasons {
		t.reasons[reason] += n
	}
	for id, c := range o.rules {
		to := t.rule(id)
		to.Spam, to.Genuine = to.Spam+c.Spam, to.Genuine+c.Genuine
	}
	for w, c := range o.Ways {
		to := t.way(w)
		to.Spam, to.Ham, to.Refused = to.Spam+c.Spam, to.Ham+c.Ham, to.Refused+c.Refused
		if c.Reason != "" {
			to.Reason = c.Reason
		}
	}
	t.Seconds += o.Seconds
}

// A Share is a percentage of deliveries with its 95 % confidence interval, which takes the
// deliveries of one campaign as one observation of a cluster.
type Share struct {
	Percent float64 `json:"percent"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// A Line is what was counted of one name of a dimension.
type Line struct {
	IsSpam    bool   `json:"is_spam"`
	Dimension string `json:"dimension"`
	Name      string `json:"name"`
	Campaigns int    `json:"campaigns"`
	Counts
	CalledSpam Share `json:"called_spam"`
	Suspect    Share `json:"called_suspected"`
	CalledGood Share `json:"called_good"` // of the deliveries through doors that say it
}

// Lines returns all rows: of spam first, by dimension and name.
func (t *Tally) Lines() []Line {
	var all []Line
	for id, r := range t.rows {
		l := Line{IsSpam: id.spam, Dimension: id.Dimension, Name: id.Name, Campaigns: len(r)}
		for _, c := range r {
			l.merge(c)
		}
		every := func(c *Counts) int { return c.Cases }
		l.CalledSpam = share(r, func(c *Counts) int { return c.Spam }, every)
		l.Suspect = share(r, func(c *Counts) int { return c.Suspected }, every)
		l.CalledGood = share(r, func(c *Counts) int { return c.Good }, func(c *Counts) int { return c.Cases - c.Partial })
		all = append(all, l)
	}
	order := []string{"kind", "copies", "sender", "links", "verified", "family", "door", "corpus"}
	slices.SortFunc(all, func(a, b Line) int {
		if a.IsSpam != b.IsSpam {
			return map[bool]int{true: -1, false: 1}[a.IsSpam]
		}
		return cmp.Or(cmp.Compare(slices.Index(order, a.Dimension), slices.Index(order, b.Dimension)), cmp.Compare(a.Name,
			b.Name))
	})
	return all
}

// share estimates the share of hits among cases. The variance of the ratio over campaigns gives
// the number of independent deliveries that would be as informative. The interval is Wilson's
// for that number.
func share(r row, hits, cases func(*Counts) int) Share {
	k, n, squares := 0.0, 0.0, 0.0
	for _, c := range r {
		m := float64(cases(c))
		k, n, squares = k+float64(hits(c)), n+m, squares+m*m
	}
	if n == 0 {
		return Share{High: 100}
	}
	p := k / n
	effective := n * n / squares // if all deliveries of a campaign are judged alike
	if p > 0 && p < 1 {
		variance := 0.0
		for _, c := range r {
			x := float64(hits(c)) - p*float64(cases(c))
			variance += x * x / (n * n)
		}
		if variance > 0 {
			effective = min(n, p*(1-p)/variance)
		}
	}
	m := max(1, int(math.Round(effective)))
	low, high := interval.Wilson(int(math.Round(p*float64(m))), m)
	return Share{100 * p, 100 * min(low, p), 100 * max(high, p)}
}

// Print writes the tables.
func (t *Tally) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	last := Line{}
	for i, l := range t.Lines() {
		if i == 0 || l.IsSpam != last.IsSpam || l.Dimension != last.Dimension {
			what := map[bool]string{true: "spam", false: "genuine"}[l.IsSpam]
			fmt.Fprintf(out, "\n%s, by %s\tcases\tcampaigns\tspam %%\t\tsuspected %%\t\tgood %%\t\tbulk\tunknown\t\n", what,
				l.Dimension)
		}
		last = l
		fmt.Fprintf(out, "%s\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t\n", l.Name, l.Cases, l.Campaigns,
			l.CalledSpam, l.Suspect, l.CalledGood, l.Bulk, l.Unknown)
	}
	fmt.Fprintf(out, "\nvotes by\tspam\tham\trefused\t\n")
	for _, way := range slices.Sorted(maps.Keys(t.Ways)) {
		c := t.Ways[way]
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t\n", way, c.Spam, c.Ham, c.Refused)
	}
	for _, way := range slices.Sorted(maps.Keys(t.Ways)) {
		if reason := t.Ways[way].Reason; reason != "" {
			fmt.Fprintf(out, "\n%s, last refusal: %s\n", way, reason)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if err := t.printRules(w); err != nil {
		return err
	}
	return t.PrintReasons(w, "all")
}

// A RuleCount is how many deliveries a rule called spam or suspected.
type RuleCount struct {
	Class   string `json:"class"`
	Rule    string `json:"rule"`
	Spam    int    `json:"spam"`    // of these, spam
	Genuine int    `json:"genuine"` // and genuine mail
}

// Rules returns what each rule decided, those against the most genuine mail first. dccifd names no rule.
func (t *Tally) Rules() []RuleCount {
	var all []RuleCount
	for id, c := range t.rules {
		if id.rule != "" {
			all = append(all, *c)
		}
	}
	slices.SortFunc(all, func(a, b RuleCount) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(b.Genuine, a.Genuine), cmp.Compare(b.Spam, a.Spam),
			cmp.Compare(a.Rule, b.Rule))
	})
	return all
}

func (t *Tally) printRules(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nrule\tverdict\tof spam\tof genuine mail\t\n")
	for _, c := range t.Rules() {
		fmt.Fprintf(out, "%s\t%s\t%d\t%d\t\n", c.Rule, c.Class, c.Spam, c.Genuine)
	}
	return out.Flush()
}

// A ReasonCount is how often a reason was given.
type ReasonCount struct {
	Reason
	Cases int `json:"cases"`
}

// Reasons returns the reasons that were given, the most frequent first. dccifd gives none.
func (t *Tally) Reasons() []ReasonCount {
	var all []ReasonCount
	for r, n := range t.reasons {
		if r.Text != "" {
			all = append(all, ReasonCount{r, n})
		}
	}
	slices.SortFunc(all, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Cases, a.Cases), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text),
			cmp.Compare(a.Class, b.Class))
	})
	return all
}

// mostReasons is how many reasons are printed.
const mostReasons = 12

// PrintReasons writes the most frequent reasons against genuine mail of what.
func (t *Tally) PrintReasons(w io.Writer, what string) error {
	all := slices.DeleteFunc(t.Reasons(), func(r ReasonCount) bool { return r.IsSpam })
	for i, r := range all[:min(mostReasons, len(all))] {
		if i == 0 {
			fmt.Fprintf(w, "\n%s: reasons against genuine mail, names and numbers left out:\n", what)
		}
		if _, err := fmt.Fprintf(w, "%6d  %s, %s: %s\n", r.Cases, r.Kind, r.Class, r.Text); err != nil {
			return err
		}
	}
	return nil
}

// String returns the share and its interval as two columns.
func (s Share) String() string {
	digits := 1
	if s.Percent > 0 && s.Percent < 0.1 {
		digits = 3
	}
	return fmt.Sprintf("%.*f\t%.*f to %.*f", digits, s.Percent, digits, s.Low, digits, s.High)
}
