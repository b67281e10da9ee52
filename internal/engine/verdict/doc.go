// Package verdict judges messages: it turns counts and weights into class, judgement, confidence
// and reasons. Its functions are pure. It knows neither where the numbers are stored nor which
// node's arrays they come from.
//
// A verdict is made in three steps. [Judge] returns the judgement of one signature by the
// blocklists, from the [State] at the end of a walk over each. [Policy.Finding] compares the
// [Policy.Strength] of its votes with the [Need] for its number of deliveries, and computes the
// probability that the filters are wrong about it from the [Odds]. A [Decider] combines the
// findings of a message in the order of docs/judgement.md, and adds the reasons.
//
// The writer lists by the same strength and need, through [Policy.Lists]. [Parts] determines, for
// both, the facets of signatures, the sender's signature and the contexts that a text is paired
// with.
package verdict
