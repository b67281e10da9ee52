// Package ledger takes back from counters that can only be raised.
//
// The counters of a clearinghouse go up, and are forgotten a generation at a time:
// that is what lets filters merge in any order. Front doors whose protocols can
// delete, or take some away, keep an account of several counters instead of one:
//
//	Added       all that was added
//	Taken       all that was taken away
//	Deletes     which deletes there were: raised by 1, 2, 4, 8 ...
//	AddedSince  what was added after the last delete, and
//	TakenSince  what was taken after it; each delete has its own two
//
// # Why the difference is not enough
//
// A delete takes away what is left: it raises Taken by that, and the difference is 0. But what was deleted is older than its deletion, and is
// forgotten first. From then on the difference is too low, by as much as is
// forgotten, and hides what was added since. So that is counted once more, in
// AddedSince, under the number of the delete. Its generations are those of the
// additions themselves: as long as the delete lives it shows exactly what came
// since and is not forgotten yet. Taken and Deletes are raised together, so that
// they are forgotten together, and then nothing older is left: the difference is
// exact again. [Balance.Left] is the larger of the two at all times. The difference
// never exceeds what came since: each delete took no less than what came between it
// and the one before, and outlives that.
//
// The larger, not the one in question, because a filter shows a counter that was
// never raised by error now and then: Deletes shown by error then hide nothing,
// nothing being Taken, nor does an AddedSince of a number that the difference
// exceeds. A Taken by error would hide: a front door that only deletes disbelieves
// one without Deletes, another one keeps two accounts of one thing and believes the
// larger.
//
// # Why deletes have numbers, and why 22
//
// What was added since a delete lives longer than the delete, so that the next one
// needs counters of its own: number 0, 1, 2 and so on. Deletes holds the numbers as
// bits, and its highest one is the last delete, also when earlier ones have been
// forgotten. A number is free again when neither it nor anything counted under it
// is left, see [Fresh].
//
// A counter ends at [bulkhead.Many], 2^24 - 1. The sum of 22 deletes is 2^22 - 1,
// which leaves room for nodes that delete the same thing before they hear of each
// other: two of them raise one bit twice, which shows the next number. Nothing is
// counted under that one yet, so what is added from then on counts from 0 as well;
// up to four nodes at once stay below Many. Beyond 22 deletes within the life of a
// generation a door refuses, or takes from the last delete's counters, which is
// right until that ages.
//
// # What is not exact
//
// What is taken without a delete (a negative addition) has no number. When what it
// was taken from is forgotten first, Taken is above Added; the next addition makes
// up for that, and when the taking is forgotten too, shows too much by as much, for
// the rest of its own life. What is added on a node that has not heard of a delete
// yet is not counted since it: it may be missing until the delete is forgotten.
//
//	a := ledger.Account{Name: names}      // which counter has which signature
//	err := ledger.Read(ctx, house, []*ledger.Account{&a})
//	var up ledger.Raising
//	up.Add(&a, 5)
//	err = house.Count(ctx, up.Sigs, up.N)
package ledger
