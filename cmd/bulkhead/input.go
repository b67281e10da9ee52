package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/mailbox"
)

// eachMessage calls fn for every message of the arguments: files, mailboxes,
// folders, "-" for standard input. An error is printed and the next message
// follows; the code of the first one is returned.
func eachMessage(cmd *cobra.Command, args []string, fn func(name string, raw []byte) error) error {
	ctx := cmd.Context()
	var first error
	fail := func(err error) {
		complain(cmd.ErrOrStderr(), err)
		if first == nil {
			first = cli.Code(codeOf(err))
		}
	}
	for _, arg := range args {
		found := false
		for m, err := range mailbox.Read(ctx, arg, mailbox.Options{Stdin: cmd.InOrStdin()}) {
			found = true
			if err != nil {
				fail(cli.InputError{Err: err})
				continue
			}
			name := m.Name()
			if name == "-" {
				name = "standard input"
			}
			if err := fn(name, m.Raw); err != nil {
				fail(fmt.Errorf("%s: %w", name, err))
			}
		}
		if !found {
			fail(cli.InputError{Err: fmt.Errorf("%s: no message in it", arg)})
		}
	}
	return first
}
