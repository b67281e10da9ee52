package load

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead/internal/mmsg"
)

// A DNSBL asks a DNS block list.
type DNSBL struct {
	Options
	Address, Zone, Names string
	Flight               int
}

// maxNames bounds the names that are drawn from.
const maxNames = 100_000

// ReadNames reads the names in a file, one on each line, at most 100,000.
func ReadNames(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for in := bufio.NewScanner(f); in.Scan() && len(names) < maxNames; {
		if name := strings.TrimSpace(in.Text()); name != "" && !strings.HasPrefix(name, "#") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no names", path)
	}
	return names, nil
}

// A dnsblClient sends batches of prepared queries and waits for their answers.
type dnsblClient struct {
	conn     net.Conn
	in       *mmsg.Reader
	out      *mmsg.Writer
	answers  [][]byte
	queries  [][]byte // even ones are listed
	next     int
	expected []expectation // by ID
	waiting  int           // how many of them are not answered yet
}

// An expectation is what the answer to a query should say.
type expectation uint8

const (
	answered expectation = iota
	listed
	anything // not listed: a hit is an error of the list, of which there may be some
)

// Connect returns client i, half of whose queries are for the names.
func (o *DNSBL) Connect(i int, names []string) (Client, error) {
	if o.Flight < 1 || o.Flight > 256 {
		return nil, fmt.Errorf("--flight %d, want 1 to 256", o.Flight)
	}
	conn, err := dialLocal("udp4", o.Address)
	if err != nil {
		return nil, err
	}
	c := &dnsblClient{
		conn: conn, next: i * 977 * 2, answers: make([][]byte, o.Flight), expected: make([]expectation, o.Flight),
	}
	udp := conn.(*net.UDPConn)
	c.in, c.out = mmsg.NewReader(udp, o.Flight, 0), mmsg.NewWriter(udp, o.Flight)
	c.out.Single() // as mail filters send them
	for j := range o.Flight {
		c.answers[j] = make([]byte, 1232)
		c.in.SetBuffer(j, c.answers[j])
	}
	// Prepared in advance, since the generator shares the processors with what it measures.
	for k := range max(min(len(names), 20_000), o.Flight) {
		name := names[(k*31+i*7)%len(names)]
		for _, n := range []string{name, fmt.Sprintf("x%d-%s", k, name)} {
			if len(n) > 200 {
				n = n[:60]
			}
			q, err := packQuery(n + "." + o.Zone + ".")
			if err != nil {
				return nil, err
			}
			c.queries = append(c.queries, q)
		}
	}
	return c, nil
}

func packQuery(name string) ([]byte, error) {
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: n, Type: dnsmessage.TypeA,
		Class: dnsmessage.ClassINET}}}
	return m.Pack()
}

// Close implements [Client].
func (c *dnsblClient) Close() error { return c.conn.Close() }

// Do implements [Client]: one batch.
func (c *dnsblClient) Do() error {
	for id := range c.expected {
		at := c.next % len(c.queries)
		c.expected[id] = anything
		if at%2 == 0 {
			c.expected[id] = listed
		}
		binary.BigEndian.PutUint16(c.queries[at], uint16(id))
		c.out.Add(nil, nil, c.queries[at])
		c.next++
	}
	c.waiting = len(c.expected)
	if err := c.conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, refused := c.out.Flush(); refused > 0 {
		return fmt.Errorf("%d queries could not be sent", refused)
	}
	for c.waiting > 0 {
		n, err := c.in.Read()
		if err != nil {
			return err
		}
		for i := range n {
			if err := c.check(c.answers[i][:c.in.Len(i)]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *dnsblClient) check(answer []byte) error {
	if len(answer) < 12 {
		return errors.New("answer of less than 12 bytes")
	}
	id := int(binary.BigEndian.Uint16(answer))
	if id >= len(c.expected) || c.expected[id] == answered {
		return nil // late, of a batch that failed
	}
	records := binary.BigEndian.Uint16(answer[6:])
	if c.expected[id] == listed && records != 1 {
		return fmt.Errorf("a listed name was answered with code %d and %d records", answer[3]&15, records)
	}
	c.expected[id] = answered
	c.waiting--
	return nil
}
