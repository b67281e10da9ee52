// Package lesson exchanges counts of words and style between the nodes of a network. A node teaches
// ([Teacher]) what it has counted, and studies ([Class]) what its peers have counted.
//
// A node teaches a token from the second message and the second person on, and then with its full
// counts. New counts go out in rounds of at least [LeastRound] messages. Counts only rise: a report that
// was taken back has a count of its own. So a lesson that is lost or repeated costs nothing; the next one
// repairs it.
//
// The counts of peers are combined per token, see [learn.Together] and [learn.Beside]: no origin adds more than the
// t-th largest of them has, or of the reports than t of them and the node itself have. An origin whose counts alone
// condemn the node's own mail is left out.
//
// Peers' counts are in plain tables, not in counting arrays. To combine them per token, a node must be able
// to list the tokens. Only tokens that an origin shares are in a table, and they are the smaller part.
//
// docs/specs/lesson.md describes the bytes.
package lesson
