package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/bulkhead-mail/bulkhead/digest/razor"
)

// PaperChecks is the busiest Razor server of Yan and Cho's study, section 2: 200
// million checks a day.
const PaperChecks = 200e6 / 86400

// A Razor2 asks for engine-4 signatures.
type Razor2 struct {
	Options
	Address string
	Known   uint64
	Rows    int
	Pid     int
}

// A razorClient asks for random signatures, one request in flight.
type razorClient struct {
	razor   *Razor2
	conn    net.Conn
	in      *bufio.Reader
	rng     *rand.Rand
	request []byte
}

// Connect returns client i.
func (o *Razor2) Connect(i int) (Client, error) {
	conn, err := net.Dial("tcp", o.Address)
	if err != nil {
		return nil, err
	}
	c := &razorClient{
		razor: o, conn: conn, in: bufio.NewReaderSize(conn, 2048),
		rng: rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano()))),
	}
	if _, err := c.in.ReadSlice('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("greeting: %w", err), conn.Close())
	}
	return c, nil
}

// Do implements Client.
func (c *razorClient) Do() error {
	b := c.request[:0]
	if c.razor.Rows > 1 {
		b = append(b, '-')
	}
	for range c.razor.Rows {
		var sum [20]byte
		n := c.rng.Uint64() % max(c.razor.Known, 1)
		binary.BigEndian.PutUint64(sum[:], n*0x9e3779b97f4a7c15)
		b = append(b, "a=c&e=4&ep4="+razor.EP4+"&s="...)
		b = append(append(b, razor.Text(sum[:])...), "\r\n"...)
	}
	if c.razor.Rows > 1 {
		b = append(b, ".\r\n"...)
	}
	c.request = b
	if err := c.conn.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
		return err
	}
	if _, err := c.conn.Write(b); err != nil {
		return err
	}
	for i := range c.razor.Rows {
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
	if c.razor.Rows > 1 {
		_, err := c.in.ReadSlice('\n') // the dot
		return err
	}
	return nil
}

// Close implements Client.
func (c *razorClient) Close() error { return c.conn.Close() }
