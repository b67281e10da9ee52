package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

// DefaultServer is the URL of a node with the default configuration.
const DefaultServer = "http://127.0.0.1:8420"

// Remote holds the flags that name a node and the way to reach it.
type Remote struct {
	Server    string // URL
	TokenFile string // "" for the environment's token, or none
	Timeout   time.Duration
	JSON      bool // print JSON
}

// Flags defines the flags.
func (r *Remote) Flags(f *pflag.FlagSet) {
	f.StringVar(&r.Server, "server", DefaultServer, "`URL` of the node")
	f.StringVar(&r.TokenFile, "token-file", "", "`FILE` with the bearer token (default: $BULKHEAD_TOKEN, else no token)")
	f.DurationVar(&r.Timeout, "timeout", time.Minute, "longest time that one request may take")
	JSONFlag(f, &r.JSON)
}

// Client returns a client with the token of --token-file, or else of the environment.
func (r *Remote) Client() (*admin.Client, error) {
	u, err := url.Parse(r.Server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cli.Usagef("--server %q is not a URL like %s", r.Server, DefaultServer)
	}
	c := &admin.Client{Client: client.Client{Server: r.Server, HTTP: &http.Client{Timeout: r.Timeout}}}
	switch {
	case r.TokenFile != "":
		c.Token, err = node.ReadSecret(r.TokenFile)
	case os.Getenv("BULKHEAD_TOKEN") != "":
		c.Token = strings.TrimSpace(os.Getenv("BULKHEAD_TOKEN"))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AsAdmin runs a command with a client. If no token is named, the client has the administrator's
// token of this machine's node, and without --server it asks that node. The token of the installed
// node is never sent to another machine.
func (r *Remote) AsAdmin(cmd *cobra.Command, data string, run func(*admin.Client) error) error {
	own := findNode(data, "")
	chosen := cmd.Flags().Changed("server")
	if !chosen && own.server != "" {
		r.Server = own.server
	}
	c, err := r.Client()
	if err != nil {
		return err
	}
	var unread error
	if c.Token == "" && (!own.installed || !chosen || own.isAt(r.Server)) {
		c.Token, unread = node.ReadSecret(own.token())
		switch {
		case errors.Is(unread, fs.ErrNotExist):
			unread = nil // the node will answer that a token is needed
		case unread != nil && !(own.installed && errors.Is(unread, fs.ErrPermission)):
			return unread
		}
	}
	err = run(c)
	if unread != nil && errors.Is(err, bulkhead.ErrUnauthorised) {
		return fmt.Errorf("%w; the administrator's token cannot be read as this user: %w", err, unread)
	}
	return err
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
		"data `FOLDER` of the node, for the administrator's token\n"+
			"(default: $STATE_DIRECTORY, else ./bulkhead-data, else the installed node's)")
}

// Ask returns a command that runs with a client. The client's token comes from the flags, or else
// is the administrator's token of a node on this machine.
func (u *Admin) Ask(run func(cmd *cobra.Command, c *admin.Client,
	args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return u.AsAdmin(cmd, u.Data, func(c *admin.Client) error { return run(cmd, c, args) })
	}
}

// JSONFlag defines --json.
func JSONFlag(f *pflag.FlagSet, to *bool) {
	f.BoolVar(to, "json", false, "print JSON, one value a line")
}

// PrintJSON prints the values of a slice, one per line. It is not generic, because each type of
// values would add another copy of it to the program.
func PrintJSON(w io.Writer, values any) error {
	enc := json.NewEncoder(w)
	all := reflect.ValueOf(values)
	for i := range all.Len() {
		if err := enc.Encode(all.Index(i).Addr().Interface()); err != nil {
			return err
		}
	}
	return nil
}
