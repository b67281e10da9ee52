package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/ipv4"

	"github.com/bulkhead-mail/bulkhead/internal/loadgen"
)

type dnsblOptions struct {
	loadgen.Options
	address, zone, names string
	flight               int
}

func newDNSBLCommand() *cobra.Command {
	var o dnsblOptions
	cmd := &cobra.Command{
		Use:   "dnsbl",
		Short: "DNS block list queries over UDP: every second name is listed",
		Long: "DNS block list queries over UDP, for this server or another one. Every second query\n" +
			"asks for a name of the file, every other for a name that is not in it. A request of the\n" +
			"result is a batch of --flight queries.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := readNames(o.names)
			if err != nil {
				return err
			}
			res, err := loadgen.Run(cmd.Context(), o.Options, func(i int) (loadgen.Client, error) { return o.connect(i, names) })
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "dnsbl, %d clients with %d queries in flight: %.0f queries/s; batches: %v\n",
				o.Clients, o.flight, res.PerSecond()*float64(o.flight), res)
			return res.First
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.address, "address", "127.0.0.1:5300", "loopback host:port of the server")
	f.StringVar(&o.zone, "zone", "bl.example.com", "zone to ask")
	f.StringVar(&o.names, "names", "", "file of listed domains, one on each line")
	f.IntVar(&o.flight, "flight", 32, "queries in flight of one client, 1 to 256")
	loadFlags(cmd, &o.Options, 8)
	_ = cmd.MarkFlagRequired("names") // the flag exists
	return cmd
}

// maxNames bounds the names that are drawn from.
const maxNames = 100_000

func readNames(path string) ([]string, error) {
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
	batch    *ipv4.PacketConn
	queries  [][]byte // even ones are listed
	next     int
	out, in  []ipv4.Message
	expected map[uint16]bool // by ID: whether the answer is to be a hit
}

func (o *dnsblOptions) connect(i int, names []string) (loadgen.Client, error) {
	if o.flight < 1 || o.flight > 256 {
		return nil, fmt.Errorf("--flight %d, want 1 to 256", o.flight)
	}
	conn, err := dialLocal("udp4", o.address)
	if err != nil {
		return nil, err
	}
	c := &dnsblClient{
		conn: conn, batch: ipv4.NewPacketConn(conn.(*net.UDPConn)), next: i * 977 * 2,
		out: make([]ipv4.Message, o.flight), in: make([]ipv4.Message, o.flight), expected: make(map[uint16]bool),
	}
	for j := range o.flight {
		c.out[j].Buffers = make([][]byte, 1)
		c.in[j].Buffers = [][]byte{make([]byte, 1232)}
	}
	// Prepared: the generator shares the processors with what it measures.
	for k := range min(len(names), 20_000) {
		name := names[(k*31+i*7)%len(names)]
		for _, n := range []string{name, fmt.Sprintf("x%d-%s", k, name)} {
			if len(n) > 200 {
				n = n[:60]
			}
			q, err := packQuery(n + "." + o.zone + ".")
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
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: n, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	return m.Pack()
}

// Close implements [loadgen.Client].
func (c *dnsblClient) Close() error { return c.conn.Close() }

// Do implements [loadgen.Client]: one batch.
func (c *dnsblClient) Do() error {
	clear(c.expected)
	for i := range c.out {
		q := c.queries[c.next%len(c.queries)]
		id := uint16(i)
		binary.BigEndian.PutUint16(q, id)
		c.expected[id] = c.next%len(c.queries)%2 == 0
		c.out[i].Buffers[0] = q
		c.next++
	}
	if err := c.conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	for sent := 0; sent < len(c.out); {
		n, err := c.batch.WriteBatch(c.out[sent:], 0)
		if err != nil {
			return err
		}
		sent += n
	}
	for len(c.expected) > 0 {
		n, err := c.batch.ReadBatch(c.in[:len(c.expected)], 0)
		if err != nil {
			return err
		}
		for _, m := range c.in[:n] {
			if err := c.check(m.Buffers[0][:m.N]); err != nil {
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
	id := binary.BigEndian.Uint16(answer)
	listed, waiting := c.expected[id]
	if !waiting {
		return nil // late, of a batch that failed
	}
	delete(c.expected, id)
	hit := binary.BigEndian.Uint16(answer[6:]) == 1
	if listed && !hit {
		return fmt.Errorf("a listed name was answered with code %d and %d records", answer[3]&15, binary.BigEndian.Uint16(answer[6:]))
	}
	return nil
}
