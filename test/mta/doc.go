// Package mta holds the tests of the mail server's side against real software:
// Postfix and Exim, rspamd and SpamAssassin, rbldnsd and postfwd, each in the
// version that Debian packages. It has no code of its own. Instances run with
// their own configuration, queue and high loopback ports, and are run by
//
//	test/interop test/mta
package mta
