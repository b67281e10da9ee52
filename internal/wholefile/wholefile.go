// Package wholefile reads and writes files that are there whole or not at all, whatever ends
// the process or the machine meanwhile:
//
//	err := wholefile.Replace(path, wholefile.Bytes(data))
//
// A file is written beside its place, under a hidden name that begins with a dot
// and its own, synced, and then given its name, which is synced too.
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
)

// Replace puts what write writes in the place of the file at path, or where there
// is none. The new file has mode 0600 and the process's owner, unless one of
// prepare, which are called when all is written, changes that. An error leaves
// what was there.
func Replace(path string, write func(io.Writer) error, prepare ...func(*os.File) error) error {
	return put(path, os.Rename, write, prepare)
}

// Create is Replace for a file that is not there: one that is stays, and the error
// wraps [fs.ErrExist], also where several processes create it at once.
func Create(path string, write func(io.Writer) error) error {
	return put(path, os.Link, write, nil)
}

// ReadJSON decodes the file at path into v. It leaves v as it is if there is no such
// file; an error names the file.
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

// Bytes returns what writes b.
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

func put(path string, name func(from, to string) error, write func(io.Writer) error, prepare []func(*os.File) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, Leftovers(path))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails, as it should, once it was renamed
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
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Leftovers returns the pattern, for [filepath.Match], of the names beside path
// under which its content may be left half written by a process that was killed.
func Leftovers(path string) string { return "." + filepath.Base(path) + ".*" }
