package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
)

// JSONFlag defines --json.
func JSONFlag(f *pflag.FlagSet, to *bool) {
	f.BoolVar(to, "json", false, "print JSON, one value a line")
}

// PrintJSON prints values, one per line.
func PrintJSON[T any](w io.Writer, values []T) error {
	enc := json.NewEncoder(w)
	for i := range values {
		if err := enc.Encode(&values[i]); err != nil {
			return err
		}
	}
	return nil
}

// PrintTable prints values as JSON, one per line, or as a table with the given heading. row writes the
// lines of one value. Columns are separated by tabs.
func PrintTable[T any](w io.Writer, asJSON bool, values []T, heading string, row func(w io.Writer, x *T)) error {
	if asJSON {
		return PrintJSON(w, values)
	}
	t := NewTable(w)
	fmt.Fprintln(t, heading)
	for i := range values {
		row(t, &values[i])
	}
	return t.Flush()
}

// NewTable returns a writer that aligns the columns, separated by tabs, of the lines written to it.
// Flush prints the lines.
func NewTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// NewList returns a command without arguments that prints the values that fetch returns.
func NewList[T any](u *Admin, use, short string, fetch func(*admin.Client, context.Context) ([]T, error),
	print func(io.Writer, []T) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cli.Args(cobra.NoArgs),
		RunE: u.Ask(func(cmd *cobra.Command, c *admin.Client, _ []string) error {
			values, err := fetch(c, cmd.Context())
			if err != nil {
				return err
			}
			return print(cmd.OutOrStdout(), values)
		}),
	}
}
