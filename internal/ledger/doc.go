// Package ledger subtracts from counters that can only be raised.
//
// The counters of a clearinghouse only rise, and are forgotten a generation at a time, so that
// filters can be merged in any order. Front doors whose protocols can delete or subtract keep an
// account of several counters in place of one:
//
//	Added       everything that was added
//	Taken       everything that was taken away
//	Deletes     the deletes that happened: raised by 1, 2, 4, 8 ...
//	AddedSince  what was added after the last delete, and
//	TakenSince  what was taken after it; each delete has its own two
//
// # Why the difference is not enough
//
// A delete takes away what is left: it raises Taken by that amount, and the difference becomes 0.
// But the deleted counts are older than their deletion, and are forgotten first. From then on the
// difference is too low by the forgotten amount, and hides later additions. Later additions are
// therefore also counted in AddedSince, under the number of the delete. AddedSince has the same
// generations as the additions: as long as the delete lives, it shows exactly the later additions
// that are not forgotten yet. Taken and Deletes are raised together, so they are forgotten
// together. After that nothing older is left, and the difference is exact again. [Balance.Left] is
// the larger of the two at all times. The difference never exceeds the later additions: each delete
// took at least what was added since the delete before it, and outlives those additions.
//
// Left is the larger value, and not the one that applies, because a filter sometimes shows a
// counter that was never raised. A Deletes counter shown by error hides nothing, because nothing is
// Taken. Neither does a wrong AddedSince below the difference. A wrong Taken would hide counts: a
// door that only deletes ignores Taken without Deletes, and other doors keep two accounts for each
// thing and use the larger one.
//
// # Why deletes have numbers, and why 22
//
// Additions since a delete live longer than the delete, so the next delete needs counters of its
// own: number 0, 1, 2 and so on. Deletes holds the numbers as bits. Its highest bit is the last
// delete, even when earlier deletes have been forgotten. A number is free again when neither the
// delete nor anything counted under its number is left; see [Fresh].
//
// A counter ends at [bulkhead.Many], 2^24 - 1. The sum of 22 deletes is 2^22 - 1, which leaves room
// for nodes that delete the same thing before they learn of each other's delete. Two such nodes
// raise one bit twice, which shows as the next number. Nothing is counted under that number yet, so
// later additions start from 0 as well. Up to four nodes at once stay below Many. After 22 deletes
// within the life of a generation, a door refuses further deletes, or takes from the last delete's
// counters, which is right until that delete ages.
//
// # What is not exact
//
// A subtraction without a delete (a negative addition) has no number. If the counts that it was
// taken from are forgotten first, Taken exceeds Added, and the next addition compensates for that.
// When the subtraction is forgotten as well, the account shows too much by the same amount until
// that addition is forgotten. A node that does not know of a delete yet does not count its
// additions as later ones: they may be missing until the delete is forgotten.
//
//	a := ledger.Account{Name: names}      // which counter has which signature
//	err := ledger.Read(ctx, house, []*ledger.Account{&a})
//	var up ledger.Raising
//	up.Add(&a, 5)
//	err = house.Count(ctx, up.Sigs, up.N)
package ledger
