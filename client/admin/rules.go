package admin

import (
	"context"
	"net/url"
	"strconv"
)

// A Rule is one rule of the judgement, with what became of its decisions of the last days.
type Rule struct {
	Name       string  `json:"name"`
	Verdict    string  `json:"verdict" doc:"Class that the rule decides, or excused: it lets a message off the reports of its text."`
	When       string  `json:"when" doc:"When the rule applies."`
	LeastVotes float64 `json:"least_votes,omitempty" doc:"Weight of votes that spam by this rule rests on at least, because of wanted_lost; with less, the message is suspected. Absent if the rule alone decides."`
	Outcomes
	Classes []RuleClass `json:"classes,omitempty" doc:"The same by the class that the rule decided. Absent if it decided nothing."`
}

// A RuleClass is what became of a rule's decisions for one class.
type RuleClass struct {
	Class string `json:"class" enum:"unknown,good,bulk,suspected,spam"`
	Outcomes
}

// Outcomes are what became of decisions. Votes are those of trusted voters; most readers are silent.
type Outcomes struct {
	Decided   uint64  `json:"decided" doc:"Checks that it decided."`
	Objected  uint64  `json:"objected" doc:"Votes that a message is wanted which it called spam or suspected."`
	Confirmed uint64  `json:"confirmed" doc:"Votes for spam on a message that it called spam or suspected."`
	Missed    uint64  `json:"missed" doc:"Votes for spam on a message that it let through."`
	Wrong     float64 `json:"wrong" minimum:"0" maximum:"1" doc:"Share of the decisions that votes contradicted."`
	WrongLow  float64 `json:"wrong_low" minimum:"0" maximum:"1" doc:"Lower end of its 95 % confidence interval."`
	WrongHigh float64 `json:"wrong_high" minimum:"0" maximum:"1" doc:"Upper end of its 95 % confidence interval; 1 without decisions."`
}

// Rules returns the rules of the node's judgement, in the order in which they are tried, with what
// became of their decisions of the last days, today included. days is 1 to 28; 0 means 28.
func (c *Client) Rules(ctx context.Context, days int) ([]Rule, error) {
	q := make(url.Values)
	if days != 0 {
		q.Set("days", strconv.Itoa(days))
	}
	return call[[]Rule](ctx, c, "GET", "/v1/rules", q, nil)
}
