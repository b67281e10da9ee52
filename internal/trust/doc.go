// Package trust keeps who may report and how much a report weighs.
//
// # Weights
//
// An account's weight lies in 0..1. The latest vote of a voter on a signature
// weighs, for spam or against it; a change of mind takes the vote before it back. The
// heavier side wins at once ([Balance]): a signature is listed when the weight for
// spam, less that of ham votes and revocations, reaches [Policy].Promotion, and taken
// off when the weight against it has caught up with the weight for it. Who votes again
// in a later generation is counted again, and adds weight only as far as the weight
// has risen since, or the first vote has aged out.
//
// Administrators and trusted accounts have the weight that an administrator
// gave them. A reporter's weight is earned:
//
//	w = (s + (m - s) · c/(c + h)) · 2^-max(0, r - c/50)
//
// with s the start weight (Policy.SelfRegistered, or Policy.Loopback for
// accounts registered from the node itself), m = Policy.Ceiling, h =
// Policy.Half, c the reports that others confirmed and r those that were
// revoked by others while the reporter stood by them, each counted once however many
// confirm it. A report is confirmed only by an account that an administrator vouched
// for ([Policy.Confirms]), which lists the message by it: accounts made by the same
// hand cannot raise each other, and who tags along with what is listed earns nothing.
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
// signature and network (/24 for IPv4, /48 for IPv6) until a report of theirs is
// confirmed: a thousand accounts registered from one network weigh as much as one, and
// a week of votes as much as a day. Their sightings are one in the same way
// ([Book.Door]). See "bulkhead-lab attack" and the tests TestAttackOverDays and
// TestSequences.
//
// Yan and Cho name reporter trust as an open problem of both systems they
// study (section 2); these rules are this project's answer.
package trust
