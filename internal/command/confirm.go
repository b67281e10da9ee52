package command

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/consequence"
)

// Confirmation asks on the terminal before a change that is hard to undo.
type Confirmation struct {
	yes bool // --yes: the question is skipped
}

// Flag defines --yes.
func (c *Confirmation) Flag(f *pflag.FlagSet) {
	f.BoolVar(&c.yes, "yes", false, "do not ask")
}

// Ask prints the effect of a change on standard error and asks whether to make it. It returns an
// error unless the answer is yes.
func (c *Confirmation) Ask(cmd *cobra.Command, q consequence.Question) error {
	for _, fact := range q.Facts {
		if _, err := fmt.Fprintln(cmd.ErrOrStderr(), fact); err != nil {
			return err
		}
	}
	return c.Agree(cmd, bufio.NewReader(cmd.InOrStdin()), q.Title)
}

// Agree asks a question on standard error and reads the answer from in, which reads standard input.
// It returns an error unless the answer is yes. It asks only on a terminal, because other input may
// be meant for something else.
func (c *Confirmation) Agree(cmd *cobra.Command, in *bufio.Reader, question string) error {
	if c.yes {
		return nil
	}
	if !cli.IsTerminal(cmd.InOrStdin()) {
		return cli.Usagef(
			"nothing was changed: standard input is not a terminal to ask on; use --yes to go on without asking")
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, err := in.ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	if err == io.EOF { // no line feed was typed
		fmt.Fprintln(cmd.ErrOrStderr())
	}
	if !IsYes(answer) {
		return cli.Usagef("nothing was changed; use --yes to go on without asking")
	}
	return nil
}

// IsYes reports whether an answer is y or yes.
func IsYes(answer string) bool {
	a := strings.ToLower(strings.TrimSpace(answer))
	return a == "y" || a == "yes"
}
