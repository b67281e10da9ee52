package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/local"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

// AdminHelp explains to users of a command who may run it.
const AdminHelp = "It takes an administrator of the node: on the node's machine root, the node's own user and\n" +
	"members of the group bulkhead are, and need no token. Elsewhere name a token with\n" +
	"--token-file or $BULKHEAD_TOKEN."

// DefaultServer is the URL of a node with the default configuration.
const DefaultServer = "http://127.0.0.1:8420"

// Remote holds the flags that name a node and the way to reach it.
type Remote struct {
	Server    string // URL; "" for the node of this machine
	TokenFile string // "" for the environment's token, or none
	Timeout   time.Duration
	JSON      bool // print JSON
}

// Flags defines the flags.
func (r *Remote) Flags(f *pflag.FlagSet) {
	r.ServerFlags(f, "URL of the node", time.Minute)
	JSONFlag(f, &r.JSON)
}

// ServerFlags defines the flags except --json, with the meaning of --server and the default of
// --timeout.
func (r *Remote) ServerFlags(f *pflag.FlagSet, server string, timeout time.Duration) {
	f.StringVar(&r.Server, "server", "", "`"+strings.Replace(server, " ", "` ", 1)+
		" (default: the node of this machine, by its socket,\nelse "+DefaultServer+")")
	f.StringVar(&r.TokenFile, "token-file", "",
		"`FILE` with the bearer token (default: $BULKHEAD_TOKEN, else none: the node\n"+
			"of this machine recognises root, its own user and the group bulkhead)")
	f.DurationVar(&r.Timeout, "timeout", timeout, "longest time that one request may take")
}

// Client returns a client of the node that --server names, else of this machine's node. It has the
// token of --token-file, or else of the environment.
func (r *Remote) Client() (*admin.Client, error) {
	own := findNode("", "")
	c, _, err := r.client(&own)
	return c, err
}

// socketServer is the URL of a node that is asked through its socket.
const socketServer = "http://localhost"

// client returns a client as [Remote.Client] does, where own is the node of this machine. bySocket
// reports that it asks through own's socket.
func (r *Remote) client(own *machineNode) (c *admin.Client, bySocket bool, err error) {
	c = &admin.Client{Client: client.Client{Server: r.Server, HTTP: &http.Client{Timeout: r.Timeout,
		Transport: http.DefaultTransport}}}
	defer func() {
		if c != nil && !r.JSON {
			c.HTTP.Transport = shown{c.HTTP.Transport}
		}
	}()
	switch {
	case r.TokenFile != "":
		if c.Token, err = node.ReadSecret(r.TokenFile); err == nil {
			err = checkToken(r.TokenFile, c.Token)
		}
	case os.Getenv("BULKHEAD_TOKEN") != "":
		c.Token = strings.TrimSpace(os.Getenv("BULKHEAD_TOKEN"))
		err = checkToken("$BULKHEAD_TOKEN", c.Token)
	}
	if err != nil {
		return nil, false, err
	}
	if r.Server != "" {
		u, err := url.Parse(r.Server)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, false, cli.Usagef("--server %q is not a URL like %s", r.Server, DefaultServer)
		}
		return c, false, nil
	}
	socket, err := own.socket()
	switch {
	case err != nil:
		return nil, false, err
	case socket != "":
		c.Server, c.HTTP.Transport = socketServer, through(socket)
		return c, true, nil
	case own.server != "":
		c.Server = own.server
	default:
		c.Server = DefaultServer
	}
	return c, false, nil
}

// checkToken returns an error if the text of a file or variable can be no token.
func checkToken(from, text string) error {
	switch {
	case text == "":
		return cli.DataError{Err: fmt.Errorf("%s has no token: it is empty", from)}
	case strings.ContainsFunc(text, unicode.IsSpace):
		return cli.DataError{Err: fmt.Errorf("%s has no token: it has more than one word", from)}
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }):
		return cli.DataError{Err: fmt.Errorf("%s has no token: it has other characters than ASCII's", from)}
	}
	return nil
}

// socket returns the path of the node's socket, "" if it has none. A socket that another user may have
// put there is an error.
func (n *machineNode) socket() (string, error) {
	for _, path := range n.sockets() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		conn, err := local.Dial(ctx, path)
		stop()
		switch {
		case err == nil:
			return path, conn.Close()
		case errors.Is(err, syscall.ECONNREFUSED): // as each request will find out
			return path, nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported),
			errors.Is(err, syscall.EINVAL): // a path too long for a socket
			continue
		}
		return "", err
	}
	return "", nil
}

