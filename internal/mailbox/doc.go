// Package mailbox reads stored mail as a stream of raw messages: single messages, mbox
// files, Maildirs, folders of messages, standard input, and labelled collections (folders
// with an index.tsv). It holds one message in memory at a time.
//
// [Read] recognises by itself what a path holds.
//
//	for msg, err := range mailbox.Read(ctx, path, mailbox.Options{}) {
//		if err != nil { ... } // names file and offset; the next message follows
//		use(msg.Raw)
//	}
package mailbox
