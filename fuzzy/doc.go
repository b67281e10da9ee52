// Package fuzzy implements the protocol of rspamd's fuzzy storage: a [Server] for
// unmodified fuzzy_check modules, and a [Client].
//
// Source: docs/specs/rspamd-fuzzy.md.
//
//	s := &fuzzy.Server{Clearinghouse: house}
//	pc, err := net.ListenPacket("udp", "127.0.0.1:11335")
//	err = s.ServePacket(pc) // until s.Shutdown, then door.ErrServerClosed
//	err = s.Serve(l)        // the same over TCP
//
// # Storage
//
// Filters cannot hold records, so everything that a client may look up is kept as counts
// of signatures in the tally:
//
//   - the weight of a digest on a list (flag): two or three accounts (package
//     ledger) of what was added, all of which must show it, and of what was taken
//     away by negative writes and deletes;
//   - the shingles of a text: 20 bands of four (rspamd.AppendBands),
//     each with such an account for each list;
//   - which lists are in use at all: a counter for each.
//
// A near copy is found when at least three bands agree, as they do when 20 of 32 shingles are
// equal, and enough that the probability of a chance match is at most 1e-5. A text therefore costs
// 22 signatures.
//
// A write to a spam or ham list is also a vote on the digest itself. Other front doors therefore
// know mail reported here, and a digest listed through them is found here.
package fuzzy
