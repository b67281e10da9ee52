package nodetest

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// A DNS is a name server on the loopback address, for tests that must not use a real one.
type DNS struct {
	// Address is its UDP address.
	Address string
	// Asked counts the queries.
	Asked atomic.Int64
	// Silent makes it answer nothing.
	Silent atomic.Bool

	records map[string][]string
}

// ServeDNS answers from records until the test ends. Their keys are of the forms
// "TXT example.com", "A example.com" (IPv4 and IPv6), "MX example.com" and "SRV _s._tcp.example.com", whose values
// are "host:port". Other names do not exist.
func ServeDNS(t testing.TB, records map[string][]string) *DNS {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &DNS{Address: conn.LocalAddr().String(), records: records}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			s.Asked.Add(1)
			if reply := s.reply(buf[:n]); reply != nil && !s.Silent.Load() {
				conn.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return s
}

func (s *DNS) reply(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true},
		Questions: m.Questions}
	known := false
	for _, kind := range []string{"TXT ", "A ", "MX ", "SRV "} {
		_, ok := s.records[kind+name]
		known = known || ok
	}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	add := func(body dnsmessage.ResourceBody) {
		reply.Answers = append(reply.Answers,
			dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}, Body: body})
	}
	switch q.Type {
	case dnsmessage.TypeTXT:
		for _, text := range s.records["TXT "+name] {
			var parts []string
			for ; len(text) > 255; text = text[255:] {
				parts = append(parts, text[:255])
			}
			add(&dnsmessage.TXTResource{TXT: append(parts, text)})
		}
	case dnsmessage.TypeA, dnsmessage.TypeAAAA:
		for _, text := range s.records["A "+name] {
			switch a := netip.MustParseAddr(text); {
			case a.Is4() && q.Type == dnsmessage.TypeA:
				add(&dnsmessage.AResource{A: a.As4()})
			case a.Is6() && q.Type == dnsmessage.TypeAAAA:
				add(&dnsmessage.AAAAResource{AAAA: a.As16()})
			}
		}
	case dnsmessage.TypeMX:
		for _, host := range s.records["MX "+name] {
			add(&dnsmessage.MXResource{Pref: 10, MX: dnsmessage.MustNewName(host + ".")})
		}
	case dnsmessage.TypeSRV:
		for _, target := range s.records["SRV "+name] {
			host, port, _ := strings.Cut(target, ":")
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return nil
			}
			add(&dnsmessage.SRVResource{Priority: 1, Weight: 1, Port: uint16(n), Target: dnsmessage.MustNewName(host + ".")})
		}
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil
	}
	return packed
}
