package razor2

import (
	"bufio"
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// A session is one connection: strictly alternating requests and replies.
type session struct {
	server    *Server
	conn      *door.Conn
	in        *bufio.Reader
	out       reply
	user      string // name of the logged-in user, "" before the login
	candidate string // user to whom the challenge was given
	secret    []byte // of the candidate; nil if the candidate may not log in
	challenge string // "" for none

	rows     []Values // of the batch being served
	limited  bool     // the client is over its limit: rows were not parsed
	queries  []bulkhead.Query
	verdicts []bulkhead.Verdict
	asked    []bulkhead.Signature
	indexes  []int // of the query of each row, -1 for none
}

func newSession(s *Server, c *door.Conn) *session {
	return &session{server: s, conn: c, in: bufio.NewReaderSize(c, maxLine)}
}

var (
	errQuit = errors.New("razor2: client quits")
	errLine = fmt.Errorf("%w: line longer than %d bytes", bulkhead.ErrMalformed, maxLine)
)

func (c *session) run(ctx context.Context) {
	for {
		c.conn.Await()
		c.out.reset()
		err := c.request(ctx)
		if c.out.rows > 0 {
			if _, werr := c.conn.Write(c.out.bytes()); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// line reads one line and returns it without its end. It is valid until the
// next read.
func (c *session) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errLine
	}
	if err != nil {
		return nil, err
	}
	line = line[:len(line)-1]
	return bytes.TrimSuffix(line, []byte{'\r'}), nil
}

// request reads one request and puts the answer into out. An error ends the connection,
// after out has been sent.
func (c *session) request(ctx context.Context) error {
	line, err := c.line()
	if err != nil {
		return c.refuse(err)
	}
	batch := len(line) > 0 && line[0] == '-'
	if batch {
		line = line[1:]
	}
	c.rows, c.limited = c.rows[:0], false
	message := batch && bytes.HasSuffix(line, []byte("message=*"))
	c.take(line)
	if message {
		return c.message(ctx, c.rows[0])
	}
	if batch {
		if err := c.batch(); err != nil {
			return c.refuse(err)
		}
	}
	return c.serve(ctx)
}

// take counts a row against the client's limit and parses it if it is within.
func (c *session) take(line []byte) {
	c.limited = c.limited || !c.conn.Allow(1)
	if c.limited {
		c.rows = append(c.rows, nil)
		return
	}
	c.rows = append(c.rows, ParseValues(string(line)))
}

// refuse answers a request that breaks a limit before the connection is closed.
func (c *session) refuse(err error) error {
	if errors.Is(err, bulkhead.ErrMalformed) {
		c.server.Stats.Malformed.Add(1)
		c.out.row("err=200")
	}
	return err
}

// batch reads the further rows of a batch, up to the line with a dot.
func (c *session) batch() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		if string(line) == "." {
			return nil
		}
		if len(c.rows) == batchRows {
			return fmt.Errorf("%w: batch of more than %d rows", bulkhead.ErrMalformed, batchRows)
		}
		c.take(line)
	}
}

// serve answers the rows that were read, one row each. All have the command of the first
// row.
func (c *session) serve(ctx context.Context) error {
	if c.limited {
		c.server.Stats.Limited.Add(int64(len(c.rows)))
		c.each("err=203")
		return nil
	}
	first := c.rows[0]
	command := first.Get("a")
	switch command {
	case "c":
		c.check(ctx)
	case "r":
		c.report()
	case "revoke":
		c.revoke(ctx)
	case "q":
		return errQuit
	case "":
		// The client identifies itself and expects no answer.
		if !first.Has("cn") {
			c.each("err=200")
		}
	default:
		if len(c.rows) > 1 {
			c.each("err=200")
			return nil
		}
		c.single(ctx, command, first)
	}
	return nil
}

// each answers every row alike.
func (c *session) each(text string) {
	for range c.rows {
		c.out.row(text)
	}
}

func (c *session) single(ctx context.Context, command string, v Values) {
	switch command {
	case "g":
		c.get(v.Get("pm"))
	case "reg":
		c.register(ctx, v)
	case "ai":
		c.begin(ctx, v.Get("user"))
	case "auth":
		c.authenticate(ctx, v.Get("aresp"))
	default:
		c.server.Stats.Malformed.Add(1)
		c.out.row("err=200")
	}
}

