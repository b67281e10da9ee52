// Package lists holds black, white and grey lists of mail addresses, domains,
// URLs and IP networks, each in one filter: two-part (Jiang & Zhao, "Spam
// Determination Based on Improved Bloom Filter"), or binary fuse, which is smaller and
// does not change.
//
// A [List] is read from a file that [Build] made of text files of any size. The
// file says where its entries are from and when it was built. Beside the filter
// lies an exact allow list, a text file of the same name with ".allow" at its
// end: what stands there is never found, so that a false positive met in the
// field is corrected at once. A [Set] holds the lists of a running node, takes
// over files that change, and keeps the old list when the new file is damaged.
//
// There are no false negatives. Each answer states the probability that an
// entry which was never added would have been given it.
//
//	rep, err := lists.Build(ctx, "bad.list", []string{"bad.txt"}, lists.Options{Error: 1e-6})
//	l, err := lists.Open("bad.list", lists.DefaultMaxBytes)
//	e, err := lists.ParseEntry("http://shop.example.com/offer")
//	match, ok := l.Find(e)
package lists
