// Package picture says which pictures look the same: a few keys of each, of which
// two pictures have one in common if the one is the other with noise, of another size,
// compressed once more, in somewhat other colours, or with a little cut off or put
// around it. Look-up of equal keys is all that is asked of whoever keeps them.
//
// A picture becomes 105 terms of low frequency of its discrete cosine transform, and
// each term a bit: whether it is above the median. Six bands of 40 of these bits, chosen
// by a secret key, are what is compared; the three bits of a band that change most easily
// may be either. A uniform margin makes a second set of keys, of what is inside of it.
// docs/specs/facets.md#pictures has every step.
//
// Measured by TestChanges over made pictures (lines of text, documents, advertisements,
// soft shapes); of 4,950 pairs of different ones none has a key in common.
//
// Source: Zauner, "Implementation and Benchmarking of Perceptual Image Hash Functions"
// (2010), the hash of pHash; with more terms, as in PDQ (Facebook, 2019).
// Bands of sampled bits: Gionis, Indyk and Motwani, "Similarity Search in High Dimensions
// via Hashing" (1999). Weak bits either way: Lv et al., "Multi-Probe LSH" (2007).
//
//	look, err := picture.Read(ctx, data)
//	keys := picture.NewHasher(networkKey).Keys(look)
package picture
