// Package shard holds the commands on the map of a site whose mailboxes are divided among several nodes.
package shard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/shard/bucket"
)

// Commands returns the commands of this package.
func Commands() []*cobra.Command {
	cmd := &cobra.Command{
		Use:   "shard",
		Short: "Divide the mailboxes of a site among several nodes",
		Long: "Divide the mailboxes of a site among several nodes. The map of the shards is in a bucket of\n" +
			"NATS servers with JetStream, and the edges of the site follow it. These commands find the\n" +
			"servers in [shards] of the configuration of an edge, or by --nats. They need no node.",
		Args: cli.Args(cobra.NoArgs),
		RunE: command.NeedCommand,
	}
	cmd.AddCommand(newShowCommand(), newAddCommand(), newSetCommand(), newMoveCommand(), newDrainCommand(),
		newRemoveCommand(), newDefaultCommand(), newHistoryCommand(), newRestoreCommand())
	return []*cobra.Command{cmd}
}

// place says where the map is.
type place struct {
	config, credentials, ca, site string
	servers                       []string
	timeout                       time.Duration
	json                          bool
}

func (p *place) flags(f *pflag.FlagSet) {
	f.StringVar(&p.config, "config", "", "configuration `FILE` of an edge (default: the installed node's)")
	f.StringSliceVar(&p.servers, "nats", nil, "`URL` of a NATS server, in place of the servers in the configuration")
	f.StringVar(&p.credentials, "credentials", "",
		"`FILE` with an administrator's user JWT and key, in place of the edge's")
	f.StringVar(&p.ca, "ca", "", "PEM `FILE` of the authorities for the servers' certificates")
	f.StringVar(&p.site, "site", "", "name of the site (default: the configuration's, else \"main\")")
	f.DurationVar(&p.timeout, "timeout", 10*time.Second, "longest time that one request may take")
	command.JSONFlag(f, &p.json)
}

// open connects to the servers. The caller closes the bucket.
func (p *place) open() (*bucket.Bucket, error) {
	set := config.Default().Shards
	if path := p.file(); path != "" {
		cfg, err := config.Load(path)
		if err != nil {
			return nil, err
		}
		set = cfg.Shards
	}
	if len(p.servers) > 0 {
		set.Servers = p.servers
	}
	for _, given := range []struct {
		value string
		to    *string
	}{{p.credentials, &set.Credentials}, {p.ca, &set.CA}, {p.site, &set.Site}} {
		if given.value != "" {
			*given.to = given.value
		}
	}
	if len(set.Servers) == 0 {
		return nil, &config.Error{Key: "shards.servers",
			Detail: "none: name the configuration of an edge with --config, or a NATS server with --nats"}
	}
	return bucket.Open(bucket.Options{Servers: set.Servers, Site: set.Site, Wait: p.timeout,
		Access: natsdial.Access{Credentials: set.Credentials, CA: set.CA}})
}

// file returns the configuration to read, "" for none.
func (p *place) file() string {
	if p.config != "" || len(p.servers) > 0 {
		return p.config
	}
	if _, err := os.Stat(command.InstalledConfig); err != nil {
		return ""
	}
	return command.InstalledConfig
}

// with runs a function with the bucket.
func (p *place) with(cmd *cobra.Command, run func(context.Context, *bucket.Bucket) error) error {
	b, err := p.open()
	if err != nil {
		return err
	}
	defer b.Close()
	return away(run(cmd.Context(), b))
}

// request runs a function with the time of one request.
func (p *place) request(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return run(ctx)
}

// get reads the map.
func (p *place) get(ctx context.Context, b *bucket.Bucket) (m *shard.Map, revision uint64, err error) {
	err = p.request(ctx, func(ctx context.Context) (err error) {
		m, revision, err = b.Get(ctx)
		return err
	})
	return m, revision, err
}

// An unanswered error is one of servers that did not answer.
type unanswered struct{ error }

// Unwrap implements the exit code.
func (u unanswered) Unwrap() []error { return []error{u.error, cli.Unavailable} }

// away returns an error with its exit code.
func away(err error) error {
	var wrong cli.UsageError
	var code cli.Code
	switch {
	case err == nil, errors.As(err, &wrong), errors.As(err, &code):
		return err
	case errors.Is(err, shard.ErrRefused), errors.Is(err, bucket.ErrNone):
		return cli.UsageError{Err: err}
	case strings.Contains(err.Error(), "nats:"), errors.Is(err, context.DeadlineExceeded):
		return unanswered{fmt.Errorf("the servers of the map do not answer: %w", err)}
	}
	return err
}

// maxTries is how often a change is made anew, because another administrator was faster.
const maxTries = 20

// A change changes a map.
type change struct {
	what    string // in words
	make    func(m *shard.Map, note shard.Note) (*shard.Map, error)
	first   func(note shard.Note) (*shard.Map, error) // makes the map if there is none; nil: there must be one
	mends   bool                                      // first also replaces a map that is not valid
	ask     func(before, after *shard.Map) consequence.Question
	confirm *command.Confirmation // nil: the change is not asked
}

// change makes a change, and prints the map. If another administrator was faster, it makes the change anew from their
// map, and asks again.
func (p *place) change(cmd *cobra.Command, c change) error {
	return p.with(cmd, func(ctx context.Context, b *bucket.Bucket) error {
		for range maxTries {
			before, revision, err := p.get(ctx, b)
			none := errors.Is(err, bucket.ErrNone) || c.mends && errors.Is(err, bulkhead.ErrMalformed)
			if err != nil && (!none || c.first == nil) {
				return err
			}
			note := shard.Note{At: time.Now(), By: author(), What: c.what}
			var after *shard.Map
			if before == nil {
				after, err = c.first(note)
			} else {
				after, err = c.make(before, note)
			}
			if err != nil {
				return err
			}
			if c.confirm != nil {
				if err := c.confirm.Ask(cmd, c.ask(before, after)); err != nil {
					return err
				}
			}
			err = p.request(ctx, func(ctx context.Context) error { return b.Put(ctx, after, revision) })
			if errors.Is(err, bucket.ErrChanged) {
				fmt.Fprintln(cmd.ErrOrStderr(), "another administrator has changed the map: the change is made anew from that map")
				continue
			}
			if err != nil {
				return err
			}
			return p.print(cmd, after)
		}
		return unanswered{bucket.ErrChanged}
	})
}

// author returns who runs the command, as the note of a change has it.
func author() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	text := strings.ToValidUTF8(cli.Visible(name+"@"+host), "?")
	return text[:min(len(text), 200)]
}
