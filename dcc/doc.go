// Package dcc implements the protocols of the Distributed Checksum Clearinghouses, as
// far as clients see them: [Server] answers dccproc, dccm, dccifd and cdcc over UDP,
// [Ifd] serves programs that use dccifd's socket (SpamAssassin, rspamd, Exim), and
// [Conn] is a client of the UDP protocol.
//
// Source: docs/specs/dcc.md. Nothing here comes from the programs of the same name.
//
//	s := &dcc.Server{Clearinghouse: house}
//	pc, err := net.ListenPacket("udp", "127.0.0.1:6277")
//	err = s.ServePacket(pc) // until s.Shutdown, then door.ErrServerClosed
//
// # Counts
//
// The total of a checksum is the number of sightings of its signature in the tally. A REPORT that
// claims spam also raises a counter of claims, which shows as "many", and votes on the blocklist
// with its sender's weight. A checksum listed through another door also shows as "many". A DELETE
// cannot lower a filter, so the accounts of package ledger subtract what was counted.
package dcc
