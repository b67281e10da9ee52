package door

import (
	"net"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// controls turns the control message of a received datagram into the control message of its answer.
// It is needed on wildcard sockets only: elsewhere the kernel has no choice of source address.
type controls interface {
	size() int
	reply(oob []byte) []byte // nil: let the kernel choose
}

type control4 struct{}

func (control4) size() int { return len(ipv4.NewControlMessage(ipv4.FlagDst)) }

func (control4) reply(oob []byte) []byte {
	var cm ipv4.ControlMessage
	// A multicast or broadcast address cannot be a source.
	if cm.Parse(oob) != nil || cm.Dst == nil || cm.Dst.IsMulticast() || cm.Dst.Equal(net.IPv4bcast) {
		return nil
	}
	answer := ipv4.ControlMessage{Src: cm.Dst}
	return answer.Marshal()
}

type control6 struct{}

func (control6) size() int { return len(ipv6.NewControlMessage(ipv6.FlagDst | ipv6.FlagInterface)) }

func (control6) reply(oob []byte) []byte {
	var cm ipv6.ControlMessage
	if cm.Parse(oob) != nil || cm.Dst == nil || cm.Dst.IsMulticast() {
		return nil
	}
	answer := ipv6.ControlMessage{Src: cm.Dst}
	// A link-local address is valid on its own link only. Answers from other addresses may take any
	// route of the kernel.
	if cm.Dst.IsLinkLocalUnicast() {
		answer.IfIndex = cm.IfIndex
	}
	return answer.Marshal()
}
