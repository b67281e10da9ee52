// Package recent joins what is known of a message by a digest alone with the whole
// message, if that was seen lately: a vote of a Pyzor, DCC, Razor or rspamd client,
// which has nothing but a digest, acts on all signatures of the message, and so does a
// revocation; and a question by a digest is answered from all that is known of the
// message.
//
//	house := recent.New(engine, recent.NewTable(64<<20, 7*24*time.Hour, nil), door)
//
// [House] stands between the front doors and a clearinghouse. What it remembers is
// behind [Memory]: in [Table] in the memory of the process, bounded in bytes and age.
//
// A digest that several different messages have stands for what they have in common.
// What a reporter showed whom the node does not trust is used for that reporter's
// network alone. A vote that is joined weighs what it would have weighed if its reporter
// had sent the whole message.
package recent
