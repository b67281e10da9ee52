// Package fuzzydcc holds the integration tests of the front doors for rspamd's
// fuzzy_check and for programs that speak to dccifd: the real rspamd,
// SpamAssassin and Exim of a Debian system against the real bulkhead. They need
// these programs, run on loopback only, and are run by
//
//	test/interop test/fuzzydcc
package fuzzydcc
