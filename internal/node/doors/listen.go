package doors

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
)

// A frontDoor is one front door. open binds its address. The returned door serves until the context
// ends and its clients are done.
type frontDoor struct {
	key     string
	clients string // on the pages
	open    func(ctx context.Context, address string) (*opened, error)
	// check checks the part of a configuration that only this door can check, and changes nothing;
	// nil for nothing to check.
	check func(p *proposal) error
}

// A proposal is a configuration that config.Load has accepted and that is not in use yet.
type proposal struct {
	*config.Config
	list func(name string) *lists.Handle // its lists; nil for no such list
}

type opened struct {
	key     string // set by Open, as clients
	clients string
	address string // as clients use it
	serve   func(ctx context.Context) error
	abandon func() error // closes the door if it is never served
	// prepare checks the parts of a configuration that an open door can apply, and returns a
	// function that applies them; nil for nothing.
	prepare func(p *proposal) (takeOver func() error, err error)
	metrics []prometheus.Collector
	conns   *door.ConnStats   // nil: it has no connections, or is HTTP
	packets *door.PacketStats // nil: it has no datagrams
	times   []*door.Times     // of its answers, by socket
}

// A streamServer serves connections; a packetServer serves datagrams.
type streamServer interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	ConnStats() *door.ConnStats
}

type packetServer interface {
	ServePacket(net.PacketConn) error
	Shutdown(context.Context) error
	PacketStats() *door.PacketStats
}

// openStream opens a door for connections.
func openStream(ctx context.Context, address string, front streamServer) (*opened, error) {
	l, err := door.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	stats := front.ConnStats()
	return &opened{address: l.Addr().String(), abandon: l.Close, conns: stats, times: []*door.Times{&stats.Times},
		serve: func(ctx context.Context) error {
			return door.Run(ctx, front, func() error { return front.Serve(l) })
		}}, nil
}

// openPackets opens a door for datagrams.
func openPackets(ctx context.Context, address string, front packetServer) (*opened, error) {
	conns, err := door.ListenPackets(ctx, address, 0)
	if err != nil {
		return nil, err
	}
	stats := front.PacketStats()
	return &opened{address: conns[0].LocalAddr().String(), abandon: closeAll(conns), packets: stats,
		times: []*door.Times{&stats.Times}, serve: func(ctx context.Context) error {
			return door.Run(ctx, front, serveEach(front, conns)...)
		}}, nil
}

// serveEach returns one function for each socket, which serves it.
func serveEach(front packetServer, conns []*net.UDPConn) []func() error {
	var all []func() error
	for _, c := range conns {
		all = append(all, func() error { return front.ServePacket(c) })
	}
	return all
}

// openPort opens a door for datagrams, and for connections to the same port.
func openPort(ctx context.Context, address string, front interface {
	packetServer
	streamServer
}) (*opened, error) {
	conns, l, err := bothOn(ctx, address)
	for range anyPort {
		if _, port, _ := net.SplitHostPort(address); port != "0" || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		conns, l, err = bothOn(ctx, address)
	}
	if err != nil {
		return nil, err
	}
	abandon := func() error { return errors.Join(closeAll(conns)(), l.Close()) }
	streams, packets := front.ConnStats(), front.PacketStats()
	times := []*door.Times{&streams.Times, &packets.Times}
	return &opened{address: l.Addr().String(), abandon: abandon, conns: streams, packets: packets, times: times,
		serve: func(ctx context.Context) error {
			return door.Run(ctx, front, append(serveEach(front, conns), func() error { return front.Serve(l) })...)
		}}, nil
}

// anyPort is how often another port is tried, if any will do, because one that was free for
// datagrams is taken for connections.
const anyPort = 20

// bothOn binds one port for datagrams and connections.
func bothOn(ctx context.Context, address string) ([]*net.UDPConn, net.Listener, error) {
	conns, err := door.ListenPackets(ctx, address, 0)
	if err != nil {
		return nil, nil, err
	}
	l, err := door.Listen(ctx, conns[0].LocalAddr().String())
	if err != nil {
		return nil, nil, errors.Join(err, closeAll(conns)())
	}
	return conns, l, nil
}

// closeAll returns a function that closes all sockets.
func closeAll(conns []*net.UDPConn) func() error {
	return func() error {
		var errs []error
		for _, c := range conns {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
}

// both runs two servers until both have ended; the end of one ends the other.
func both(ctx context.Context, a, b func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		defer stop()
		done <- a(ctx)
	}()
	err := b(ctx)
	stop()
	return errors.Join(err, <-done)
}
