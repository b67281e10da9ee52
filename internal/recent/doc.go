// Package recent joins digests with the whole message, if that was seen lately. A vote
// or revocation of a Pyzor, DCC, Razor or rspamd client, which sends only a digest, acts
// on all signatures of the message, and a query by a digest is answered from all of
// them.
//
//	house := recent.New(engine, recent.NewTable(64<<20, 7*24*time.Hour, nil), door)
//
// [House] stands between the front doors and a clearinghouse. It stores messages in a
// [Memory]: a [Table] is in the memory of the process, bounded in bytes and age.
//
// A digest of several different messages stands for what they have in common. Messages
// shown by a reporter whom the node does not trust are used only for that reporter's
// network. A joined vote weighs as much as if its reporter had sent the whole message.
package recent
