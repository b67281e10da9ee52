// Package fidelity compares bulkhead's digests with the digests of the real clients: razor-check,
// pyzor and rspamd of a Debian system, which run here, and dccproc, whose printed checksums are
// stored with the private mail corpus. It also compares what is read of pages with what chromium
// shows. The mails are the corpus and the mails that [Mail] makes from a seed. The figures are in docs/fidelity.md.
//
//	make fidelity                     a sample, in minutes
//	BULKHEAD_FULL=1 make fidelity     all of it
//
// BULKHEAD_SEED sets the seed of the made mails (7) and BULKHEAD_MADE their number (4,000); BULKHEAD_STYLED
// sets the number of made pages whose styles decide what is seen (400, and ten times as many with BULKHEAD_FULL).
// BULKHEAD_HALF selects the half of the mails that is compared: 1 is for finding causes, 2 for
// figures of mail that was not examined before; both halves are compared by default. With
// BULKHEAD_OBSERVED=FILE, rspamd writes its result for each text to that file.
package fidelity
