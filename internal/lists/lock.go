package lists

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock keeps other processes from changing the list at path until unlock is called. A change starts
// from the old content, so of two concurrent changes one would be lost. A list that does not exist
// has nothing to lose.
func lock(path string) (unlock func(), err error) {
	for {
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			return func() {}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("lists: %w", err)
		}
		for {
			if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.EOPNOTSUPP) {
			// The file system has no locks, for example a network file system: nothing better is
			// possible.
			return func() { f.Close() }, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lists: lock %s: %w", path, err)
		}
		// The previous holder of the lock may have replaced the file.
		locked, err1 := f.Stat()
		there, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(locked, there) {
			return func() { f.Close() }, nil
		}
		f.Close()
		if err1 != nil || err2 != nil && !errors.Is(err2, os.ErrNotExist) {
			return nil, fmt.Errorf("lists: %w", errors.Join(err1, err2))
		}
	}
}
