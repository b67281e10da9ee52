package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

func TestCodeOf(t *testing.T) {
	for _, tt := range []struct {
		err   error
		want  Code
		known bool
	}{
		{nil, OK, true},
		{Unwanted, Unwanted, true},
		{fmt.Errorf("stopped: %w", Temporary), Temporary, true},
		{Usagef("--count %d", -1), Usage, true},
		{errors.New(`unknown command "chekc" for "bulkhead"`), Usage, true},
		{fmt.Errorf("list: %w", DataError{errors.New("line 3")}), Data, true},
		{InputError{errors.New("mailbox: box: not a mailbox")}, NoInput, true},
		{fmt.Errorf("key: %w", fs.ErrPermission), NoInput, true},
		{fmt.Errorf("read: %w", syscall.EISDIR), NoInput, true},
		{errors.New("disk full"), Software, false},
	} {
		if got, known := CodeOf(tt.err); got != tt.want || known != tt.known {
			t.Errorf("CodeOf(%v) = %v, %v, want %v, %v", tt.err, got, known, tt.want, tt.known)
		}
	}
}

func TestComplain(t *testing.T) {
	for _, tt := range []struct {
		err  error
		hint string
		want string
	}{
		{errors.Join(errors.New("one"), InputError{errors.New("mailbox: two")}), "", "prog: one\nprog: two\n"},
		{errors.New("one"), "try two", "prog: one\nprog: hint: try two\n"},
		{Temporary, "never said", ""},
	} {
		var b strings.Builder
		if Complain(&b, "prog", tt.err, tt.hint); b.String() != tt.want {
			t.Errorf("Complain(%v) = %q, want %q", tt.err, b.String(), tt.want)
		}
	}
}
