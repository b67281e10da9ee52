// Package wholefile writes files as a whole or not at all, even if the process or the machine
// crashes during the write, and reads small ones:
//
//	err := wholefile.Replace(path, wholefile.Bytes(data))
//
// The content is written next to the file, under a hidden name that begins with a dot and the
// file's name, and synced. Then it is renamed to the file's name, and the folder is synced.
package wholefile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Replace writes or replaces the file at path with the output of write. The new file has mode 0600
// and the process's owner, unless one of the prepare functions, which are called after write,
// changes that. After an error the old file is unchanged.
func Replace(path string, write func(io.Writer) error, prepare ...func(*os.File) error) error {
	return put(path, os.Rename, write, prepare)
}

// Create is Replace for a file that does not exist yet. If the file exists, or another process
// creates it at the same time, it is left unchanged, and the error wraps [fs.ErrExist].
func Create(path string, write func(io.Writer) error) error {
	return put(path, os.Link, write, nil)
}

// ReadJSON decodes the file at path into v. It leaves v unchanged if the file does not exist; an
// error names the file.
func ReadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

// Bytes returns a function that writes b.
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

func put(path string, name func(from, to string) error, write func(io.Writer) error,
	prepare []func(*os.File) error) error {
	dir := filepath.Dir(path)
	if info, err := os.Stat(path); path == "" || err == nil && info.IsDir() {
		// before write, which may take long
		return &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	}
	f, err := os.CreateTemp(dir, Leftovers(path))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails, as it should, after the file was renamed
	buffered := bufio.NewWriterSize(f, 1<<16)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	for _, p := range prepare {
		if err == nil {
			err = p(f)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(dir)
}

// MakeFolder makes a folder and its missing parents with mode 0700. When it returns without an
// error, the folder survives a crash of the machine, also one that an earlier call made and could not sync.
func MakeFolder(dir string) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	info, err := os.Stat(dir)
	existed := err == nil
	switch {
	case existed && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case errors.Is(err, fs.ErrNotExist):
		if err := MakeFolder(parent); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case err != nil:
		return err
	}
	if err := syncFolder(parent); !existed || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil // the owner of the parent made the folder
}

// SyncFolder makes the names in a folder durable: a crash of the machine takes back no file that was made or renamed
// there before.
func SyncFolder(dir string) error { return syncFolder(dir) }

// syncFolder is [SyncFolder]. It is a variable so that tests can observe it.
var syncFolder = func(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = errors.Join(d.Sync(), d.Close())
	if errors.Is(err, syscall.EINVAL) { // a file system that has nothing to sync
		return nil
	}
	return err
}

// Leftovers returns a pattern, for [filepath.Match], of the names next to path under which a killed
// process may have left half-written content.
func Leftovers(path string) string { return "." + filepath.Base(path) + ".*" }
