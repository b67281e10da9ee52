// Package replica holds the counts of other servers: replicas of the origins that this node takes
// counts from.
//
// A replica ([Held]) is the arrays of one origin. They take its rounds and images ([Part]) in the
// order of the journal. An array that has taken all rounds equals the origin's array cell by cell.
// A round that does not continue the array is a gap ([ErrGap]), which images of the whole array
// close.
//
// When the memory for replicas is used up, arrays leave it. A cold array is a file of the last
// checkpoint and the rounds since; a merged array ([Merged]) holds the sum of several cold ones.
// Merging is never in the journal: it changes the arrays that a look-up reads, not the replicas.
//
// A [Set] knows neither the journal nor the engine. The writer calls the methods that change it,
// one after the other, and first makes lasting changes durable. Look-ups read its [View]. The
// caller of [Set.Merge] passes a function that runs another between two batches of the writer, and
// one that writes a checkpoint.
package replica
