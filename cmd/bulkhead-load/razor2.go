package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/loadgen"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// paperChecks is the busiest Razor server of Yan and Cho's study, section 2: 200
// million checks a day.
const paperChecks = 200e6 / 86400

type razorLoad struct {
	loadgen.Options
	address string
	known   uint64
	rows    int
	pid     int
}

func newRazor2Command() *cobra.Command {
	var o razorLoad
	cmd := &cobra.Command{
		Use:   "razor2",
		Short: "Checks of engine-4 signatures over kept-open connections",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := loadgen.LoopbackOnly(o.address); err != nil {
				return err
			}
			if o.rows < 1 || o.rows > 50 {
				return fmt.Errorf("--rows %d, want 1 to 50", o.rows)
			}
			before := processorTime(o.pid)
			res, err := loadgen.Run(cmd.Context(), o.Options, o.connect)
			if err != nil {
				return err
			}
			out, checks := cmd.OutOrStdout(), res.PerSecond()*float64(o.rows)
			fmt.Fprintf(out, "razor2 check, %d connections, %d rows each: %v\n", o.Clients, o.rows, res)
			fmt.Fprintf(out, "%.0f signatures/s, %.1f x the paper's busiest server (%.0f/s)\n", checks, checks/paperChecks, paperChecks)
			if o.pid != 0 && res.Requests > 0 {
				// The warm-up is in the processor time, and its requests are not
				// counted, so this is a little too much.
				spent := processorTime(o.pid) - before
				fmt.Fprintf(out, "server %.2f us of processor a request\n", float64(spent.Microseconds())/float64(res.Requests))
			}
			return failure(res)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.address, "address", "127.0.0.1:2703", "loopback host:port of the server")
	loadFlags(cmd, &o.Options, 64)
	f.Uint64Var(&o.known, "signatures", 1_000_000, "distinct signatures that requests are drawn from")
	f.IntVar(&o.rows, "rows", 1, "signatures in one request")
	f.IntVar(&o.pid, "pid", 0, "process id of the server, to tell its processor time; 0: not told")
	return cmd
}

// A razorClient asks for random signatures, one request in flight.
type razorClient struct {
	load    *razorLoad
	conn    net.Conn
	in      *bufio.Reader
	rng     *rand.Rand
	request []byte
}

func (o *razorLoad) connect(i int) (loadgen.Client, error) {
	conn, err := net.Dial("tcp", o.address)
	if err != nil {
		return nil, err
	}
	c := &razorClient{
		load: o, conn: conn, in: bufio.NewReaderSize(conn, 2048),
		rng: rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano()))),
	}
	if _, err := c.in.ReadSlice('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("greeting: %w", err), conn.Close())
	}
	return c, nil
}

// Do implements loadgen.Client.
func (c *razorClient) Do() error {
	b := c.request[:0]
	if c.load.rows > 1 {
		b = append(b, '-')
	}
	for range c.load.rows {
		var sum [20]byte
		n := c.rng.Uint64() % max(c.load.known, 1)
		binary.BigEndian.PutUint64(sum[:], n*0x9e3779b97f4a7c15)
		b = append(b, "a=c&e=4&ep4="+signature.RazorEP4+"&s="...)
		b = append(append(b, signature.RazorText(sum[:])...), "\r\n"...)
	}
	if c.load.rows > 1 {
		b = append(b, ".\r\n"...)
	}
	c.request = b
	if err := c.conn.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
		return err
	}
	if _, err := c.conn.Write(b); err != nil {
		return err
	}
	for i := range c.load.rows {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if i == 0 {
			line = bytes.TrimPrefix(line, []byte{'-'})
		}
		if !bytes.HasPrefix(line, []byte("p=")) {
			return fmt.Errorf("answer %.80q", line)
		}
	}
	if c.load.rows > 1 {
		_, err := c.in.ReadSlice('\n') // the dot
		return err
	}
	return nil
}

// Close implements loadgen.Client.
func (c *razorClient) Close() error { return c.conn.Close() }
