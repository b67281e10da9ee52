// Package pyzor serves Pyzor clients: the pyzor command and both Pyzor modes of
// SpamAssassin, over UDP. It follows docs/specs/pyzor.md, which was written from the
// behaviour of the client and the original server.
//
// [Server] uses a [bulkhead.Clearinghouse] and an [Accounts], and knows no storage.
// [Client] speaks to any Pyzor server. [Helper] serves rspamd's pyzor module, which
// sends whole mails over TCP.
//
//	s := &pyzor.Server{Clearinghouse: house, Accounts: accounts}
//	pc, err := net.ListenPacket("udp", "127.0.0.1:24441")
//	err = s.ServePacket(pc) // until s.Shutdown, then door.ErrServerClosed
//
// Several sockets on one port, from [door.ListenPackets], may be served at once.
//
// # Counts
//
// Count is the number of spam votes on a digest, and WL-Count the number of ham votes. They stay
// below the limits above which SpamAssassin takes a digest for the digest of empty text (999,999
// and 9,999). A digest whose listing was revoked shows a count of 0. Entered and Updated are the
// starts of the oldest and the newest generation with votes: there is no finer time.
//
// # Security
//
// Datagrams are not encrypted, source addresses can be forged, and a signed request can be repeated
// for 300 seconds (docs/specs/pyzor.md#signatures). The Clearinghouse decides what a vote counts,
// and counts a reporter once per digest and generation. A datagram that is not a request gets no
// answer. Answers longer than their request are rate limited, so that the server cannot be used to
// flood a victim.
package pyzor
