// Package trust keeps who may report and how much a report weighs.
//
// # Weights
//
// An account's weight lies in 0..1. A report adds the weight of its reporter
// to the pending tally of each signature; when the weight for spam, less the
// weight of the ham votes, reaches [Policy].Promotion, the signature enters
// the spam Bloom filter. Revokes promote into the revocation filter in the
// same way. Who votes again in a later generation is counted again, and adds
// weight only as far as the weight has risen since, or the first vote has aged
// out.
//
// Administrators and trusted accounts have the weight that an administrator
// gave them. A reporter's weight is earned:
//
//	w = (s + (m - s) · c/(c + h)) · 2^-max(0, r - c/50)
//
// with s the start weight (Policy.SelfRegistered, or Policy.Loopback for
// accounts registered from the node itself), m = Policy.Ceiling, h =
// Policy.Half, c the reports that others confirmed and r those that were
// revoked, each counted once however many confirm it. A report is confirmed
// only by an account that stands high ([Policy.Confirms]): accounts made by the
// same hand cannot raise each other.
//
// # Sybils
//
// Accounts that nobody vouches for, and anonymous clients, count once for each
// signature and network (/24 for IPv4, /48 for IPv6): a thousand accounts
// registered from one network weigh as much as one, and a week of votes as much
// as a day. See the tests TestAttack and TestAttackOverDays for how many networks
// it takes to list a newsletter.
//
// Yan and Cho name reporter trust as an open problem of both systems they
// study (section 2); these rules are this project's answer.
package trust
