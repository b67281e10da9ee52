// Package dnsbl is a DNS block list server (RFC 5782): mail filters look up an IP
// address, a domain or the hash of an address as a name below a zone, and take an
// address in 127.0.0.0/8 as a hit.
//
// The server is authoritative for its zones and nothing else. A name that is not listed
// is answered with NXDOMAIN and the zone's SOA, so that resolvers cache the answer (RFC
// 2308). Other queries get REFUSED or SERVFAIL, and never an address that a filter could
// take for a hit. TXT records have the reason, the date of the list and its expected
// error. A zone may combine several lists, with codes and texts by list and by entry: see
// [Part] and [Valued].
//
// golang.org/x/net/dns/dnsmessage reads and writes messages without garbage; with a
// library that allocates for each query, the memory of a large list doubles before it is
// collected. The records of a zone are written once and copied. A [List] decides what is
// listed. See docs/protocols/dnsbl.md.
//
//	s := &dnsbl.Server{Zones: []dnsbl.Zone{{Name: "bl.example.com", Form: dnsbl.Domains, List: list}}}
//	pc, err := net.ListenPacket("udp", "127.0.0.1:5353")
//	err = s.ServePacket(pc) // until s.Shutdown, then door.ErrServerClosed
//	err = s.Serve(l)        // the same over TCP
package dnsbl
