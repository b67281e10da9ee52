package door

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// Listen opens a listener for a [StreamServer]. The address is "host:port" ("[::1]:2703" for IPv6;
// ":2703" for every address of both families; port 0 for any free one) or "unix:/path". A socket
// file that no server answers is replaced. A socket file that a live server answers is an error.
// The permissions of its folder and the umask decide who may connect to a unix socket.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		l, err := lc.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("door: %w", err)
		}
		return l, nil
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("door: unix:%s: %w", path, err)
	}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("door: %w", err)
	}
	return l, nil
}

// removeStale removes the socket file that a dead server left behind.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("exists and is not a socket")
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return errors.New("another server answers there")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// ListenPackets opens UDP sockets for a [PacketServer]. Call
// [PacketServer.ServePacket] for each in a goroutine of its own. It opens as many
// sockets as there are readers for each address family, all on one port, and the
// kernel spreads the clients among them. The address is "host:port"; ":port" means
// every address of both families. Zero readers mean one for each processor. Where the
// system cannot share a port, there is one socket. A port on which another process
// receives is an error.
func ListenPackets(ctx context.Context, address string, readers int) ([]*net.UDPConn, error) {
	if readers <= 0 {
		readers = runtime.GOMAXPROCS(0)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("door: %w", err)
	}
	// A wildcard socket of both families cannot choose the source of an IPv4
	// answer, so each family has its own.
	if host == "" {
		return bothFamilies(ctx, port, readers)
	}
	ua, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, fmt.Errorf("door: %w", err)
	}
	network := "udp4"
	if ua.AddrPort().Addr().Unmap().Is6() {
		network = "udp6"
	}
	return bind(ctx, network, ua.String(), readers)
}

func bothFamilies(ctx context.Context, port string, readers int) ([]*net.UDPConn, error) {
	// With port 0 the port that IPv4 was given may be taken in IPv6: try again.
	for attempt := 0; ; attempt++ {
		v4, err := bind(ctx, "udp4", net.JoinHostPort("0.0.0.0", port), readers)
		if err != nil {
			return nil, err
		}
		_, bound, err := net.SplitHostPort(v4[0].LocalAddr().String())
		if err != nil {
			closeAll(v4)
			return nil, fmt.Errorf("door: %w", err)
		}
		v6, err := bind(ctx, "udp6", net.JoinHostPort("::", bound), readers)
		switch {
		case err == nil:
			return append(v4, v6...), nil
		case errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL):
			return v4, nil // a machine without IPv6
		}
		closeAll(v4)
		if port != "0" || attempt == 10 {
			return nil, err
		}
	}
}

// bind opens sockets that share one address.
func bind(ctx context.Context, network, address string, readers int) ([]*net.UDPConn, error) {
	var plain net.ListenConfig
	first, err := plain.ListenPacket(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("door: %w", err)
	}
	if readers == 1 || !canSharePort {
		return []*net.UDPConn{first.(*net.UDPConn)}, nil
	}
	// The plain socket proved that no other process receives there. Otherwise a shared port would
	// silently split the clients with a second server.
	address = first.LocalAddr().String()
	if err := first.Close(); err != nil {
		return nil, fmt.Errorf("door: %w", err)
	}
	shared := net.ListenConfig{Control: sharePort}
	var conns []*net.UDPConn
	for range readers {
		c, err := shared.ListenPacket(ctx, network, address)
		if err != nil {
			closeAll(conns)
			return nil, fmt.Errorf("door: %w", err)
		}
		conns = append(conns, c.(*net.UDPConn))
	}
	return conns, nil
}

func closeAll(conns []*net.UDPConn) {
	for _, c := range conns {
		c.Close()
	}
}

// Exposed reports whether other machines can reach a socket with this local address:
// it is an IP address other than loopback. Doors that accept votes refuse to serve
// there until their clients are restricted.
func Exposed(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && !at.Addr().Unmap().IsLoopback()
}

// addrOf returns the IP address within a, or the zero Addr.
func addrOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