// get answers a=g: docs/specs/razor2.md#discovery and #state.
func (c *session) get(what string) {
	switch what {
	case "csl", "nsl":
		for _, name := range c.names() {
			c.out.values(Pair{what, name})
		}
	case "state":
		c.out.buf = append(c.out.buf[:0], c.server.setup.state...)
		c.out.buf = c.out.buf[:len(c.out.buf)-len(".\r\n")]
		c.out.rows = 7
	default:
		c.server.Stats.Malformed.Add(1)
		c.out.row("err=200")
	}
}

// names returns the servers that discovery announces: the configured names, or the
// address that the client is connected to. A second spelling of that address would spare
// clients later discoveries, but then the first report of a fresh client often fails.
func (c *session) names() []string {
	if len(c.server.Names) > 0 {
		return c.server.Names
	}
	return []string{c.conn.LocalAddr().String()}
}

// register answers a=reg: docs/specs/razor2.md#register.
func (c *session) register(ctx context.Context, v Values) {
	user, pass := v.Get("user"), v.Get("pass")
	if user == "" {
		user = randomText(10)
	}
	if pass == "" {
		pass = randomText(16)
	}
	err := checkName(user)
	if err == nil {
		err = checkCredential("password", pass)
	}
	if err == nil && !c.server.setup.registrations.allow(c.conn.Client()) {
		err = fmt.Errorf("%w: registrations from the network of %s", bulkhead.ErrOverLimit, c.conn.Client())
	}
	if err == nil {
		err = c.server.Accounts.Register(ctx, user, []byte(pass), c.conn.Client())
	}
	if err != nil {
		c.out.row(c.server.status("register", err))
		return
	}
	c.server.Stats.Registered.Add(1)
	c.server.Log.Debug("razor user registered", "user", user, "client", c.conn.Client())
	c.out.values(Pair{"res", "1"}, Pair{"user", user}, Pair{"pass", pass})
}

// begin answers a=ai with a challenge: docs/specs/razor2.md#login.
func (c *session) begin(ctx context.Context, user string) {
	c.user, c.challenge, c.secret = "", "", nil
	if checkName(user) != nil {
		c.out.row("err=213")
		return
	}
	secret, ok, err := c.server.Accounts.Secret(ctx, user)
	switch {
	case errors.Is(err, bulkhead.ErrForbidden):
		secret = nil // refused after the challenge, like a wrong password
	case err != nil:
		c.out.row(c.server.status("login", err))
		return
	case !ok:
		c.out.row("err=213")
		return
	}
	c.candidate, c.secret, c.challenge = user, secret, randomText(20)
	c.out.values(Pair{"achal", c.challenge})
}

// authenticate answers a=auth. A challenge is good for one attempt.
func (c *session) authenticate(ctx context.Context, response string) {
	want := Response(string(c.secret), c.challenge)
	good := subtle.ConstantTimeCompare([]byte(want), []byte(response)) == 1
	good = good && c.challenge != "" && len(c.secret) > 0
	user := c.candidate
	c.challenge, c.secret, c.candidate, c.user = "", nil, "", ""
	if !good {
		c.server.Stats.BadLogins.Add(1)
		c.server.Failures.Slow(ctx, "razor2", c.conn.Client())
		c.out.row("res=0")
		return
	}
	c.user = user
	c.server.Stats.Logins.Add(1)
	c.out.row("res=1")
}

func (c *session) reporter() bulkhead.Reporter {
	return bulkhead.Reporter{Account: c.user, Addr: c.conn.Client()}
}

// readMessage reads the block of a message up to CR LF "." CR LF. Without keep it discards the
// block. It also discards it if there is no memory, and then returns true for crowded.
func (c *session) readMessage(ctx context.Context, keep bool, hold *door.Hold) (block []byte, crowded bool, err error) {
	size := 0
	fresh := true // at the start of a line that follows CR LF
	cr := false   // a CR ended the previous piece, which filled the buffer
	for {
		piece, err := c.in.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !full {
			return nil, false, err
		}
		if fresh && string(piece) == ".\r\n" {
			return bytes.TrimSuffix(block, []byte("\r\n")), crowded, nil
		}
		fresh = bytes.HasSuffix(piece, []byte("\r\n")) || cr && string(piece) == "\n"
		cr = full && piece[len(piece)-1] == '\r'
		if size += len(piece); size > maxMessage {
			return nil, false, fmt.Errorf("%w: message of more than %d bytes", bulkhead.ErrMalformed, maxMessage)
		}
		if keep && hold.Take(ctx, int64(door.Cost*len(piece)), time.Second) != nil {
			block, keep, crowded = nil, false, true
			hold.Release()
		}
		if keep {
			block = append(block, piece...)
		}
	}
}
