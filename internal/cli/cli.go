// Package cli is what the command lines of this project's programs have in common: exit
// codes, usage errors, and how errors are printed.
package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
)

// A Code is an exit code, and an error that says nothing else.
type Code int

// The exit codes. Those from 64 on are sysexits.h's.
const (
	OK               = 0
	Unwanted    Code = 1 // check: spam; a list: found
	Bulk        Code = 2 // check: bulk, and no spam
	Usage       Code = 64
	Data        Code = 65 // a message or file is not what it should be
	NoInput     Code = 66 // a file cannot be read
	Unavailable Code = 69 // no node answers
	Software    Code = 70 // a fault of the program or the node
	Temporary   Code = 75 // trying again later may succeed
	NoPerm      Code = 77
	Config      Code = 78
)

// Error implements error.
func (c Code) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// A UsageError is a mistake on the command line.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e UsageError) Unwrap() error { return e.Err }

// A DataError is a file or entry that is not what it should be.
type DataError struct{ Err error }

// Error implements error.
func (e DataError) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e DataError) Unwrap() error { return e.Err }

// An InputError is a message that cannot be read from where it is stored.
type InputError struct{ Err error }

// Error implements error.
func (e InputError) Error() string { return strings.TrimPrefix(e.Err.Error(), "mailbox: ") }

// Unwrap returns the error inside.
func (e InputError) Unwrap() error { return e.Err }

// Usagef returns a [UsageError].
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Args turns cobra's errors about arguments into usage errors.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return UsageError{err}
		}
		return nil
	}
}

// CodeOf returns the exit code for an error of this package, for one that says that a file is
// missing or may not be read, and for nil. For any other it returns [Software] and false.
func CodeOf(err error) (Code, bool) {
	var code Code
	var wrong UsageError
	var data DataError
	var input InputError
	switch {
	case err == nil:
		return OK, true
	case errors.As(err, &code):
		return code, true
	case errors.As(err, &wrong) || strings.HasPrefix(err.Error(), "unknown command"):
		return Usage, true
	case errors.As(err, &data):
		return Data, true
	case errors.As(err, &input), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return NoInput, true
	}
	return Software, false
}

// Complain prints an error of a program, each line of a joined error by itself, and after it
// the hint, if there is one. It does not print a bare [Code]: whoever returned it has
// explained it.
func Complain(w io.Writer, program string, err error, hint string) {
	var code Code
	if errors.As(err, &code) && err == error(code) {
		return
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "%s: %s\n", program, strings.TrimSuffix(line, "\n"))
	}
	if hint != "" {
		fmt.Fprintf(w, "%s: hint: %s\n", program, hint)
	}
}
