// Package trust keeps who may report and how much a report weighs.
//
// # Weights
//
// An account's weight lies in 0..1. The latest vote of a voter on a signature
// weighs, for spam or against it; a change of mind takes the vote before it back. The
// heavier side wins at once ([Balance]): a signature is listed when the weight for
// spam, less that of ham votes and revocations, reaches [Policy].Promotion, and taken
// off when the weight against it has caught up with the weight for it. Who votes again
// adds weight only as far as the weight has risen since.
//
// Administrators and trusted accounts have the weight that an administrator
// gave them. A reporter's weight is earned:
//
//	w = (s + (m - s) · d/(d + h)) · 2^-max(0, r - d/30)
//
// with s the start weight (Policy.SelfRegistered, or Policy.Loopback for
// accounts registered from the node itself), m how far it can reach, d the days on
// which a report of it was confirmed, h = Policy.Half, and r its reports that were
// revoked by others while it stood by them. Many confirmed reports of one day are one
// day: weight takes time, however many messages somebody can send.
//
// It reaches Policy.Ceiling with confirmations from three networks, half of that with
// two, a quarter with one, and never further than the weight of who confirmed.
// A report is confirmed only by an account that an administrator vouched
// for ([Policy.Confirms]), which lists the message by it: accounts made by the same
// hand cannot raise each other, and who tags along with what is listed earns nothing.
//
// # Voices, persons and parents
//
// Votes are those of voices ([Standing].Voice). All accounts of one person are one
// voice; the node itself is the person [LocalPerson], with its clients that have no
// account and the accounts registered there. A service that is a root may name the user
// on whose behalf it reports: one voice for each user of the service, of its weight. An
// account never weighs more than the parent that answers for it, and its revoked
// reports count against both.
//
// # Roots and strangers
//
// A root is a voice whose weight the administrator gave: an account that is trusted or
// an administrator's, a client or account of the node itself, a reporter that was given
// more than can be earned ([Standing].Root). Its weight never falls below what was given, so that
// the only reporter of a node stays useful. All others are strangers, however much they
// have earned: they help roots to list, alone they list nothing, and what is listed they
// never take off.
//
// # Sybils
//
// Accounts that nobody vouches for, and anonymous clients, have one voice for each
// signature and network ([Voucher]: /24 for IPv4; all networks of an IPv6 /32 have four
// voices together) until reports of theirs were confirmed on three days: a thousand
// accounts registered from one network weigh as much as one, and a week of votes as
// much as a day. Their sightings are one in the same way ([Book.Door]). A network may
// register Policy.PerNetwork accounts, all of them Policy.Accounts; one that never
// helped ends after Policy.IdleDays without a vote, or when another one needs its
// place. See "bulkhead-lab attack" and the tests TestAttackOverDays and TestSequences.
//
// Yan and Cho name reporter trust as an open problem of both systems they
// study (section 2); these rules are this project's answer.
package trust
