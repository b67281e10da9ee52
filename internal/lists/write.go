package lists

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// writeFile replaces the file at path with what write writes, whole. Owner and mode
// stay those of the old file: a list that only some may read remains so.
func writeFile(path string, write func(io.Writer) error) error {
	if err := wholefile.Replace(path, write, func(f *os.File) error { return likeBefore(f, path) }); err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	return nil
}

// likeBefore gives f owner and mode of the file at path, which it is to replace.
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
		// Without the owner, others must not lose what they may read, nor may more.
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil && old.Mode().Perm()&0o004 == 0 {
			return err
		}
	}
	return f.Chmod(old.Mode().Perm())
}
