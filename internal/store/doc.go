// Package store keeps a node's state on disk: a journal of what has happened
// since the last checkpoint, and the checkpoint's files. It knows bytes,
// indexes and files, and nothing of filters or mail. It implements the
// durability promise of ARCHITECTURE.md, "Life of a report".
//
//	st, err := store.Open(dir, store.Options{})
//	for _, f := range st.Manifest().Files { r, err := st.OpenFile(f.Name); ... }
//	err = st.Replay(ctx, st.Manifest().Start, apply)
//	index, err := st.Append(batch)                  // durable when it returns
//	err = st.Checkpoint(ctx, index+1, meta, files)  // from any goroutine
//
// # On disk
//
//	LOCK       held with flock, contains the process id
//	MANIFEST   the last checkpoint: its files, metadata, first journal index to replay
//	MANIFEST.copy  the same, for a salvage
//	watermark  the last acknowledged journal index, overwritten in place
//	files/     checkpoint files, never changed once they are named by a manifest
//	journal/   segments, EPOCH-FIRSTINDEX.log
//
// Every byte is under a CRC-32C, and with it goes the place that the bytes belong to
// (segment and index of an entry, number of a block), so that a block which the
// disk has put in the wrong place is noticed as well as a flipped bit.
//
// # The journal
//
// The format of segments is docs/specs/journal.md: records with a checksum over their
// head and one over the entry, behind a header that says of which store and place the
// segment is. A reader can find its feet again behind a damaged place, since every
// head can be told by its salt and its own checksum. That ability tells damage from a
// torn write: a torn write is the last thing in a journal.
//
// An entry carries its own index and the index up to which everything was known to
// be durable when it was written. An unreadable place is a torn write, dropped with a
// warning, only if nothing that was ever acknowledged can have been there: its index
// is above the watermark and no later entry says that it was durable. Everything else
// is a [DamageError]. After a power loss the watermark may be out of date; then damage
// to the very last entry cannot be told from a torn write. In no other case is the
// distinction a guess.
//
// Libraries that were looked at: hashicorp/raft-wal checks no checksum but that of the
// last batch; of 240 single flipped bits in its segments 233 came back as content and
// 2 ended the log early, in silence, and its errors name no file and offset.
// etcd's wal noticed all of 180, but brings 160 packages including gRPC, has no
// seam for injecting a failed fsync, keeps its segment size in a package
// variable and reads a whole log into memory. pebble's record format descends
// from LevelDB's and brings 105 packages, the client of a crash-reporting
// service among them. goleveldb's journal package did well and is no longer kept.
//
// # Failure
//
// When a write or an fsync fails, nobody knows what is on the disk: the kernel
// may have dropped the dirty pages. The store then is Failed: every Append
// returns an error that wraps [ErrFailed], until [Store.Recover] has written
// the caller's whole memory as a checkpoint, read it back from the disk and
// begun a journal of a new epoch. The index of the entry that failed is not
// used again.
//
// # Salvage
//
// A damaged store is refused by [Open], and [Inspect] says what is wrong with it. With
// [Options].Salvage it is opened all the same: [Store.Replay] hands out every entry
// that can be read, [Store.Salvaged] tells of the files of the checkpoint, and the store
// is Failed until Recover has written anew what the caller made of it, in a new
// incarnation. Damaged files are kept.
//
// # Concurrency
//
// One goroutine calls Append. All other methods may be called at any time from
// any goroutine. Lock order: ckptMu, appendMu, mu.
package store
