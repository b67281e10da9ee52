// Package trust keeps who may report and how much a report weighs.
//
// # Weights
//
// An account's weight lies in 0..1. Of a voter's votes on a signature the latest
// counts, for spam or against it; it takes back the one before. The heavier side wins
// at once ([Balance]): a signature is listed when the weight for spam, less that of
// ham votes and revocations, reaches [Policy].Promotion, and delisted when the weight
// against it has caught up with the weight for it. A repeated vote adds only what the
// voter's weight has risen by since.
//
// Administrators and trusted accounts have the weight that an administrator gave them.
// Reporters earn theirs:
//
//	w = (s + (m - s) · d/(d + h)) · 2^-max(0, r - d/30)
//
// with s the start weight (Policy.SelfRegistered, or Policy.Loopback for accounts
// registered from the node itself), m the most that it can reach, d the days on which
// a report of it was confirmed, h = Policy.Half, and r its reports that others revoked
// while it stood by them. Any number of reports confirmed on one day are one day:
// weight takes time, however many messages somebody can send.
//
// The most is Policy.Ceiling with confirmations from three networks, half of that with
// two, a quarter with one, and never above the weight of those who confirmed. Only an
// account that an administrator vouched for ([Policy.Confirms]) confirms a report,
// when its own vote lists the message: accounts made by the same hand cannot raise
// each other, and reporting what is listed already earns nothing.
//
// # Voices, persons and parents
//
// Votes belong to voices ([Standing].Voice). All accounts of one person are one voice.
// The node itself is the person [LocalPerson]: its clients that have no account, and
// the accounts registered on it. A service that is a root may name the user on whose
// behalf it reports; each user of the service is a voice of the service's weight. An
// account never weighs more than the parent that answers for it, and its revoked
// reports count against both.
//
// # Roots and strangers
//
// A root is a voice whose weight an administrator gave: a trusted account or an
// administrator's, a client or account of the node itself, a reporter that was given
// more than can be earned ([Standing].Root). Its weight never falls below what was
// given, so that the only reporter of a node stays useful. All others are strangers,
// however much they have earned: they help roots to list, and alone they neither list
// nor delist anything.
//
// # Sybils
//
// Accounts that nobody vouches for, and anonymous clients, share one voice for each
// signature and network ([Voucher]: a /24 of IPv4; the networks of an IPv6 /32 share
// four) until reports of theirs have been confirmed on three days: a thousand accounts
// registered from one network weigh as much as one, and a week of votes as much as a
// day. Their sightings are counted in the same way ([Book.Door]). A network may
// register Policy.PerNetwork accounts, all networks together Policy.Accounts; an
// account that never helped is removed after Policy.IdleDays without a vote, or when
// another needs its place. See "bulkhead-lab attack" and the tests TestAttackOverDays
// and TestSequences.
//
// Yan and Cho call reporter trust an open problem of both systems that they study
// (section 2); these rules are this project's answer.
package trust
