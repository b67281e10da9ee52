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
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/internal/deadline"
)

// A Client is one connection to a Razor 2 server. Its methods may be called concurrently; requests wait
// for each other.
type Client struct {
	greeting Values
	timeout  time.Duration

	mu   sync.Mutex
	conn net.Conn
	in   *bufio.Reader
}

// Options of a [Client]. nil and the zero Options are the defaults.
type Options struct {
	// Timeout is how long the greeting, or the answer to one request, may take; 0 means 15 s.
	Timeout time.Duration
}

// Credentials are the name and password of an account.
type Credentials struct{ User, Password string }

// A ServerError is an answer "err=N": docs/specs/razor2.md#error-numbers.
type ServerError int

// Error names the number.
func (e ServerError) Error() string { return fmt.Sprintf("razor2: server answers err=%d", int(e)) }

// Dial connects to a server at "host:port" of TCP and reads its greeting. ctx bounds this alone. The
// caller closes the client.
func Dial(ctx context.Context, address string, o *Options) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("razor2: %w", err)
	}
	c, err := newClient(ctx, conn, o)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// newClient returns a client on an open connection after its greeting.
func newClient(ctx context.Context, conn net.Conn, o *Options) (*Client, error) {
	c := &Client{conn: conn, in: bufio.NewReader(conn), timeout: 15 * time.Second}
	if o != nil && o.Timeout > 0 {
		c.timeout = o.Timeout
	}
	rows, err := c.exchange(ctx, nil, 1)
	if err != nil {
		return nil, err
	}
	c.greeting = rows[0]
	if c.greeting.Get("sn") == "" {
		return nil, fmt.Errorf("%w: razor2: greeting without sn", bulkhead.ErrMalformed)
	}
	return c, nil
}

// Greeting returns the server's greeting.
func (c *Client) Greeting() Values { return c.greeting }

// Close sends a=q and closes the connection.
func (c *Client) Close() error {
	err := c.conn.SetDeadline(time.Now().Add(c.timeout))
	if err == nil {
		_, err = io.WriteString(c.conn, "a=q\r\n")
	}
	return errors.Join(err, c.conn.Close())
}

// Do sends the rows as one request and returns one row of the answer for each. The caller must not
// send more rows than the server accepts in a batch.
func (c *Client) Do(ctx context.Context, rows ...Values) ([]Values, error) {
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
	return c.exchange(ctx, b, len(rows))
}

// exchange sends a request, if there is one, and reads its answer of the given number of rows; 0 means any.
func (c *Client) exchange(ctx context.Context, request []byte, rows int) ([]Values, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	release, err := deadline.Set(ctx, c.conn, time.Now().Add(c.timeout))
	if err != nil {
		return nil, fmt.Errorf("razor2: %w", err)
	}
	defer release()
	if len(request) > 0 {
		if _, err := c.conn.Write(request); err != nil {
			return nil, fmt.Errorf("razor2: %w", deadline.Cause(ctx, err))
		}
	}
	answer, err := c.read(rows)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("razor2: %w", ctx.Err())
	}
	return answer, err
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
func (c *Client) State(ctx context.Context) (Values, error) {
	rows, err := c.exchange(ctx, []byte("a=g&pm=state\r\n"), 0)
	if err != nil {
		return nil, err
	}
	var all Values
	for _, r := range rows {
		all = append(all, r...)
	}
	return all, serverError(all)
}

// Register creates an account and returns the credentials that the server stored. The server chooses
// the empty fields of want.
func (c *Client) Register(ctx context.Context, want Credentials) (Credentials, error) {
	v := Values{{"a", "reg"}}
	if want.Password != "" {
		v = append(v, Pair{"pass", want.Password})
	}
	if want.User != "" {
		v = append(v, Pair{"user", want.User})
	}
	rows, err := c.Do(ctx, v)
	if err != nil {
		return Credentials{}, err
	}
	if err := serverError(rows[0]); err != nil {
		return Credentials{}, err
	}
	return Credentials{User: rows[0].Get("user"), Password: rows[0].Get("pass")}, nil
}

// Login logs in for the rest of the connection. A wrong password is an error
// that wraps bulkhead.ErrUnauthorised.
func (c *Client) Login(ctx context.Context, as Credentials) error {
	rows, err := c.Do(ctx, Values{{"a", "ai"}, {"user", as.User}})
	if err != nil {
		return err
	}
	if err := serverError(rows[0]); err != nil {
		return err
	}
	rows, err = c.Do(ctx, Values{{"a", "auth"}, {"aresp", Response(as.Password, rows[0].Get("achal"))}})
	if err != nil {
		return err
	}
	if rows[0].Get("res") != "1" {
		return fmt.Errorf("%w: razor2: login as %.70q", bulkhead.ErrUnauthorised, as.User)
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
func (c *Client) Check(ctx context.Context, sigs ...bulkhead.Signature) ([]Answer, error) {
	rows := make([]Values, len(sigs))
	for i := range sigs {
		rows[i] = row("c", &sigs[i])
	}
	got, err := c.Do(ctx, rows...)
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
func (c *Client) Revoke(ctx context.Context, sigs ...bulkhead.Signature) error {
	rows := make([]Values, len(sigs))
	for i := range sigs {
		rows[i] = row("revoke", &sigs[i])
	}
	got, err := c.Do(ctx, rows...)
	if err != nil {
		return err
	}
	return accepted(got)
}

// Report reports a mail, given as its header with LF line ends and its parts in
// the form of docs/specs/razor2.md#reported-mail.
func (c *Client) Report(ctx context.Context, header []byte, parts [][]byte) error {
	b := append([]byte("-a=r&message=*\r\n"), header...)
	for _, p := range parts {
		b = append(append(b, "\r\n"...), p...)
	}
	got, err := c.exchange(ctx, append(b, "\r\n.\r\n"...), 1)
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
