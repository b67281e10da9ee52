// Package razor2 serves Razor 2 clients: razor-check, razor-report,
// razor-revoke and razor-admin of Debian's package razor, and the Razor2
// plugin of SpamAssassin. The server of the original network was never
// published; this one follows docs/specs/razor2.md, which was written from what the client
// does.
//
// [Server] is catalogue, nomination and discovery server in one, on one port.
// It asks a [bulkhead.Clearinghouse] and an [Accounts], and knows no storage.
// [Client] speaks to any Razor 2 server. [Helper] answers rspamd's razor module,
// which sends whole mails over TCP.
//
//	s := &razor2.Server{Clearinghouse: house, Accounts: accounts, Read: read}
//	l, err := net.Listen("tcp", "127.0.0.1:2703")
//	err = s.Serve(l) // until s.Shutdown, then door.ErrServerClosed
//
// # Security
//
// There is no encryption, and the login is a challenge that needs the password itself
// on the server (docs/specs/razor2.md#login). Anybody can register a name, so an
// account by itself is worth nothing: the Clearinghouse, which sees account and
// address, decides what a report counts. Engine 8 lists domains; [Server.ExemptHosts]
// and [Server.MaxHosts] bound what a forged report of a mail full of links can do.
package razor2
