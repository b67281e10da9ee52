// Package trust keeps the accounts that may report, and determines how much a report weighs.
//
// # Weights
//
// An account's weight lies in 0..1. Only a voter's latest vote on a signature counts, for spam or
// against it; it replaces the previous one. The heavier side wins at once ([Balance]). A signature
// is listed when the weight for spam, less the weight of ham votes and revocations, reaches
// [Policy].Promotion. It is delisted when the weight against it has caught up with the weight for
// it. A repeated vote adds only the increase of the voter's weight since the last vote.
//
// Administrators and trusted accounts have the weight that an administrator gave them.
// Reporters earn theirs:
//
//	w = (s + (m - s) · d/(d + h)) · 2^-max(0, r - d/30)
//
// where s is the start weight (Policy.SelfRegistered, or Policy.Loopback for accounts registered
// from the node itself), m the most that the account can reach, d the number of days on which a
// report of it was confirmed, h = Policy.Half, and r the number of its reports that others revoked
// while it stood by them. Any number of reports confirmed on one day count as one day: weight takes
// time, however many messages a reporter sends.
//
// The maximum m is Policy.Ceiling with confirmations from three networks, half of the ceiling with
// two, a quarter with one, and never above the weight of the confirming accounts. Only an account
// that an administrator vouched for ([Policy.Confirms]) confirms a report, when its own vote lists
// the message. Accounts made by the same person therefore cannot raise each other, and reporting
// what is already listed earns nothing.
//
// # Voices, persons and parents
//
// Votes belong to voices ([Standing].Voice). All accounts of one person are one voice. The node
// itself is the person [LocalPerson]: its clients that have no account, and the accounts registered
// on it. A service that is a root may name the user on whose behalf it reports; each user of the
// service is a voice with the service's weight. An account never weighs more than the parent that
// answers for it, and its revoked reports count against both.
//
// # Roots and strangers
//
// A root is a voice whose weight an administrator gave ([Standing].Root): a trusted account, an
// administrator, a client or account of the node itself, or a reporter that was given more than can
// be earned. Its weight never falls below the given weight, so that the only reporter of a node
// stays useful. All other voices are strangers, however much they have earned: they help roots to
// list, but alone they neither list nor delist anything.
//
// # Sybils
//
// Anonymous clients and accounts without anyone vouching for them share one voice for each
// signature and network until reports of theirs have been confirmed on three days. The network
// ([Voucher]) is a /24 of IPv4; the networks of an IPv6 /32 share four voices. A thousand accounts
// registered from one network thus weigh as much as one, and a week of votes as much as a day.
// Their sightings are counted in the same way ([Book.Door]). A network may register
// Policy.PerNetwork accounts, all networks together Policy.Accounts. An account that never helped
// is removed after Policy.IdleDays without a vote, or when another account needs its place. See
// "bulkhead-lab attack" and the tests TestAttackOverDays and TestSequences.
//
// Yan and Cho call reporter trust an open problem of both systems that they study
// (section 2); these rules are this project's answer.
package trust
