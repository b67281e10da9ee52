package admin

import "context"

// A Rule is one rule of the judgement, with what became of its decisions since the node started.
type Rule struct {
	Name      string `json:"name"`
	Verdict   string `json:"verdict" doc:"Class that the rule decides, or excused: it lets a message off the reports of its text."`
	When      string `json:"when" doc:"When the rule applies."`
	Decided   uint64 `json:"decided" doc:"Checks that it decided."`
	Objected  uint64 `json:"objected" doc:"Votes that a message which it would call spam or suspected is wanted."`
	Confirmed uint64 `json:"confirmed" doc:"Votes for spam on a message that it would call spam or suspected."`
	Missed    uint64 `json:"missed" doc:"Votes for spam on a message that it would let through."`
}

// Rules returns the rules of the node's judgement, in the order in which they are tried.
func (c *Client) Rules(ctx context.Context) ([]Rule, error) {
	return call[[]Rule](ctx, c, "GET", "/v1/rules", nil, nil)
}
