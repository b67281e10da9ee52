// Package filter holds the data structures of a collaborative spam
// clearinghouse: Bloom filters that remember and count signatures in a few bytes
// each, can be merged between servers, and never forget or undercount.
//
// # Which filter
//
// A set answers whether a key has been seen:
//
//   - [Bits]: the production set. One cache line per key; 2 bytes a key at an
//     error of 1e-3, 3.8 at 1e-5. Concurrent readers, batches, merging.
//   - [TwoPart]: two sections with hashes of the key and of its eigenvalue (Jiang
//     and Zhao). For lists of addresses, domains and URLs.
//   - [Fuse]: a binary fuse filter. For lists that do not change: a fifth smaller.
//
// A counter answers how often a key has been seen:
//
//   - [Counting]: the production counter. One cache line per key and array,
//     counts exact up to 2^24-1; 7 bytes a key when 1 count in 1000 may be too
//     high, 1 to 2 bytes a key when only "20 times or more" matters.
//
// [UniqueRate] (Finch) answers how many different items were seen in a given time.
//
// The filters as the papers print them, of any size and with any hash functions, are in the
// laboratory's package paper.
//
// A plain map is the better tool for up to some ten thousand keys, and whenever a count must be
// exact. A table of 24-bit fingerprints is smaller at equal accuracy of single counts (5 bytes a
// key at 2e-6 errors). But it cannot be merged cell by cell or be sent as differences, and it
// overflows where a filter degrades. docs/performance.md compares all of them.
//
// # Use
//
//	g, err := filter.SizeFor(filter.Target{
//		Kind: filter.Cells, Signatures: 10_000_000,
//		Error: filter.CountWrong, Rate: 1e-3, KeyID: secret.ID(),
//	})
//	seen, err := filter.NewCounting(g)
//	seen.Add(secret.KeyOf("razor/e8", sum), 1)
//	n := seen.Count(secret.KeyOf("razor/e8", sum))
//
// # Layout of the production arrays
//
// A signature is hashed once, with the network's [Secret], into a 128-bit [Key]. Its upper half
// selects a line of 64 bytes, its lower half the cells or bits in the line. [Key]'s With returns
// further keys in the same line, one for each kind of vote. 1,024 lines are a page: the unit of
// overflow tables and of the encoding on disk.
//
// Cells are nibbles, 128 to a line. Nibble 15 means that the value is in the page's overflow table.
// The table stores one 64-bit entry for all cells of a line that have the same value, as the cells
// of a heavy key do. This takes 0.45 bytes a key where one key in 26 is heavy, against 1.0 with an
// entry per cell.
//
// The number of cells per key, k, and their placement were chosen by simulation with 400,000 keys.
// A share c^-1.2 of the keys is counted c times or more, and all reports come in random order. The
// table shows the share of keys whose count is too high:
//
//	cells per key          12        12.5      13
//	k=4 free choice        2.4e-3    1.9e-3    1.8e-3
//	k=5 free choice        1.6e-3    1.4e-3    1.2e-3
//	k=6 free choice        1.4e-3    1.2e-3    9.4e-4
//	k=7 free choice        1.4e-3    1.2e-3    9.6e-4
//	k=6 one of 21 each     1.6e-3    1.3e-3    1.2e-3
//	k=6 other words        1.7e-3    1.3e-3    1.1e-3
//
// "Free choice" is any k distinct cells of the 128. "One of 21 each" divides the line into k parts.
// "Other words" puts each cell into a different 64-bit word. The result is free choice with k=6: 13
// cells a key, 6.5 bytes, and 0.45 bytes for the overflow.
//
// # Errors
//
// An array errs in one direction only: a set key is always found, and a count is never too low.
// GhostError, CountError and BulkError of [Geometry] give the error rates in the
// other direction at any fill, and [SizeFor] inverts them. The formulas sum over the Poisson
// distribution of keys on lines, and are tested against simulation.
//
// # Sources
//
// Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors" (1970); Yan
// and Cho, "Enhancing Collaborative Spam Detection with Bloom Filters" (2006):
// the extensions, H1, H2, split storage, merging; Putze, Sanders and Singler,
// "Cache-, Hash- and Space-Efficient Bloom Filters" (2010): blocked filters.
package filter
