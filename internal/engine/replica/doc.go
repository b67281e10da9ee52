// Package replica holds what other servers count: replicas of the origins whose word counts
// here.
//
// A replica ([Held]) is the arrays of one origin, which take its rounds and images ([Part])
// in the order of the journal. An array that has taken all rounds equals the origin's cell
// by cell. A round that does not continue it is a gap ([ErrGap]), which images of the whole
// array close.
//
// When the memory for replicas is used up, arrays leave it. A cold array is a file of the
// last checkpoint and the rounds since; a merged array ([Merged]) holds the sum of several
// cold ones. Merging is never in the journal: it changes where a look-up reads, not what a
// replica is.
//
// A [Set] knows neither the journal nor the engine. The writer calls what changes it, one
// call after the other, and first makes durable what must last; look-ups read its [View].
// The caller of [Set.Merge] passes functions that run something between two batches of the
// writer, and that write a checkpoint.
package replica
