package list

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

func newFilterCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "filter", Short: "Inspect filter files", Args: cli.Args(cobra.NoArgs),
		RunE: command.NeedCommand}
	var asJSON bool
	var keyFile string
	info := &cobra.Command{
		Use:   "info FILE...",
		Short: "Read filter files whole and print their kind, shape, fill and expected errors",
		Args:  cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			known, err := knownSecrets(keyFile)
			if err != nil {
				return err
			}
			var first error
			for _, path := range args {
				rows, err := filterInfo(path, known)
				if err != nil {
					err = fmt.Errorf("%s: %w", path, err)
					command.Complain(cmd, err)
					if first == nil {
						first = cli.Code(command.CodeOf(err))
					}
					continue
				}
				if err := printRows(cmd.OutOrStdout(), path, rows, asJSON); err != nil {
					return err
				}
			}
			return first
		},
	}
	info.Flags().BoolVar(&asJSON, "json", false, "print JSON, one value a line")
	info.Flags().StringVar(&keyFile, "key", "",
		"`FILE` with the key of keyed filters, such as network.key in a data folder")
	cmd.AddCommand(info)
	return cmd
}

func knownSecrets(path string) ([]filter.Secret, error) {
	if path == "" {
		return nil, nil
	}
	var s filter.Secret
	if err := node.ReadKey(path, s[:]); err != nil {
		return nil, err
	}
	return []filter.Secret{s}, nil
}

// A row is one property of a filter, as it is printed.
type row struct {
	name  string
	value any
}

// filterInfo reads a whole filter file, so that it notices damage anywhere.
func filterInfo(path string, known []filter.Secret) ([]row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: not a regular file", bulkhead.ErrMalformed)
	}
	r := bufio.NewReaderSize(f, 1<<20)
	head, err := r.Peek(6)
	if err != nil {
		return nil, fmt.Errorf("%w: %d bytes are not a filter", bulkhead.ErrMalformed, info.Size())
	}
	// In memory a filter takes at most the size of its file and of its tables.
	rows, err := decodeFilter(r, head, 2*info.Size()+1<<20, known)
	if errors.Is(err, filter.ErrCorrupt) || errors.Is(err, filter.ErrTooLarge) || errors.Is(err, filter.ErrGeometry) {
		err = fmt.Errorf("%w: %w", bulkhead.ErrMalformed, err)
	}
	if err == nil {
		if n, _ := io.Copy(io.Discard, r); n > 0 {
			return nil, fmt.Errorf("%w: %d bytes after the end of the filter", bulkhead.ErrMalformed, n)
		}
	}
	return rows, err
}

func decodeFilter(r io.Reader, head []byte, limit int64, known []filter.Secret) ([]row, error) {
	switch magic := string(head[:4]); {
	case magic == "bkhA" && filter.Kind(head[5]) == filter.Cells:
		c, err := filter.DecodeCounting(r, limit)
		if err != nil {
			return nil, err
		}
		s := c.Stats()
		return append(arrayRows("counting array", c.Geometry(), c.Generation(), s),
			row{"cells in overflow tables", s.Overflow}, row{"count wrong", s.CountWrong},
			row{"bulk decision wrong", s.BulkWrong}), nil
	case magic == "bkhA":
		b, err := filter.DecodeBits(r, limit)
		if err != nil {
			return nil, err
		}
		return arrayRows("bit array", b.Geometry(), b.Generation(), b.Stats()), nil
	case magic == "BHPF" && head[5] == 2:
		t, err := filter.DecodeTwoPart(r, limit, known...)
		if err != nil {
			return nil, err
		}
		one, two := t.Fill()
		s := t.Shape()
		return []row{{"kind", "two-part filter"}, {"bits", fmt.Sprintf("%d + %d", s.M1, s.M2)},
			{"hashes", fmt.Sprintf("%d + %d", s.K, s.D)},
			{"eigenvalue", s.Eigen.String()}, {"elements", t.Count()}, {"fill", one}, {"fill of section two", two},
			{"error", t.ErrorRate()}}, nil
	case filter.IsFuse(head):
		f, err := filter.DecodeFuse(r, limit, known...)
		if err != nil {
			return nil, err
		}
		return []row{{"kind", "binary fuse filter"}, {"bits of a fingerprint", f.Width()}, {"bytes", f.Bytes()},
			{"elements", f.Count()}, {"error", f.ErrorRate()}}, nil
	case filter.IsStringBits(head):
		b, err := filter.DecodeStringBits(r, limit, known...)
		if err != nil {
			return nil, err
		}
		return []row{{"kind", "bit array of strings"}, {"geometry", b.Geometry().String()}, {"bytes", b.Bytes()},
			{"elements, about", b.Count()}, {"error", b.ErrorRate()}}, nil
	case magic == "BHCF":
		return nil, fmt.Errorf("%w: a node's snapshot file; ask the node at /v1/node", bulkhead.ErrMalformed)
	}
	return nil, fmt.Errorf("%w: no known filter format begins with %q", bulkhead.ErrMalformed, head)
}

func arrayRows(kind string, g filter.Geometry, generation uint64, s filter.Stats) []row {
	return []row{
		{"kind", kind}, {"geometry", g.String()}, {"generation", generation}, {"bytes", s.Bytes}, {"keys", s.Keys},
		{"keys, by fill", uint64(s.Effective + 0.5)}, {"fill", s.Fill}, {"unseen key shows", s.Ghost},
	}
}

func printRows(w io.Writer, path string, rows []row, asJSON bool) error {
	if asJSON {
		out := map[string]any{"file": path}
		for _, r := range rows {
			out[r.name] = r.value
		}
		return json.NewEncoder(w).Encode(out)
	}
	fmt.Fprintf(w, "%s\n", path)
	t := command.NewTable(w)
	for _, r := range rows {
		switch v := r.value.(type) {
		case float64:
			fmt.Fprintf(t, "    %s\t%.3g\n", r.name, v)
		default:
			fmt.Fprintf(t, "    %s\t%v\n", r.name, v)
		}
	}
	return t.Flush()
}
