package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// maxMessage is the longest message that is read, bytes.
const maxMessage = 64 << 20

// eachMessage calls fn for every message of the arguments: files, "-" for
// standard input. It goes on after an error, and returns the first one.
func eachMessage(cmd *cobra.Command, args []string, fn func(name string, raw []byte) error) error {
	var first error
	for _, arg := range args {
		raw, err := readFile(cmd, arg)
		if err == nil {
			err = fn(arg, raw)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", arg, err)
			complain(cmd.ErrOrStderr(), err)
			if first == nil {
				first = exitCode(codeOf(err))
			}
		}
	}
	return first
}

func readFile(cmd *cobra.Command, name string) ([]byte, error) {
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, maxMessage+1))
}
