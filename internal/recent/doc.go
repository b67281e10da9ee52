// Package recent completes digests from whole messages that were seen recently. Pyzor, DCC, Razor
// and rspamd clients send only a digest. If its message is known, their votes and revocations act
// on all signatures of the message, and their queries are answered from all of them.
//
//	house := recent.New(engine, recent.NewTable(64<<20, 7*24*time.Hour, nil), door)
//
// [House] stands between the front doors and a clearinghouse. It stores messages in a
// [Memory]: a [Table] is in the memory of the process, bounded in bytes and age.
//
// A digest of several different messages stands for the signatures that they share. Messages from a
// reporter whom the node does not trust are used only for that reporter's network. A completed vote
// weighs as much as if its reporter had sent the whole message.
package recent
