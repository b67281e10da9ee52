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
)

// shops lists every domain that ends in "-shop.example".
type shops struct{}

func (shops) HasDomain(name string) bool { return strings.HasSuffix(name, "-shop.example") }
func (shops) HasAddr(netip.Addr) bool    { return false }
func (shops) HasDigest(string) bool      { return false }
func (shops) Describe() string           { return "made up" }
func (shops) Updated() time.Time         { return time.Unix(0, 0) }

func Example() {
	s := &dnsbl.Server{Zones: []dnsbl.Zone{{Name: "bl.example.com", Form: dnsbl.Domains, List: shops{}}}}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	address := pc.LocalAddr().String()
	done := make(chan error)
	go func() { done <- s.ServePacket(pc) }()
	for _, name := range []string{"spam-shop.example", "library.example"} {
		fmt.Println(name, ask(address, name+".bl.example.com."))
	}
	fmt.Println(s.Shutdown(context.Background()))
	fmt.Println(<-done)
	// Output:
	// spam-shop.example 127.0.0.2
	// library.example RCodeNameError
	// <nil>
	// door: server closed
}

// ask queries the server as a resolver does.
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
