// Package fidelity compares our digests with those of the real clients: razor-check,
// pyzor and rspamd of a Debian system, which run here, and dccproc, whose printed
// checksums are kept beside the private mail corpus. The mails are the corpus and what
// [Mail] makes of a seed. The figures are in docs/fidelity.md.
//
//	make fidelity                     a sample, in minutes
//	BULKHEAD_FULL=1 make fidelity     all of it
//
// BULKHEAD_SEED sets the seed of the made mails (7), BULKHEAD_MADE how many there are (4,000),
// and BULKHEAD_HALF the half of the mails that is compared: 1 is for finding causes, 2 for
// figures of mail that nobody has looked at, nothing for both. With BULKHEAD_OBSERVED=FILE,
// rspamd writes there what it makes of each text.
package fidelity
