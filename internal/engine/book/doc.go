// Package book keeps generations in time order, and drops them as a whole ("signature aging", Yan
// and Cho, section 4): new keys go into the newest generation, look-ups add up all live
// generations, and the oldest is dropped.
//
// One mechanism serves two books. A [Keeper] decides when a generation is due, how large it
// is, and which ones are dropped because of their age or to stay within a memory limit. It
// decides in [Keeper.Plan] and acts in [Keeper.Apply], so that a journal can stand between
// the two. A generation of the tally is a [Tally], one of the blocklist a [Block].
//
// The package knows nothing of votes, signatures or disks. A [Book] is never changed, only
// replaced, and several goroutines may read it at once. A Keeper belongs to one goroutine, except
// for [Keeper.SetKey] and the functions that [Keeper.Ahead] returns. Arrays may be read while one
// goroutine writes to them.
package book
