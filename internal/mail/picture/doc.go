// Package picture recognises pictures that look the same. Each picture has a few keys, and two
// pictures share a key if one is the other with noise, of another size, compressed again, in
// slightly different colours, or with a little cut off or added around it. A store of keys only
// needs to look up equal keys.
//
// A picture becomes 105 terms of low frequency of its discrete cosine transform, and
// each term a bit: whether it is above the median. Six bands of 40 of these bits, chosen
// by a secret key, are compared; the three bits of a band that change most easily may have
// either value. A picture with a uniform margin has a second set of keys for what is inside.
// docs/specs/facets.md#pictures has every step.
//
// Measured by TestChanges over made pictures (lines of text, documents, advertisements, soft
// shapes); of 4,950 pairs of different pictures none has a key in common.
//
// Source: Zauner, "Implementation and Benchmarking of Perceptual Image Hash Functions"
// (2010), the hash of pHash; with more terms, as in PDQ (Facebook, 2019).
// Bands of sampled bits: Gionis, Indyk and Motwani, "Similarity Search in High Dimensions
// via Hashing" (1999). Weak bits either way: Lv et al., "Multi-Probe LSH" (2007).
//
//	look, err := picture.Read(ctx, data)
//	keys := picture.NewHasher(networkKey).Keys(look)
package picture
