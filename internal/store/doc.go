// Package store keeps a node's state on disk: a journal of the changes since the last checkpoint,
// and the checkpoint's files. It deals in bytes, indexes and files, and has no notion of filters or
// mail. It implements the durability promise of ARCHITECTURE.md, "Life of a report".
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
// A CRC-32C covers every byte together with its position (segment and index of an entry, number of
// a block), so a block that the disk wrote to the wrong place is detected as well as a flipped bit.
//
// # The journal
//
// docs/specs/journal.md has the format of segments: a header that names the store and the segment's
// position, followed by records. A record has one checksum over its header and one over the entry.
// A reader can resynchronise after damage, because every record header is recognisable by its salt
// and its own checksum. This distinguishes damage from a torn write, which is the last thing in a
// journal.
//
// An entry carries its own index, and the index up to which everything was known to be durable when
// it was written. An unreadable record is dropped as a torn write, with a warning, only if it
// cannot have been acknowledged: its index is above the watermark, and no later entry states that
// it was durable. Everything else is a [DamageError]. After a power loss the watermark may be out
// of date; damage to the very last entry then looks like a torn write. In all other cases the
// distinction is certain.
//
// The following libraries were considered. hashicorp/raft-wal checks only the checksum of the last
// batch; of 240 single flipped bits in its segments, 233 came back as content and 2 silently ended
// the log early, and its errors name no file and offset. etcd's wal noticed all of 180, but adds
// 160 packages including gRPC, cannot inject a failed fsync, keeps its segment size in a package
// variable and reads a whole log into memory. pebble's record format descends from LevelDB's and
// adds 105 packages, including the client of a crash-reporting service. goleveldb's journal package
// did well and is no longer maintained.
//
// # Failure
//
// When a write or an fsync fails, the content of the disk is unknown: the kernel may have dropped
// the dirty pages. The store is then Failed: every Append returns an error that wraps [ErrFailed],
// until [Store.Recover] has written the caller's whole memory as a checkpoint, read it back from
// the disk and begun a journal of a new epoch. The index of the failed entry is not used again.
//
// # Salvage
//
// [Open] refuses a damaged store, and [Inspect] reports the damage. With [Options].Salvage the
// store is opened nevertheless: [Store.Replay] passes on every readable entry, and [Store.Salvaged]
// describes the files of the checkpoint. The store is Failed until Recover has written the caller's
// result as a checkpoint of a new incarnation. Damaged files are kept.
//
// # Concurrency
//
// One goroutine calls Append. All other methods may be called at any time from any goroutine. Lock
// order: ckptMu, appendMu, mu.
package store
