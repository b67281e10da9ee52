package razor2

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
)

// A Client is one connection to a Razor 2 server, for use by one goroutine.
type Client struct {
	conn net.Conn
	in   *bufio.Reader
	// Greeting is the server's greeting.
	Greeting Values
	// Timeout is how long one request may take; Dial sets 15 seconds.
	Timeout time.Duration
}

// A ServerError is an answer "err=N": docs/specs/razor2.md#error-numbers.
type ServerError int

// Error names the number.
func (e ServerError) Error() string { return fmt.Sprintf("razor2: server answers err=%d", int(e)) }

// timeout is how long a server may take for an answer, unless the client sets another time.
const timeout = 15 * time.Second

// Dial connects to a server at "host:port" and reads its greeting, which must arrive before ctx
// ends and within 15 s.
func Dial(ctx context.Context, address string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("razor2: %w", err)
	}
	until := time.Now().Add(timeout)
	if at, ok := ctx.Deadline(); ok && at.Before(until) {
		until = at
	}
	c, err := greeted(conn, until)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// NewClient returns a client on an open connection, and reads the greeting, which must arrive
// within 15 s.
func NewClient(conn net.Conn) (*Client, error) { return greeted(conn, time.Now().Add(timeout)) }

func greeted(conn net.Conn, until time.Time) (*Client, error) {
	c := &Client{conn: conn, in: bufio.NewReader(conn), Timeout: timeout}
	if err := conn.SetDeadline(until); err != nil {
		return nil, fmt.Errorf("razor2: %w", err)
	}
	rows, err := c.read(1)
	if err != nil {
		return nil, err
	}
	c.Greeting = rows[0]
	if c.Greeting.Get("sn") == "" {
		return nil, fmt.Errorf("%w: razor2: greeting without sn", bulkhead.ErrMalformed)
	}
	return c, nil
}

// Close sends a=q and closes the connection.
func (c *Client) Close() error {
	_, err := io.WriteString(c.conn, "a=q\r\n")
	return errors.Join(err, c.conn.Close())
}

// Do sends the rows as one request and returns one row of the answer for each. The caller must not
// send more rows than the server accepts in a batch.
func (c *Client) Do(rows ...Values) ([]Values, error) {
	var b []byte
	if len(rows) > 1 {
		b = append(b, '-')
	}
	for _, r := range rows {
		b = append(r.append(b), "\r\n"...)
	}
	if len(rows) > 1 {
		b = append(b, ".\r\n"...)
	}
	return c.exchange(b, len(rows))
}

func (c *Client) exchange(request []byte, rows int) ([]Values, error) {
	if err := c.conn.SetDeadline(time.Now().Add(c.Timeout)); err != nil {
		return nil, fmt.Errorf("razor2: %w", err)
	}
	if _, err := c.conn.Write(request); err != nil {
		return nil, fmt.Errorf("razor2: %w", err)
	}
	return c.read(rows)
}

// read reads one answer of the given number of rows; 0 means any.
func (c *Client) read(want int) ([]Values, error) {
	first, err := c.line()
	if err != nil {
		return nil, err
	}
	text, many := strings.CutPrefix(first, "-")
	rows := []Values{ParseValues(text)}
	for many && len(rows) <= 1000 {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		if line == "." {
			break
		}
		rows = append(rows, ParseValues(line))
	}
	if want > 0 && len(rows) != want {
		return nil, fmt.Errorf("%w: razor2: %d rows in answer to %d", bulkhead.ErrMalformed, len(rows), want)
	}
	return rows, nil
}

