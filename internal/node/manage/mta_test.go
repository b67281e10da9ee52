package manage

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client"
)

// TestEditProblem checks that errors of a list's files are conflicts, also where a file cannot be renamed over
// the list, such as one that is mounted by itself.
func TestEditProblem(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.EBUSY}, http.StatusConflict},
		{&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.ENOENT}, http.StatusConflict},
		{&fs.PathError{Op: "open", Path: "a", Err: syscall.EACCES}, http.StatusConflict},
		{fmt.Errorf("lists: lock a: %w", syscall.EIO), http.StatusConflict},
		{fmt.Errorf("no list %q: %w", "a", fs.ErrNotExist), http.StatusNotFound},
		{errors.New("line 2: no entry"), http.StatusBadRequest},
	} {
		err := editProblem(fmt.Errorf("lists: %w", c.err))
		var p *client.Problem
		status, _ := client.StatusOf(err)
		if errors.As(err, &p) {
			status = p.Status
		}
		if status != c.want {
			t.Errorf("%v: status %d, want %d", c.err, status, c.want)
		}
	}
}
