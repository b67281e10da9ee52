// Package verdict judges: counts and weights in; class, judgement, confidence and
// reasons out. Its functions are pure. It knows neither where the numbers lie nor
// whose arrays they come from: filters, books and journals are its callers' business.
//
// A verdict is made in three steps. [Judge] says of one signature what the
// blocklists make of it, from the [State] that a walk over each of them ends
// in. [Policy.Finding] holds the [Policy.Strength] of the votes on it against the
// [Need] that follows from how often it was delivered, and says how likely the
// filters are wrong about it, its [Odds]. A [Decider] puts the findings of a message
// together, in the order of docs/judgement.md, and says why.
//
// The writer lists by the same strength and need: [Policy.Lists] is what both ask.
// What is of which facet, who speaks for the sender and what a text is paired with
// is said by [Parts], for both, too.
package verdict
