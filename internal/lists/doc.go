// Package lists holds black, white and grey lists of mail addresses, domains, URLs and IP networks,
// or of their hashes. Each list is one filter of one of three kinds: two-part (Jiang & Zhao, "Spam
// Determination Based on Improved Bloom Filter"); an array of bits with one cache line for each
// entry, which is larger and faster; or binary fuse, which is smaller and cannot be changed.
//
// A [List] is read from a file that [Build] made from text files of any size. The file records
// where its entries come from and when it was built. Next to it may be an exact allow list, a text
// file of the same name with ".allow" appended. An allowed entry is never found, so a false
// positive can be corrected at once. Codes and texts of entries, which a filter does not hold, are in
// another such file, with ".codes" appended. A [Set] holds the lists of a running node, loads files that
// change, and keeps the old list when the new file is damaged.
//
// There are no false negatives. Each answer states the probability that an entry that was never
// added would have been found.
//
//	result, err := lists.Build(ctx, "bad.list", []string{"bad.txt"}, lists.Options{Error: 1e-6})
//	l, err := lists.Open("bad.list", lists.DefaultMaxBytes)
//	e, err := lists.ParseEntry("http://shop.example.com/offer")
//	match, ok := l.Find(e)
package lists
