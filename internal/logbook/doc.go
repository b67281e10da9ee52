// Package logbook remembers what was asked and voted lately, on disk: which door, who,
// which signatures, and what the answer was. It serves the history, votes on a message
// by its Message-ID, and the memory of whole messages after a restart.
//
//	book, err := logbook.Open(path, logbook.Options{MaxBytes: 256 << 20, MaxAge: 7 * 24 * time.Hour})
//	go book.Run(ctx)
//	house = logbook.NewHouse(house, book, "milter")
//	page, err := book.Search(ctx, logbook.Query{Domain: "example.com", Limit: 50})
//
// It is no part of what a node acknowledges. A [House] puts an [Entry] into a queue of
// bounded length and never waits; where the queue is full, the entry is lost and
// counted. Run writes the queue every two seconds, in one transaction with one fsync: a
// power cut takes those seconds. A file that is damaged is set aside, and an empty one
// takes its place.
package logbook