// through returns a transport that reaches every host through a node's socket.
func through(socket string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return local.Dial(ctx, socket)
	}}
}

// PublicURL returns the URL of the node of a client for other programs, such as browsers. It asks the
// node if the client reaches the node through its socket.
func PublicURL(ctx context.Context, c *admin.Client) (string, error) {
	if c.Server != socketServer {
		return strings.TrimSuffix(c.Server, "/"), nil
	}
	state, err := c.Node(ctx)
	if err != nil {
		return "", err
	}
	for _, d := range state.Doors {
		if scheme, address, ok := strings.Cut(d.Address, "://"); ok && d.Name == "http" {
			near, err := OwnAddress(address)
			return scheme + "://" + near, err
		}
	}
	return "", &config.Error{Key: "listen.http", Detail: "is off, so there are no pages"}
}

// AsAdmin runs a command with a client. On the node's own machine, the node recognises
// administrators through its socket. Without a socket, if no token is named, the client has the
// administrator's token of this machine's node. This token is sent to loopback addresses alone, and
// the installed node's token only if --server names such an address.
func (r *Remote) AsAdmin(_ *cobra.Command, data string, run func(*admin.Client) error) error {
	if data != "" && r.Server == "" { // not even another node is asked in place of the one in a folder that is not there
		if _, err := os.Stat(data); err != nil {
			return err
		}
	}
	own := findNode(data, "")
	c, bySocket, err := r.client(&own)
	if err != nil {
		return err
	}
	if bySocket {
		return run(c)
	}
	var unread error
	var implied bool // the token is of the data folder
	// The installed node has a socket while it runs. Without the socket, another user's program may
	// listen at its address.
	if c.Token == "" && isLoopback(c.Server) && !(own.installed && r.Server == "") {
		c.Token, unread = node.ReadSecret(own.token())
		implied = c.Token != ""
		switch {
		case errors.Is(unread, fs.ErrNotExist):
			unread = nil // the node will answer that a token is needed
		case unread != nil && !(own.installed && errors.Is(unread, fs.ErrPermission)):
			return unread
		}
	}
	err = run(c)
	refused := errors.Is(err, bulkhead.ErrUnauthorised)
	switch {
	case refused && unread != nil:
		return fmt.Errorf("%w; the administrator's token cannot be read as this user: %w", err, unread)
	case r.Server == "" && (refused || errors.Is(err, syscall.ECONNREFUSED)): // perhaps not the node that the user means
		return fmt.Errorf("%w; no node has a socket in %s, so %s was asked", err, own.data, c.Server)
	case refused && implied:
		return fmt.Errorf("%w; the one in %s was sent", err, own.token())
	}
	return err
}

// namesToken reports whether the user names a token.
func (r *Remote) namesToken() bool { return r.TokenFile != "" || os.Getenv("BULKHEAD_TOKEN") != "" }

// AsAnyone runs a command as [Remote.AsAdmin] does. If the node that --server names does not know the token of the data
// folder, it is another node, and the command is run again without a token.
func (r *Remote) AsAnyone(cmd *cobra.Command, run func(*admin.Client) error) error {
	err := r.AsAdmin(cmd, "", run)
	if !errors.Is(err, bulkhead.ErrUnauthorised) || r.Server == "" || r.namesToken() {
		return err
	}
	c, err := r.Client()
	if err != nil {
		return err
	}
	return run(c)
}

// Admin holds the flags that name a node and the source of its administrator's token.
type Admin struct {
	Remote
	Data string // data folder of the node; "" for the node of this machine
}

// Flags defines the flags.
func (u *Admin) Flags(f *pflag.FlagSet) {
	u.Remote.Flags(f)
	f.StringVar(&u.Data, "data", "",
		"data `FOLDER` of the node of this machine\n"+
			"(default: $STATE_DIRECTORY, else ./bulkhead-data, else the installed node's)")
}

// IsOwn reports whether the flags name the node of this machine.
func (u *Admin) IsOwn() bool {
	own := findNode(u.Data, "")
	return u.Server == "" || own.isAt(u.Server)
}

// Ask returns a command that runs with a client. The client's token comes from the flags, or else
// is the administrator's token of a node on this machine.
func (u *Admin) Ask(run func(cmd *cobra.Command, c *admin.Client,
	args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return u.AsAdmin(cmd, u.Data, func(c *admin.Client) error { return run(cmd, c, args) })
	}
}
