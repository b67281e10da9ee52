package mail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/abuse"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

func newAbuseCommand() *cobra.Command {
	var r command.Remote
	var spam, ham []string
	var every, keep time.Duration
	var once bool
	var clerk abuse.Clerk
	cmd := &cobra.Command{
		Use:   "abuse --maildir FOLDER --host NAME",
		Short: "Turn mail to an abuse mailbox into votes",
		Long: "Work through a Maildir to which users send what is spam: as an attachment, or forwarded in\n" +
			"the text. Each message is a vote of the user who sent the mail, as the site's own mail\n" +
			"server has verified: by an Authentication-Results field that begins with the name of\n" +
			"--host (auth=pass, or dkim=pass of a domain of --domain), or by Postfix's\n" +
			"smtpd_sasl_authenticated_header. Other mail is refused. Mail that was handled goes\n" +
			"into the folders Reported and Refused of the Maildir, so each is handled once.\n\n" +
			"With --once it ends after a pass, with the exit code of the first error, or 65 if a mail\n" +
			"of a user could not be used; else it ends by a signal, and waits while no node answers.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, dir := range spam {
				clerk.Boxes = append(clerk.Boxes, abuse.Box{Dir: dir, Vote: bulkhead.Spam})
			}
			for _, dir := range ham {
				clerk.Boxes = append(clerk.Boxes, abuse.Box{Dir: dir, Vote: bulkhead.Ham})
			}
			switch {
			case len(clerk.Boxes) == 0:
				return cli.Usagef("abuse needs --maildir or --ham")
			case clerk.Options.Host == "":
				return cli.Usagef("abuse needs --host: the name of the mail server whose word counts")
			case every <= 0:
				return cli.Usagef("--every %v is not above 0", every)
			}
			node, err := r.Client()
			if err != nil {
				return err
			}
			clerk.Keep = keep
			if keep == 0 {
				clerk.Keep = -1
			}
			clerk.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			clerk.Vote = func(ctx context.Context, vote bulkhead.Vote, user, id string, raw []byte) error {
				_, err := node.ReportMessage(ctx, raw, client.MessageOptions{Vote: vote, User: user, ID: id})
				return lasting(err)
			}
			if !once {
				ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
				defer stop()
				return watch(ctx, &clerk, every)
			}
			total, err := clerk.Pass(cmd.Context())
			if total.Lost > 0 {
				err = errors.Join(err, cli.DataError{Err: fmt.Errorf("%s of users could not be used: see the log and the folder %s",
					units.Plural(total.Lost, "mail"), abuse.Refused)})
			}
			if r.JSON {
				return errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(total))
			}
			_, werr := fmt.Fprintf(cmd.OutOrStdout(), "%d messages of %d mails reported, %d mails refused\n", total.Messages,
				total.Mails, total.Refused)
			return errors.Join(err, werr)
		},
	}
	r.Flags(cmd.Flags())
	cmd.Flags().StringSliceVar(&spam, "maildir", nil, "`FOLDER`, a Maildir, of mail that says: this is spam")
	cmd.Flags().StringSliceVar(&ham, "ham", nil, "`FOLDER`, a Maildir, of mail that says: this is not spam")
	cmd.Flags().StringVar(&clerk.Options.Host, "host", "",
		"`NAME` of the mail server, as in its Authentication-Results and Received fields")
	cmd.Flags().StringSliceVar(&clerk.Options.Domains, "domain", nil,
		"`DOMAIN` of users: their DKIM signatures also prove who they are")
	cmd.Flags().Int64Var(&clerk.MaxBytes, "max-bytes", abuse.DefaultMaxBytes, "largest mail, bytes")
	cmd.Flags().DurationVar(&every, "every", 10*time.Second, "time between two looks at the Maildirs")
	cmd.Flags().DurationVar(&keep, "keep", abuse.DefaultKeep, "how long mail that was handled is kept; 0: for ever")
	cmd.Flags().BoolVar(&once, "once", false, "look once")
	return cmd
}

// lasting marks an error of a vote that is caused by the message, so that a retry cannot succeed.
func lasting(err error) error {
	var p *client.Problem
	if errors.As(err, &p) && (p.Status == http.StatusBadRequest || p.Status == http.StatusRequestEntityTooLarge ||
		p.Status == http.StatusUnprocessableEntity) {
		return fmt.Errorf("%w: %w", abuse.ErrRefused, err)
	}
	return err
}

// watch makes passes until ctx ends. It logs an error when the error first occurs and when it
// changes. Errors end by themselves, or the administrator resolves them.
func watch(ctx context.Context, c *abuse.Clerk, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := ""
	for {
		_, err := c.Pass(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && err.Error() != last:
			c.Log.Error("mail stays where it is", "err", err)
			last = err.Error()
		case err == nil && last != "":
			c.Log.Info("mail is handled again")
			last = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
