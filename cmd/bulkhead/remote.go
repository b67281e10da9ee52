package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
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

// defaultServer is the URL of a node with the default configuration.
const defaultServer = "http://127.0.0.1:8420"

// remote holds the flags that name a node and the way to reach it.
type remote struct {
	server, tokenFile string
	timeout           time.Duration
	json              bool
}

func (r *remote) flags(f *pflag.FlagSet) {
	f.StringVar(&r.server, "server", defaultServer, "`URL` of the node")
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` with the bearer token (default: $BULKHEAD_TOKEN, else no token)")
	f.DurationVar(&r.timeout, "timeout", time.Minute, "longest time that one request may take")
	jsonFlag(f, &r.json)
}

// client returns a client with the token of --token-file, or else of the environment.
func (r *remote) client() (*admin.Client, error) {
	u, err := url.Parse(r.server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cli.Usagef("--server %q is not a URL like %s", r.server, defaultServer)
	}
	c := &admin.Client{Client: client.Client{Server: r.server, HTTP: &http.Client{Timeout: r.timeout}}}
	switch {
	case r.tokenFile != "":
		c.Token, err = node.ReadSecret(r.tokenFile)
	case os.Getenv("BULKHEAD_TOKEN") != "":
		c.Token = strings.TrimSpace(os.Getenv("BULKHEAD_TOKEN"))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// admin runs a command with a client. If no token is named, the client has the administrator's
// token of this machine's node, and without --server it asks that node. The token of the installed
// node is never sent to another machine.
func (r *remote) admin(cmd *cobra.Command, data string, run func(*admin.Client) error) error {
	own := findNode(data, "")
	chosen := cmd.Flags().Changed("server")
	if !chosen && own.server != "" {
		r.server = own.server
	}
	c, err := r.client()
	if err != nil {
		return err
	}
	var unread error
	if c.Token == "" && (!own.installed || !chosen || own.isAt(r.server)) {
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

// adminFlags name a node and the source of its administrator's token.
type adminFlags struct {
	remote
	data string
}

func (u *adminFlags) flags(f *pflag.FlagSet) {
	u.remote.flags(f)
	f.StringVar(&u.data, "data", "",
		"data `FOLDER` of the node, for the administrator's token\n(default: $STATE_DIRECTORY, else ./bulkhead-data, else the installed node's)")
}

// ask returns a command that runs with a client. The client's token comes from the flags, or else
// is the administrator's token of a node on this machine.
func (u *adminFlags) ask(run func(cmd *cobra.Command, c *admin.Client,
	args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return u.admin(cmd, u.data, func(c *admin.Client) error { return run(cmd, c, args) })
	}
}

// jsonFlag defines --json.
func jsonFlag(f *pflag.FlagSet, to *bool) {
	f.BoolVar(to, "json", false, "print JSON, one value a line")
}

// printJSON prints the values of a slice, one per line. It is not generic, because each type of
// values would add another copy of it to the program.
func printJSON(w io.Writer, values any) error {
	enc := json.NewEncoder(w)
	all := reflect.ValueOf(values)
	for i := range all.Len() {
		if err := enc.Encode(all.Index(i).Addr().Interface()); err != nil {
			return err
		}
	}
	return nil
}

// source holds the flags that give the origin of messages.
type source struct {
	sender, client, listID string
	dkim                   []string
}

func (s *source) flags(f *pflag.FlagSet) {
	f.StringVar(&s.sender, "sender", "", "sender of the messages, verified by SPF for example")
	f.StringVar(&s.client, "client", "", "address of the SMTP client that delivered the messages")
	f.StringVar(&s.listID, "list-id", "", "mailing list that the messages come from, verified likewise")
	f.StringSliceVar(&s.dkim, "dkim", nil, "domains whose DKIM signatures were verified")
}

func (s *source) root() (bulkhead.Source, error) {
	out := bulkhead.Source{Sender: s.sender, ListID: s.listID, DKIM: s.dkim}
	if s.client != "" {
		var err error
		if out.Client, err = netip.ParseAddr(s.client); err != nil {
			return out, cli.Usagef("--client %q is not an address", s.client)
		}
	}
	return out, nil
}

// needMessages rejects a command line without messages.
func needMessages(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.Usagef("%s needs a message: a file, or - for standard input", cmd.CommandPath())
	}
	return nil
}
