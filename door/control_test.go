package door

import (
	"bytes"
	"net"
	"testing"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// asked4 is the control message of a datagram to an IPv4 address. The package ipv4 writes only
// control messages of sent datagrams, in which the source comes before the destination.
func asked4(dst net.IP) []byte {
	sent := (&ipv4.ControlMessage{Src: net.IPv4(1, 2, 3, 4)}).Marshal()
	at := bytes.Index(sent, []byte{1, 2, 3, 4})
	copy(sent[at+4:], dst.To4())
	return sent
}

// TestReplyControl4: the answer leaves from the address that was asked, unless that
// cannot be a source.
func TestReplyControl4(t *testing.T) {
	if !canSharePort {
		t.Skip("the control messages of Linux")
	}
	unicast := net.IPv4(192, 0, 2, 7)
	if got, want := (control4{}).reply(asked4(unicast)), (&ipv4.ControlMessage{Src: unicast}).Marshal(); !bytes.Equal(got,
		want) {
		t.Errorf("%v: %x, want %x", unicast, got, want)
	}
	for name, oob := range map[string][]byte{
		"none": nil, "cut": asked4(unicast)[:9],
		"multicast": asked4(net.IPv4(224, 0, 0, 1)), "broadcast": asked4(net.IPv4bcast),
	} {
		if got := (control4{}).reply(oob); got != nil {
			t.Errorf("%s: %x, want the kernel's choice", name, got)
		}
	}
}

// TestReplyControl6 is the same for IPv6, where only a link-local address names the link.
func TestReplyControl6(t *testing.T) {
	asked := func(dst string) []byte { return (&ipv6.ControlMessage{Src: net.ParseIP(dst), IfIndex: 7}).Marshal() }
	for dst, index := range map[string]int{"2001:db8::7": 0, "fd00::7": 0, "fe80::7": 7} {
		want := (&ipv6.ControlMessage{Src: net.ParseIP(dst), IfIndex: index}).Marshal()
		if got := (control6{}).reply(asked(dst)); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", dst, got, want)
		}
	}
	for name, oob := range map[string][]byte{"none": nil, "cut": asked("2001:db8::7")[:9], "multicast": asked("ff02::1")} {
		if got := (control6{}).reply(oob); got != nil {
			t.Errorf("%s: %x, want the kernel's choice", name, got)
		}
	}
}
