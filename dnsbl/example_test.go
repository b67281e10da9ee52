package dnsbl_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead/dnsbl"
	"github.com/bulkhead-mail/bulkhead/door"
)

// shops lists every domain that ends in "-shop.example".
type shops struct{}

func (shops) HasDomain(name string) bool { return strings.HasSuffix(name, "-shop.example") }
func (shops) HasAddr(netip.Addr) bool    { return false }
func (shops) HasDigest(string) bool      { return false }
func (shops) Describe() string           { return "made up" }
func (shops) Updated() time.Time         { return time.Unix(0, 0) }

func Example() {
	s, err := dnsbl.NewServer(dnsbl.Options{Zones: []dnsbl.Zone{{Name: "bl.example.com", Form: dnsbl.Domains, List: shops{}}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	conns, err := door.ListenPackets(ctx, "127.0.0.1:0", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	address := conns[0].LocalAddr().String()
	done := make(chan error)
	go func() { done <- s.ServeUDP(ctx, conns) }()
	for _, name := range []string{"spam-shop.example", "library.example"} {
		fmt.Println(name, ask(address, name+".bl.example.com."))
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// spam-shop.example 127.0.0.2
	// library.example RCodeNameError
	// <nil>
}

// ask does what a resolver does.
func ask(address, name string) string {
	query := dnsmessage.Message{Questions: []dnsmessage.Question{{
		Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
	}}}
	packed, err := query.Pack()
	if err != nil {
		return err.Error()
	}
	c, err := net.Dial("udp", address)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if _, err := c.Write(packed); err != nil {
		return err.Error()
	}
	buf := make([]byte, 512)
	n, err := c.Read(buf)
	if err != nil {
		return err.Error()
	}
	var m dnsmessage.Message
	if err := m.Unpack(buf[:n]); err != nil {
		return err.Error()
	}
	for _, answer := range m.Answers {
		if a, ok := answer.Body.(*dnsmessage.AResource); ok {
			return netip.AddrFrom4(a.A).String()
		}
	}
	return m.RCode.String()
}
