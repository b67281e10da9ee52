// Package pyzor serves Pyzor clients: the pyzor command and both Pyzor modes of
// SpamAssassin, over UDP. It follows docs/specs/pyzor.md, which was written from what the
// client and the original server do.
//
// [Server] asks a [bulkhead.Clearinghouse] and an [Accounts], and knows no
// storage. [Client] speaks to any Pyzor server. [Helper] answers rspamd's pyzor
// module, which sends whole mails over TCP.
//
//	s := &pyzor.Server{Clearinghouse: house, Accounts: accounts}
//	pc, err := net.ListenPacket("udp", "127.0.0.1:24441")
//	err = s.ServePacket(pc) // until s.Shutdown, then door.ErrServerClosed
//
// Several sockets on one port, from [door.ListenPackets], may be served at once.
//
// # Counts
//
// Count is the number of spam votes, WL-Count that of ham votes, of a digest. They
// stay below the limits from which SpamAssassin takes a digest for that of nothing
// (999,999 and 9,999). A digest whose listing was revoked shows a count of 0. Entered
// and Updated are the starts of the oldest and of the newest generation that hold
// votes: there is no finer time.
//
// # Security
//
// Datagrams carry no encryption, source addresses can be forged, and a signed request
// can be repeated for 300 seconds (docs/specs/pyzor.md#signatures); the Clearinghouse
// decides what a vote counts, and counts a reporter once per digest and generation. A
// datagram that is not a request gets no answer. Answers longer than their request
// are limited in rate, so that nobody can be flooded through the server.
package pyzor
