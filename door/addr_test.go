package door

import (
	"net"
	"testing"
)

func TestExposed(t *testing.T) {
	for want, addrs := range map[bool][]net.Addr{
		false: {
			&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6277}, &net.UDPAddr{IP: net.IPv6loopback, Port: 6277},
			&net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1"), Port: 6277}, &net.UnixAddr{Name: "/run/x", Net: "unix"},
		},
		true: {
			&net.UDPAddr{IP: net.IPv4zero, Port: 6277}, &net.UDPAddr{IP: net.IPv6unspecified, Port: 6277},
			&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 6277}, &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 6277},
		},
	} {
		for _, a := range addrs {
			if got := Exposed(a); got != want {
				t.Errorf("Exposed(%v) = %v, want %v", a, got, want)
			}
		}
	}
}
