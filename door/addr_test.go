package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestExposed(t *testing.T) {
	for want, addrs := range map[bool][]net.Addr{
		false: {
			&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6277}, &net.UDPAddr{IP: net.IPv6loopback, Port: 6277},
			&net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1"), Port: 6277}, &net.UnixAddr{Name: "/run/x", Net: "unix"},
		},
		true: {
			&net.UDPAddr{IP: net.IPv4zero, Port: 6277}, &net.UDPAddr{IP: net.IPv6unspecified, Port: 6277},
			&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 6277},
			&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 6277},
		},
	} {
		for _, a := range addrs {
			if got := Exposed(a); got != want {
				t.Errorf("Exposed(%v) = %v, want %v", a, got, want)
			}
		}
	}
}

// TestListenFails: an address that cannot be listened on is an error, and an
// existing file stays.
func TestListenFails(t *testing.T) {
	dir := t.TempDir()
	file, datagrams := filepath.Join(dir, "file"), filepath.Join(dir, "datagrams")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pc, err := net.ListenPacket("unixgram", datagrams)
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	for _, address := range []string{
		"127.0.0.1", "127.0.0.1:70000",
		"unix:" + filepath.Join(dir, "no", "folder"), "unix:" + filepath.Join(file, "below"), "unix:" + datagrams,
	} {
		if l, err := Listen(t.Context(), address); err == nil {
			l.Close()
			t.Errorf("Listen(%q) succeeded", address)
		}
	}
	if _, err := os.Lstat(datagrams); err != nil {
		t.Errorf("a live socket of another kind is gone: %v", err)
	}
}

// TestListenPacketsReaders: there are as many sockets of one port as readers for each
// family, and the port of one reader is not shared.
func TestListenPacketsReaders(t *testing.T) {
	for readers, want := range map[int]int{0: runtime.GOMAXPROCS(0), -1: runtime.GOMAXPROCS(0), 1: 1, 2: 2, 3: 3} {
		if !canSharePort {
			want = 1
		}
		conns, err := ListenPackets(t.Context(), "127.0.0.1:0", readers)
		if err != nil {
			t.Fatal(err)
		}
		if len(conns) != want {
			t.Errorf("%d readers have %d sockets, want %d", readers, len(conns), want)
		}
		for _, c := range conns {
			if c.LocalAddr().String() != conns[0].LocalAddr().String() {
				t.Errorf("sockets of %v and %v", c.LocalAddr(), conns[0].LocalAddr())
			}
		}
		if readers == 1 {
			shared := net.ListenConfig{Control: sharePort}
			if c, err := shared.ListenPacket(t.Context(), "udp4", conns[0].LocalAddr().String()); err == nil {
				c.Close()
				t.Error("the port of one reader is shared")
			}
		}
		closeAll(conns)
	}
}

// TestListenPacketsBothFamilies: a port that is taken in one family is an error, and
// nothing of it stays open in the other.
func TestListenPacketsBothFamilies(t *testing.T) {
	for _, taken := range []struct{ network, host string }{{"udp4", "0.0.0.0"}, {"udp6", "::"}} {
		t.Run(taken.network, func(t *testing.T) {
			port := fmt.Sprint(nodetest.FreePort(t))
			pc, err := net.ListenPacket(taken.network, net.JoinHostPort(taken.host, port))
			if errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer pc.Close()
			for range 2 { // the second shows that the first left nothing open
				conns, err := ListenPackets(t.Context(), ":"+port, 2)
				closeAll(conns)
				if !errors.Is(err, syscall.EADDRINUSE) {
					t.Fatalf("ListenPackets on a port that is taken: %v", err)
				}
			}
			pc.Close()
			conns, err := ListenPackets(context.Background(), ":"+port, 2)
			if err != nil {
				t.Fatal(err)
			}
			closeAll(conns)
		})
	}
}
