package store

import (
	"io"
	"io/fs"
	"os"

	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// FS is the part of the operating system that may fail. Tests put a faulty FS into [Options]; all
// other callers leave it nil.
type FS interface {
	// OpenFile is like [os.OpenFile].
	OpenFile(name string, flag int, perm fs.FileMode) (Handle, error)
	// Rename is like [os.Rename].
	Rename(from, to string) error
	// Remove is like [os.Remove].
	Remove(name string) error
	// SyncDir makes the creation, renaming and removal of the directory's entries durable.
	SyncDir(name string) error
}

// A Handle is an open file of an [FS]. Its methods work like those of [os.File], except for the two
// described here.
type Handle interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	// Sync makes the content and size of the file durable (fdatasync).
	Sync() error
	// DropCache asks the system to drop cached pages of the file, so that the next read comes from
	// the disk. It is a hint, and may do nothing.
	DropCache()
}

// openRead opens a file for reading.
func openRead(fsys FS, name string) (Handle, error) { return fsys.OpenFile(name, os.O_RDONLY, 0) }

// osFS is the real file system.
type osFS struct{}

type osFile struct{ *os.File }

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (Handle, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

func (osFS) SyncDir(name string) error { return wholefile.SyncFolder(name) }

func (f osFile) Sync() error { return syncData(f.File) }
func (f osFile) DropCache()  { dropCache(f.File) }
