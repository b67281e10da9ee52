// Package mta holds the tests of the mail server's side against real software:
// Postfix and Exim, rspamd and SpamAssassin, rbldnsd and postfwd, each in the
// version that Debian packages. It has no code of its own.
//
// Programs that are not installed are unpacked from their packages into a cache
// folder, without being installed: Postfix and Exim would otherwise exclude each
// other, and a mail server that is configured on the machine stays as it is.
// Instances run with their own configuration, queue and high loopback ports, and
// are stopped by process id.
package mta
