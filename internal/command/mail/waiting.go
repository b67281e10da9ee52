package mail

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/units"
	"github.com/bulkhead-mail/bulkhead/internal/waiting"
)

// A voter casts votes, and keeps those that the node does not take.
type voter struct {
	remote *command.Remote
	node   *admin.Client
	away   error // why the node takes no votes; nil while it does
}

// A keptError is the error of a vote that waits on disk.
type keptError struct{ err error }

// Error implements error.
func (e keptError) Error() string { return "the vote waits until a node takes it: " + e.err.Error() }

// Unwrap returns the exit code, and why the vote waits.
func (e keptError) Unwrap() []error { return []error{cli.Temporary, e.err} }

// cast sends a vote on a message, or on the message with a Message-ID. After a failure that passes, it
// keeps this vote and every later one, so that they stay in order.
func (v *voter) cast(ctx context.Context, raw []byte, messageID string,
	o client.MessageOptions) (*client.Receipt, error) {
	if o.ID == "" {
		o.ID = rand.Text() // a vote that arrives twice counts once
	}
	err := v.away
	if err == nil {
		var receipt *client.Receipt
		if receipt, err = report(ctx, v.node, raw, messageID, o); err == nil || !passes(err) {
			return receipt, err
		}
		v.away = err
	}
	w := &waiting.Vote{ID: o.ID, Time: time.Now().UTC(), Vote: o.Vote.String(), User: o.User, Server: v.remote.Server,
		MessageID: messageID, TokenFile: v.remote.TokenFile, TokenEnv: hasToken() && v.remote.TokenFile == "",
		Count: o.Count, Sender: o.Source.Sender, ListID: o.Source.ListID, DKIM: o.Source.DKIM, Raw: raw}
	if o.Source.Client.IsValid() {
		w.Client = o.Source.Client.String()
	}
	folder, kept := waiting.Make()
	if kept == nil {
		kept = folder.Keep(w)
	}
	if kept != nil {
		return nil, fmt.Errorf("%w; the vote is lost: %w", err, kept)
	}
	return nil, keptError{err}
}

func hasToken() bool { return os.Getenv("BULKHEAD_TOKEN") != "" }

func report(ctx context.Context, c *admin.Client, raw []byte, messageID string,
	o client.MessageOptions) (*client.Receipt, error) {
	if messageID != "" {
		return c.ReportMessageID(ctx, client.MessageVote{MessageID: messageID, Vote: o.Vote.String(), User: o.User, ID: o.ID})
	}
	return c.ReportMessage(ctx, raw, o)
}

// passes reports whether the same vote may succeed later: unless the node refused it, or it cannot be
// sent. A proxy or another program in the place of the node refuses nothing.
func passes(err error) bool {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Status >= 500 || p.Status == http.StatusTooManyRequests || p.Status == http.StatusRequestTimeout
	}
	return !errors.Is(err, bulkhead.ErrMalformed)
}

// sendWaiting sends the votes of this user that wait. If the node takes none, later votes wait behind
// them.
func (v *voter) sendWaiting(cmd *cobra.Command) {
	s := sender{cmd: cmd, timeout: v.remote.Timeout, away: make(map[string]error)}
	for _, folder := range waiting.Owned() {
		if err := s.send(folder); err != nil {
			command.Complain(cmd, err)
		}
	}
	v.away = s.away[v.remote.Server]
}

// A sender sends waiting votes, each to its node.
type sender struct {
	cmd     *cobra.Command
	timeout time.Duration
	away    map[string]error // nodes that take no votes, by URL
	later   error            // why the last votes that wait do so
}

// send sends the votes of a folder of this process's user. It returns no error if votes have to wait.
func (s *sender) send(folder waiting.Folder) error {
	_, err := folder.Send(s.one, func(name string, err error) {
		command.Complain(s.cmd, fmt.Errorf("%s: the vote is dropped: %w", name, err))
	})
	if errors.Is(err, waiting.ErrLater) {
		s.later = err
		return nil
	}
	return err
}

func (s *sender) one(w *waiting.Vote) error {
	if err := s.away[w.Server]; err != nil {
		return fmt.Errorf("%w: %w", waiting.ErrLater, err)
	}
	if w.TokenEnv && !hasToken() {
		return fmt.Errorf("%w: it needs $BULKHEAD_TOKEN", waiting.ErrLater)
	}
	o := client.MessageOptions{Count: w.Count, User: w.User, ID: w.ID,
		Source: bulkhead.Source{Sender: w.Sender, ListID: w.ListID, DKIM: w.DKIM}}
	var err error
	if o.Vote, err = bulkhead.ParseVote(w.Vote); err != nil {
		return err
	}
	if w.Client != "" {
		if o.Source.Client, err = netip.ParseAddr(w.Client); err != nil {
			return fmt.Errorf("client %.40q is not an address", w.Client)
		}
	}
	r := command.Remote{Server: w.Server, TokenFile: w.TokenFile, Timeout: s.timeout}
	c, err := r.Client()
	if err != nil {
		return fmt.Errorf("%w: %w", waiting.ErrLater, err)
	}
	if _, err = report(s.cmd.Context(), c, w.Raw, w.MessageID, o); err != nil && passes(err) {
		s.away[w.Server] = err
		return fmt.Errorf("%w: %w", waiting.ErrLater, err)
	}
	return err
}

