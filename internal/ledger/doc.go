// Package ledger subtracts from counters that can only be raised.
//
// The counters of a clearinghouse go up, and are forgotten a generation at a time, so
// that filters merge in any order. Front doors whose protocols can delete or subtract
// keep an account of several counters instead of one:
//
//	Added       all that was added
//	Taken       all that was taken away
//	Deletes     which deletes there were: raised by 1, 2, 4, 8 ...
//	AddedSince  what was added after the last delete, and
//	TakenSince  what was taken after it; each delete has its own two
//
// # Why the difference is not enough
//
// A delete takes away what is left: it raises Taken by that, and the difference becomes
// 0. But the deleted counts are older than their deletion, and are forgotten first. From
// then on the difference is too low, by as much as was forgotten, and hides later
// additions. So these are also counted in AddedSince, under the number of the delete.
// Its generations are those of the additions themselves: as long as the delete lives, it
// shows exactly the later additions that are not forgotten yet. Taken and Deletes are
// raised together, so they are forgotten together, and then nothing older is left: the
// difference is exact again. [Balance.Left] is the larger of the two at all times. The
// difference never exceeds later additions: each delete took at least what came between
// it and the one before, and outlives that.
//
// It is the larger, and not the one that applies, because a filter sometimes shows a
// counter that was never raised. Deletes shown by error then hide nothing, because
// nothing is Taken; nor does a wrong AddedSince below the difference. A wrong Taken
// would hide counts: a door that only deletes ignores one without Deletes, and others
// keep two accounts of one thing and use the larger.
//
// # Why deletes have numbers, and why 22
//
// Additions since a delete live longer than the delete, so the next one needs counters
// of its own: number 0, 1, 2 and so on. Deletes holds the numbers as bits; its highest
// one is the last delete, even when earlier ones have been forgotten. A number is free
// again when neither it nor anything counted under it is left, see [Fresh].
//
// A counter ends at [bulkhead.Many], 2^24 - 1. The sum of 22 deletes is 2^22 - 1, which
// leaves room for nodes that delete the same thing before they hear of each other: two
// of them raise one bit twice, which shows the next number. Nothing is counted under
// that yet, so later additions count from 0 as well; up to four nodes at once stay below
// Many. Beyond 22 deletes within the life of a generation a door refuses, or takes from
// the last delete's counters, which is right until that ages.
//
// # What is not exact
//
// Subtraction without a delete (a negative addition) has no number. If the counts that
// it was taken from are forgotten first, Taken is above Added; the next addition
// compensates for that, and when the subtraction is forgotten too, the account shows too
// much by the same amount until that addition is forgotten. Additions on a node that has
// not heard of a delete yet are not counted since it: they may be missing until the
// delete is forgotten.
//
//	a := ledger.Account{Name: names}      // which counter has which signature
//	err := ledger.Read(ctx, house, []*ledger.Account{&a})
//	var up ledger.Raising
//	up.Add(&a, 5)
//	err = house.Count(ctx, up.Sigs, up.N)
package ledger
