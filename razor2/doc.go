// Package razor2 serves Razor 2 clients: razor-check, razor-report, razor-revoke and
// razor-admin of Debian's package razor, and the Razor2 plugin of SpamAssassin. The
// server of the original network was never published; this one follows
// docs/specs/razor2.md, which was written from the client's behaviour.
//
// [Server] is catalogue, nomination and discovery server in one, on one port. It uses a
// [bulkhead.Clearinghouse] and an [Accounts], and knows no storage. [Client] speaks to
// any Razor 2 server. [Helper] serves rspamd's razor module, which sends whole mails
// over TCP.
//
//	s := &razor2.Server{Clearinghouse: house, Accounts: accounts, Read: read}
//	l, err := net.Listen("tcp", "127.0.0.1:2703")
//	err = s.Serve(l) // until s.Shutdown, then door.ErrServerClosed
//
// # Security
//
// There is no encryption, and the challenge login requires the server to know the password
// (docs/specs/razor2.md#login). Any client can register a name, so an account by itself is worth
// nothing: the Clearinghouse, which sees account and address, decides how much a report counts.
// Engine 8 lists domains; [Server.ExemptHosts] and [Server.MaxHosts] limit the effect of a forged
// report of a mail full of links.
package razor2
