// Package logbook records recent checks and votes on disk: the door, the reporter, the signatures
// and the answer. It serves the history, votes on a message by its Message-ID, and the memory of
// whole messages after a restart.
//
//	book, err := logbook.Open(path, logbook.Options{MaxBytes: 256 << 20, MaxAge: 7 * 24 * time.Hour})
//	go book.Run(ctx)
//	house = logbook.NewHouse(house, book, "milter")
//	page, err := book.Search(ctx, logbook.Query{Domain: "example.com", Limit: 50})
//
// A node acknowledges requests without waiting for the book. A [House] puts an [Entry] into a
// bounded queue and never waits; if the queue is full, the entry is lost and counted. Run writes
// the queue every two seconds, in one transaction with one fsync, so a power cut loses up to two
// seconds of entries. A damaged file is set aside and replaced by an empty one.
package logbook
