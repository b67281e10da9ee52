// Package cli has the common parts of the command lines of this project's programs: exit codes,
// usage errors, and the form in which errors are printed.
package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// A Code is an exit code. As an error it has no other information.
type Code int

// The exit codes. Codes from 64 on are from sysexits.h.
const (
	OK               = 0
	Unwanted    Code = 1 // check: spam; a list: found
	Bulk        Code = 2 // check: bulk, and no spam
	Usage       Code = 64
	Data        Code = 65 // a message or file has wrong contents
	NoInput     Code = 66 // a file cannot be read
	Unavailable Code = 69 // no node answers
	Software    Code = 70 // an internal error of the program or the node
	Temporary   Code = 75 // trying again later may succeed
	NoPerm      Code = 77
	Config      Code = 78
)

// Error implements error.
func (c Code) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// A UsageError is the error of a wrong command line.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e UsageError) Unwrap() error { return e.Err }

// A DataError is the error of a file or entry with wrong contents.
type DataError struct{ Err error }

// Error implements error.
func (e DataError) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e DataError) Unwrap() error { return e.Err }

// An InputError is the error of a message that cannot be read from its storage.
type InputError struct{ Err error }

// Error implements error.
func (e InputError) Error() string { return strings.TrimPrefix(e.Err.Error(), "mailbox: ") }

// Unwrap returns the error inside.
func (e InputError) Unwrap() error { return e.Err }

// Usagef returns a [UsageError].
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Args turns cobra's errors about arguments into usage errors. An error about their number names the arguments that
// the command takes, in the words of its usage.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		_, wanted, _ := strings.Cut(cmd.Use, " ")
		text := err.Error()
		if wanted == "" || !strings.HasPrefix(text, "accepts ") && !strings.HasPrefix(text, "requires ") {
			return UsageError{err}
		}
		given := "nothing"
		if len(args) > 0 {
			given = fmt.Sprintf("%q", args)
		}
		return Usagef("%s takes %s, and was given %s", cmd.CommandPath(), wanted, given)
	}
}

// CodeOf returns the exit code for an error of this package, for an error that a file is missing, is a
// folder or may not be read, and for nil. For any other error it returns [Software] and false.
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
	case errors.As(err, &input), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission),
		errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		return NoInput, true
	}
	return Software, false
}

// Complain prints an error of a program, with each line of a joined error on its own, followed by
// the hint, if there is one. It does not print a bare [Code], because the function that returned it
// has explained it.
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
