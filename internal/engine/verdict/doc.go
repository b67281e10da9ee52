// Package verdict judges: counts and weights in, judgement, confidence and
// reasons out. It consists of pure functions. It knows neither where the numbers
// lie nor whose arrays they come from: filters, books and journals are its
// callers' business.
//
// A verdict is made in three steps. [Judge] says of one signature what the
// blocklists make of it, from the [State] that a walk over each of them ends
// in. [Policy.Finding] weighs what else is known of that signature, its
// [Evidence], and how likely the filters are wrong about it, its [Odds].
// [Policy.Message] puts the findings of a message together and says why.
package verdict
