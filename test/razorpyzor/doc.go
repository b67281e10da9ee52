// Package razorpyzor holds the tests of the front doors for Razor 2 and Pyzor
// with real clients: razor-admin, razor-check, razor-report, razor-revoke, pyzor,
// SpamAssassin and rspamd of a Debian system against the real bulkhead. They need
// these programs, run on loopback only, and are run by
//
//	test/interop test/razorpyzor
//
// Package fidelity compares the signatures themselves.
// The package has no code of its own.
package razorpyzor
