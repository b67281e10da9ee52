// Package mailbox reads stored mail as a stream of raw messages: single
// messages, mbox files, Maildirs, folders of messages, standard input, and
// labelled collections (a folder with an index.tsv). One message is in memory at
// a time.
//
// What a path is, is seen from its content: see [Read].
//
//	for msg, err := range mailbox.Read(ctx, path, mailbox.Options{}) {
//		if err != nil { ... } // names file and offset; the next message follows
//		use(msg.Raw)
//	}
package mailbox
