package real

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// A resolver is the name server that the nodes ask, on the loopback address. It publishes the
// key of this package for every domain, and an SPF record that lets those clients send for a
// domain that allow has named.
type resolver struct {
	address string
	conn    net.PacketConn
	done    chan struct{}

	mu      sync.Mutex
	allowed map[string]bool // "192.0.2.1._spf.example.com"
}

func newResolver(ip string) (*resolver, error) {
	conn, err := net.ListenPacket("udp", ip+":0")
	if err != nil {
		return nil, err
	}
	s := &resolver{address: conn.LocalAddr().String(), conn: conn, done: make(chan struct{}), allowed: map[string]bool{}}
	go s.serve()
	return s, nil
}

func (s *resolver) close() {
	s.conn.Close()
	<-s.done
}

// allow lets the client of a mail send for the domain that the mail says.
func (s *resolver) allow(m *Mail) {
	if m.SPF == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed[fmt.Sprintf("%v._spf.%s", m.Client, strings.ToLower(m.SPF))] = true
}

func (s *resolver) serve() {
	defer close(s.done)
	buf := make([]byte, 4096)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply := s.reply(buf[:n]); reply != nil {
			_, _ = s.conn.WriteTo(reply, from) // as lost as any datagram
		}
	}
}

var publicKey = "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(signingKey.Public().(ed25519.PublicKey))

func (s *resolver) reply(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true},
		Questions: m.Questions}
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 3600}
	s.mu.Lock()
	allowed := s.allowed[name]
	s.mu.Unlock()
	switch {
	case q.Type == dnsmessage.TypeTXT && strings.Contains(name, "._domainkey."):
		reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header,
			Body: &dnsmessage.TXTResource{TXT: []string{publicKey}}})
	case q.Type == dnsmessage.TypeTXT && !strings.HasPrefix(name, "_"):
		record := "v=spf1 exists:%{i}._spf.%{d} -all"
		reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header,
			Body: &dnsmessage.TXTResource{TXT: []string{record}}})
	case q.Type == dnsmessage.TypeA && allowed:
		reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header,
			Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 2}}})
	case strings.Contains(name, "._spf."):
		reply.RCode = dnsmessage.RCodeNameError
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil
	}
	return packed
}
