package load

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// A Milter sends messages as a mail server does.
type Milter struct {
	Options
	Address string
	Size    int
}

// A milterClient speaks version 6 of the milter protocol as a mail server that needs no
// replies before the end of a message, except to MAIL.
type milterClient struct {
	conn  net.Conn
	steps uint32
	head  []byte // packets up to the body
	body  []byte
	next  uint64

	packets []byte // from the recipient to the end of the message
}

func frame(dst []byte, cmd byte, data string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(data)+1))
	return append(append(dst, cmd), data...)
}

// noRepliesButMail are all steps, except that the reply to MAIL is wanted.
const noRepliesButMail = 0x1fffff &^ (1 << 14)

// Connect returns client i.
func (o *Milter) Connect(i int) (Client, error) {
	conn, err := dialLocal("tcp", o.Address)
	if err != nil {
		return nil, err
	}
	c := &milterClient{conn: conn, next: uint64(i) << 32, body: make([]byte, o.Size)}
	if _, err := conn.Write(frame(nil, 'O', "\x00\x00\x00\x06\x00\x00\x01\xff\x00\x1f\xff\xff")); err != nil {
		return nil, err
	}
	_, data, err := c.read()
	if err != nil {
		return nil, err
	}
	if len(data) < 12 {
		return nil, fmt.Errorf("negotiation of %d bytes", len(data))
	}
	if c.steps = binary.BigEndian.Uint32([]byte(data[8:])); c.steps&noRepliesButMail == 0 {
		return nil, fmt.Errorf("the milter wants to reply to every step: %#x", c.steps)
	}
	c.head = frame(c.head, 'R', "<bob@example.com>\x00")
	for _, h := range []string{"From\x00Ann <ann@shop.example>", "To\x00bob@example.com", "Subject\x00our new catalogue",
		"Date\x00Tue, 3 Mar 2026 10:00:00 +0000", "MIME-Version\x001.0"} {
		c.head = frame(c.head, 'L', h+"\x00")
	}
	c.head = frame(c.head, 'N', "")
	_, err = conn.Write(frame(nil, 'C', "client.example.org\x004\x9c\x40198.51.100.7\x00"))
	return c, err
}

// Close implements [Client].
func (c *milterClient) Close() error { return c.conn.Close() }

// Prepare implements [Preparer]: the text of the next message.
func (c *milterClient) Prepare() {
	c.prose()
	c.packets = frame(append(c.packets[:0], c.head...), 'B', string(c.body))
	c.packets = frame(c.packets, 'E', "")
}

// Do implements [Client]: one message.
func (c *milterClient) Do() error {
	if err := c.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := c.conn.Write(frame(nil, 'M', "<ann@shop.example>\x00")); err != nil {
		return err
	}
	if code, _, err := c.read(); err != nil {
		return err
	} else if code != 'c' {
		return fmt.Errorf("reply %q to MAIL", code)
	}
	if _, err := c.conn.Write(c.packets); err != nil {
		return err
	}
	for {
		switch code, _, err := c.read(); {
		case err != nil:
			return err
		case code == 'a':
			return nil
		case !strings.ContainsRune("imq", rune(code)):
			return fmt.Errorf("reply %q at the end", code)
		}
	}
}

// prose fills the body with words that no other message has.
func (c *milterClient) prose() {
	c.next++
	x := c.next*0x9e3779b97f4a7c15 | 1
	for i := range c.body {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		switch {
		case i%70 == 69:
			c.body[i] = '\n'
		case i%70 == 68:
			c.body[i] = '\r'
		case x%6 == 0:
			c.body[i] = ' '
		default:
			c.body[i] = 'a' + byte(x>>32)%26
		}
	}
}

func (c *milterClient) read() (code byte, data string, err error) {
	var head [5]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return 0, "", err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 1 || n > 1<<20 {
		return 0, "", fmt.Errorf("packet of %d bytes", n)
	}
	b := make([]byte, n-1)
	_, err = io.ReadFull(c.conn, b)
	return head[4], string(b), err
}
