// Package boltfile opens files of bbolt that may be damaged. In a damaged file the library may panic, and reading the
// mapped file may fault; both are errors here.
package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// ErrDamaged is wrapped by the error for a file whose contents are not as written.
var ErrDamaged = errors.New("damaged file")

// Open opens the file of a path, which it makes if necessary, with mode 0600. Its error wraps [ErrDamaged] if the file
// is damaged. The library does not read all of the file: call it, and use the database, within [Guard].
func Open(path string, o *bbolt.Options) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, o)
	return db, damageOf(err)
}

// damageOf distinguishes damage of a file from errors of the system.
func damageOf(err error) error {
	var errno syscall.Errno
	var file *fs.PathError
	if err == nil || errors.As(err, &errno) || errors.As(err, &file) || errors.Is(err, bolterrors.ErrTimeout) {
		return err
	}
	return fmt.Errorf("%w: %v", ErrDamaged, err)
}

// Copy writes the contents of a file to a new one. The copy has no damage that the library finds only when a file is
// changed. The error wraps [ErrDamaged] if the first file is damaged. Copy waits up to a second for a process that has
// the first file open.
func Copy(path, to string) error {
	return Guard(func() error {
		from, err := Open(path, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			return err
		}
		defer from.Close()
		out, err := Open(to, nil)
		if err != nil {
			return err
		}
		return damageOf(errors.Join(bbolt.Compact(out, from, 1<<20), out.Close()))
	})
}

// Guard calls fn, and returns panics and memory faults in fn as errors that wrap [ErrDamaged]. A database in which fn
// panicked must not be used any more, nor closed.
func Guard(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return fn()
}

// Inspect reads a file with fn and returns its error. It changes nothing. It does not read a file that another process
// has open: that process notices damage itself.
func Inspect(path string, fn func(*bbolt.Tx) error) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	err := Guard(func() error {
		db, err := Open(path, &bbolt.Options{ReadOnly: true, Timeout: 100 * time.Millisecond})
		if err != nil {
			return err
		}
		defer db.Close()
		return db.View(fn)
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil
	}
	return err
}
