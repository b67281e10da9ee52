// Package verify finds out which domains answer for a message: those whose DKIM
// signatures of it are valid, and that of the envelope's sender if its SPF record
// names the client.
//
// The signatures and records are read by libraries. This package bounds what a
// message may cost: how many of its signatures are tried, how many questions are put
// to the DNS, how long all of them may take and how long a key may be. Whatever fails,
// a domain is not verified, and that is all: nothing here speaks against a message.
package verify
