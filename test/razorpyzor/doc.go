// Package razorpyzor holds the tests of the front doors for Razor 2 and Pyzor
// with real clients: razor-admin, razor-check, razor-report, razor-revoke, pyzor,
// SpamAssassin and rspamd of a Debian system against the real bulkhead, and the
// comparison of our signatures with theirs over real mail. They need these
// programs, run on loopback only, and are run by
//
//	test/interop test/razorpyzor
//
// With BULKHEAD_FULL=1 the comparison takes the whole corpus instead of a sample.
// The package has no code of its own.
package razorpyzor
