package lists

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// writeFile replaces the file at path as a whole with the output of write. It keeps the owner and
// mode of the old file, so that a list with restricted access stays restricted.
func writeFile(path string, write func(io.Writer) error) error {
	if err := wholefile.Replace(path, write, func(f *os.File) error { return likeBefore(f, path) }); err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	return nil
}

// replaceable returns an error if there is a file at path that is not a list, such as a text file that
// was named first by mistake.
func replaceable(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 6))
	if err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	if len(head) > 0 && !filter.IsTwoPart(head) && !filter.IsFuse(head) && !filter.IsStringBits(head) {
		return fmt.Errorf("lists: %s is not a list, and is not replaced; name the list before the text files", path)
	}
	return nil
}

// likeBefore gives f the owner and mode of the file at path, which f will replace.
func likeBefore(f *os.File, path string) error {
	old, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return f.Chmod(0o644)
	}
	if err != nil {
		return err
	}
	is, err := f.Stat()
	if err != nil {
		return err
	}
	was, ok1 := old.Sys().(*syscall.Stat_t)
	now, ok2 := is.Sys().(*syscall.Stat_t)
	if ok1 && ok2 && (was.Uid != now.Uid || was.Gid != now.Gid) {
		// If the owner cannot be set, the file must be world-readable. Otherwise some of its
		// readers might lose access, or other users gain it.
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil && old.Mode().Perm()&0o004 == 0 {
			return err
		}
	}
	return f.Chmod(old.Mode().Perm())
}
