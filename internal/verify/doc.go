// Package verify determines the verified domains of a message: the domains of valid DKIM
// signatures, and the domain of the envelope's sender if its SPF record permits the client.
//
// DKIM (RFC 6376, 8301 and 8463) is verified here, since its cost has to be linear in the size of
// a message and end with its time; a library reads SPF records. The number and size of
// signatures, the header, the DNS queries, their total time and the length of keys are bounded.
// After any failure a domain is merely not verified: nothing here counts against a message.
package verify