// A crowd is what waits in the folder of one user, as --json prints it.
type crowd struct {
	User   string `json:"user"`
	Folder string `json:"folder"`
	waiting.State
}

func newWaitingCommand() *cobra.Command {
	var send, asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "waiting",
		Short: "Show the votes that no node has taken yet, or send them",
		Long: "Show how many votes wait because no node took them: votes of this user, and as root of\n" +
			"every user. With --send, send them in their order. Votes that a node refuses for good\n" +
			"are dropped, and named. The exit code is 75 if votes still wait.\n\n" +
			"A service of the packages sends them every five minutes, as the users who cast them. A\n" +
			"later vote of the same user also sends them.\n\n" +
			"A vote waits for the node for which it was cast, without a limit of time. If that node\n" +
			"is gone for good, remove the vote's file in the folder that is printed.",
		Example: "  bulkhead waiting\n  bulkhead waiting --send",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			folders, err := readable(send)
			if err != nil {
				return err
			}
			if send {
				s := &sender{cmd: cmd, timeout: timeout, away: make(map[string]error)}
				s.sendAll(folders)
				if s.later != nil {
					command.Complain(cmd, s.later)
				}
			}
			states := []crowd{}
			for _, f := range folders {
				state, err := f.State()
				if err != nil {
					return err
				}
				if state.Votes > 0 {
					states = append(states, crowd{nameOf(f.UID), f.Path, state})
				}
			}
			if err := printWaiting(cmd, states, asJSON); err != nil {
				return err
			}
			if send && len(states) > 0 {
				return cli.Temporary
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&send, "send", false, "send the votes")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "longest time that one request may take")
	command.JSONFlag(cmd.Flags(), &asJSON)
	return cmd
}

// readable returns the folders of this user, and as root of every user. Before root sends, it makes the
// folder that all users share, so that the next vote that finds no node can wait.
func readable(send bool) ([]waiting.Folder, error) {
	folders := waiting.Owned()
	if os.Geteuid() != 0 {
		return folders, nil
	}
	if send {
		if err := waiting.MakeShared(); err != nil {
			return nil, err
		}
	}
	for _, f := range waiting.Folders() {
		if !slices.Contains(folders, f) {
			folders = append(folders, f)
		}
	}
	return folders, nil
}

// sendAll sends the votes of folders, each as the owner of the folder, so that the node sees the user who
// cast them.
func (s *sender) sendAll(folders []waiting.Folder) {
	done := make(map[int]bool) // other users
	for _, f := range folders {
		var err error
		switch {
		case f.UID == os.Geteuid():
			err = s.send(f)
		case !done[f.UID]:
			done[f.UID] = true
			err = s.sendAs(f.UID)
		}
		if err != nil {
			command.Complain(s.cmd, err)
		}
	}
}

// sendAs runs this program as another user, who sends the votes of all folders of their own.
func (s *sender) sendAs(uid int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	group := uid
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		if n, err := strconv.Atoi(u.Gid); err == nil {
			group = n
		}
	}
	run := exec.CommandContext(s.cmd.Context(), self, "waiting", "--send", "--timeout", s.timeout.String())
	run.Dir, run.Stderr = "/", s.cmd.ErrOrStderr()
	run.Env = []string{"PATH=/usr/bin:/bin", "BULKHEAD_WAITING=" + waiting.Shared}
	run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(group)}}
	var ended *exec.ExitError
	if err := run.Run(); err != nil && !(errors.As(err, &ended) && ended.ExitCode() == int(cli.Temporary)) {
		return fmt.Errorf("votes of user %s: %w", nameOf(uid), err)
	}
	return nil
}

func nameOf(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

func printWaiting(cmd *cobra.Command, states []crowd, asJSON bool) error {
	w := cmd.OutOrStdout()
	if asJSON {
		return command.PrintJSON(w, states)
	}
	if len(states) == 0 {
		_, err := fmt.Fprintln(w, "no vote waits")
		return err
	}
	for _, s := range states {
		if _, err := fmt.Fprintf(w, "%s: %s, the oldest since %s, in %s\n", s.User, units.Plural(s.Votes, "vote"),
			s.Oldest.Format(time.DateTime), s.Folder); err != nil {
			return err
		}
	}
	return nil
}
