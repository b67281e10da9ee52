package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"
)

// A Milter sends messages as a mail server does.
type Milter struct {
	Options
	Address string
	Size    int      // bytes of a body that is made
	Mail    [][]byte // whole messages, sent again and again; empty: they are made
}

// A milterClient speaks version 6 of the milter protocol as a mail server that needs no
// replies before the end of a message, except to MAIL.
type milterClient struct {
	conn  net.Conn
	steps uint32
	head  []byte // packets up to the body
	body  []byte
	next  uint64
	mail  [][]byte
	words [][]byte // of the vocabulary
	rng   *rand.Rand

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
	c := &milterClient{conn: conn, next: uint64(i) << 32, body: make([]byte, o.Size), mail: o.Mail}
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
	if len(c.mail) > 0 {
		c.packets = packetsOf(c.packets[:0], c.mail[c.next%uint64(len(c.mail))])
		c.next++
		return
	}
	c.prose()
	c.packets = frame(append(c.packets[:0], c.head...), 'B', string(c.body))
	c.packets = frame(c.packets, 'E', "")
}

// packetsOf appends the packets of a message from the recipient to the end.
func packetsOf(dst, raw []byte) []byte {
	dst = frame(dst, 'R', "<bob@example.com>\x00")
	raw = bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	header, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	for len(header) > 0 {
		end := 0
		for { // a line that begins with a blank belongs to the field before it
			n := bytes.Index(header[end:], []byte("\r\n"))
			if n < 0 {
				end = len(header)
				break
			}
			if end += n + 2; end < len(header) && header[end] != ' ' && header[end] != '\t' {
				break
			}
		}
		if name, value, ok := bytes.Cut(header[:end], []byte(":")); ok {
			value = bytes.ReplaceAll(bytes.TrimSpace(value), []byte("\r\n"), []byte("\n"))
			dst = frame(dst, 'L', string(name)+"\x00"+string(value)+"\x00")
		}
		header = header[end:]
	}
	dst = frame(dst, 'N', "")
	const chunk = 65_535 // of the milter protocol
	for part := range slices.Chunk(body, chunk) {
		dst = frame(dst, 'B', string(part))
	}
	return frame(dst, 'E', "")
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

// vocabulary is the number of words that texts have in common.
const vocabulary = 4096

// prose fills the body with a new text. As in mail, few words are most of it, and every twentieth is in no other text.
func (c *milterClient) prose() {
	if c.words == nil {
		c.rng = rand.New(rand.NewPCG(1, c.next))
		common := rand.New(rand.NewPCG(1, 1))
		for range vocabulary {
			c.words = append(c.words, word(common))
		}
	}
	text, column := c.body[:0], 0
	for len(text) < cap(c.body)-32 {
		w := c.words[int(math.Pow(vocabulary, c.rng.Float64()))-1] // the n'th with a frequency of 1/n
		if c.rng.IntN(20) == 0 {
			w = word(c.rng)
		}
		text = append(text, w...)
		if column += len(w) + 1; column < 65 {
			text = append(text, ' ')
		} else {
			text, column = append(text, "\r\n"...), 0
		}
	}
	c.body = text
}

// word returns a word of 2 to 11 letters.
func word(r *rand.Rand) []byte {
	w := make([]byte, 2+r.IntN(5)+r.IntN(6))
	for i := range w {
		w[i] = "etaoinshrdlucmfwypvbgkjqxz"[min(r.IntN(26), r.IntN(26))]
	}
	return w
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
