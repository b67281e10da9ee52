// Package engine is the Clearinghouse of a node. Its tally book counts how often a message was seen
// and how people voted. Its blocklist book records whether a trusted reporter has called the
// message spam and no other votes outweigh the report (Yan and Cho, sections 3 and 4).
//
// # Books and generations
//
// A book is a row of generations in time order. Votes go to the newest generation, look-ups add up
// all live generations, and the oldest is dropped whole ("signature aging"). A generation of the
// tally is a counting array and a bit array, which remembers the reports that were counted (a
// unique filter in Finch's sense). A generation of the blocklist is the spam and the revocation
// filter, the weights of votes with who voted on what, and the deliveries of names. Package book
// opens and drops generations; package verdict judges by their contents.
//
// # One writer
//
// Check takes no lock: package check loads the current view and reads array words atomically. Report hands its
// votes to one goroutine, which decides their effects (duplicates, weights, promotions), writes the
// decisions of a whole batch as one journal entry, waits until it is durable, applies it, and
// answers. The journal holds decisions, not votes, so replaying it after a crash depends on no
// other state. Each page of an array records the index of the last entry that it includes, so
// replay and page-by-page checkpoints cannot count anything twice.
//
// # Replicas
//
// Package replica holds the counts of other servers, one replica for each origin. Their
// rounds and images are journal entries like everything else.
//
// # Locks
//
// The books, the whitelist and the view of the replicas are atomic pointers. A look-up loads each of
// them once. The trust book has its own lock, which readers take for a map look-up
// and the writer for a change. No other lock is taken while it is held.
package engine
