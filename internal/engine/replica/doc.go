// Package replica holds what other servers count: the replicas of the origins that
// count here.
//
// A replica is arrays of one origin ([Held]), which take its rounds and images
// ([Part]) in the order of the journal. One that has taken all rounds equals the
// origin's array cell by cell; a round that does not continue it is a gap
// ([ErrGap]), which images of the whole array close.
//
// Beyond the memory for them arrays leave the memory. Cold ones are a file of the
// last checkpoint and the rounds since, and merged ones ([Merged]) hold the sum of
// what several of them hold. Merging is never in the journal: it changes where a
// look-up reads, and nothing of what a replica is.
//
// A [Set] knows no journal and no engine. The writer calls what changes it, one call
// after the other, and makes durable first what has to last; look-ups read its
// [View]. [Set.Merge] takes from its caller how to run something between two batches
// of the writer, and how to write a checkpoint.
package replica
