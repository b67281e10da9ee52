// Package paper holds filters as the papers print them, of any size and with any hash functions.
// They are meant for comparison in studies, and for sets small enough to be kept simple. A node
// runs the filters of package filter, which touch one cache line per key.
//
//   - [Bloom]: the textbook set of any m and k, with any [Family] of hash functions.
//
//   - [Intuitive] and [Refined]: counters, the extensions of Yan and Cho's paper, over
//     cells of any width and in split storage. Intuitive can delete.
//
//   - Formulae of the papers: false positives, cells, rates.
//
//     family, err := paper.Keyed(secret, 16*1000, 8) // 16 bits for each of 1000 elements
//     spam, err := paper.NewBloom(family)
//     spam.Add(sum)
//     if spam.Contains(sum) {
//
// Sources: Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors"
// (1970); Yan and Cho, "Enhancing Collaborative Spam Detection with Bloom Filters"
// (2006); Jiang and Zhao on two-part Bloom filters; Finch, "What use are Bloom
// filters, anyway?" (2008).
package paper