func (c *Client) line() (string, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("razor2: answer: %w", err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

// serverError returns the error that a row states, or nil if it states none.
func serverError(v Values) error {
	text := v.Get("err")
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%w: razor2: err=%.20q", bulkhead.ErrMalformed, text)
	}
	return ServerError(n)
}

// State asks for the server's parameters.
func (c *Client) State() (Values, error) {
	rows, err := c.exchange([]byte("a=g&pm=state\r\n"), 0)
	if err != nil {
		return nil, err
	}
	var all Values
	for _, r := range rows {
		all = append(all, r...)
	}
	return all, serverError(all)
}

// Register registers a user; empty strings let the server choose. It returns the name
// and password that the server stored.
func (c *Client) Register(user, pass string) (string, string, error) {
	v := Values{{"a", "reg"}}
	if pass != "" {
		v = append(v, Pair{"pass", pass})
	}
	if user != "" {
		v = append(v, Pair{"user", user})
	}
	rows, err := c.Do(v)
	if err != nil {
		return "", "", err
	}
	if err := serverError(rows[0]); err != nil {
		return "", "", err
	}
	return rows[0].Get("user"), rows[0].Get("pass"), nil
}

// Login logs in for the rest of the connection. A wrong password is an error
// that wraps bulkhead.ErrUnauthorised.
func (c *Client) Login(user, pass string) error {
	rows, err := c.Do(Values{{"a", "ai"}, {"user", user}})
	if err != nil {
		return err
	}
	if err := serverError(rows[0]); err != nil {
		return err
	}
	rows, err = c.Do(Values{{"a", "auth"}, {"aresp", Response(pass, rows[0].Get("achal"))}})
	if err != nil {
		return err
	}
	if rows[0].Get("res") != "1" {
		return fmt.Errorf("%w: razor2: login as %.70q", bulkhead.ErrUnauthorised, user)
	}
	return nil
}

// row returns the row of a query or a vote for a Razor signature.
func row(command string, sig *bulkhead.Signature) Values {
	v := Values{{"a", command}, {"e", "8"}}
	if sig.Scheme() == bulkhead.RazorE4 {
		v[1].Value = "4"
		if command != "revoke" {
			v = append(v, Pair{"ep4", razor.EP4})
		}
	}
	return append(v, Pair{"s", razor.Text(sig.Sum())})
}

// An Answer is a server's answer about one signature.
type Answer struct {
	Spam       bool
	Confidence int // 0 to 100
	Contested  bool
}

// Check looks up Razor signatures, at most 50 in one request.
func (c *Client) Check(sigs ...bulkhead.Signature) ([]Answer, error) {
	rows := make([]Values, len(sigs))
	for i := range sigs {
		rows[i] = row("c", &sigs[i])
	}
	got, err := c.Do(rows...)
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, len(got))
	for i, v := range got {
		if err := serverError(v); err != nil {
			return nil, err
		}
		cf, _ := strconv.Atoi(v.Get("cf")) // absent when the signature is unknown
		answers[i] = Answer{Spam: v.Get("p") == "1", Confidence: cf, Contested: v.Get("ct") == "1"}
	}
	return answers, nil
}

// Revoke revokes signatures, at most 50 in one request.
func (c *Client) Revoke(sigs ...bulkhead.Signature) error {
	rows := make([]Values, len(sigs))
	for i := range sigs {
		rows[i] = row("revoke", &sigs[i])
	}
	got, err := c.Do(rows...)
	if err != nil {
		return err
	}
	return accepted(got)
}

// Report reports a mail, given as its header with LF line ends and its parts in
// the form of docs/specs/razor2.md#reported-mail.
func (c *Client) Report(header []byte, parts [][]byte) error {
	b := append([]byte("-a=r&message=*\r\n"), header...)
	for _, p := range parts {
		b = append(append(b, "\r\n"...), p...)
	}
	got, err := c.exchange(append(b, "\r\n.\r\n"...), 1)
	if err != nil {
		return err
	}
	return accepted(got)
}

// accepted returns the first refusal among the rows.
func accepted(rows []Values) error {
	for _, v := range rows {
		if err := serverError(v); err != nil {
			return err
		}
		if v.Get("res") != "1" {
			return fmt.Errorf("%w: razor2: refused by the server", bulkhead.ErrForbidden)
		}
	}
	return nil
}
