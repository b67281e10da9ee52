// Package verify determines the verified domains of a message: those of valid DKIM
// signatures, and that of the envelope's sender if its SPF record permits the client.
//
// Libraries read the signatures and records. This package bounds the cost of a message:
// the number of signatures tried, of DNS queries, their total time, and the length of
// keys. After any failure a domain is merely not verified: nothing here counts against a
// message.
package verify
