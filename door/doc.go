// Package door has the parts that all front doors share. It accepts connections and reads
// datagrams, and it limits what a client may cost before a byte of a request is looked at.
//
//   - [StreamServer] runs a handler for each TCP or unix-socket connection:
//     caps on connections (in total and per client), a time limit for each
//     request and each write, a rate limit, recovery from panics, drain.
//   - [PacketServer] hands batches of datagrams to a handler and sends the
//     answers, several readers on one port: rate limit per client, size limit,
//     recovery, drain. The answer leaves from the address that was asked.
//   - [Limiter] is the rate limit by itself, in bounded memory.
//
// A client is an IPv4 address or an IPv6 /64, see [ClientOf]. The package knows no
// protocol. The front doors of bulkhead are built on it, and have its methods:
//
//	l, err := net.Listen("tcp", "127.0.0.1:2703")
//	s := &door.StreamServer{Handler: func(ctx context.Context, c *door.Conn) { ... }}
//	err = s.Serve(l)        // until Shutdown, then door.ErrServerClosed
//	err = s.Shutdown(ctx)   // waits for requests under way, until ctx ends
//
//	pc, err := net.ListenPacket("udp", "127.0.0.1:24441")
//	p := &door.PacketServer{}
//	p.Handler = p.Each(answer) // func(context.Context, *door.Packet)
//	err = p.ServePacket(pc)
//
// [Listen] also opens unix sockets, and [ListenPackets] several sockets on one port, each for a
// ServePacket of its own. [Run] serves them until a context ends.
package door
