// Package book keeps rows of generations in time order, which age whole
// ("signature aging", Yan and Cho, section 4): what is new goes to the newest
// one, look-ups add up all that live, and the oldest is dropped.
//
// There is one mechanism and there are two books. A [Keeper] says when a
// generation is due, how large it is, and which ones are dropped: because of their
// age, or to stay within a bound of memory. It decides in [Keeper.Plan] and does
// it in [Keeper.Apply], so that a journal can stand between the two. A generation
// of the tally is a [Tally], one of the blocklist a [Block].
//
// The package knows nothing of votes, signatures or disks. A [Book] is never
// changed, only replaced, and may be read by several goroutines at once; a Keeper
// belongs to one goroutine. Arrays of generations may be read while one goroutine
// writes to them.
package book
