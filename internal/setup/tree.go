package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// maxFile is the largest configuration file that is read, in bytes.
const maxFile = 4 << 20

// A tree gives access to the files below a folder, by the paths of a program that has this folder
// as "/". It follows links as such a program would, so absolute targets stay in the tree. os.Root
// ensures that no file outside is opened.
type tree struct{ root *os.Root }

func openTree(dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("setup: %w", err)
	}
	return &tree{root}, nil
}

func (t *tree) close() { t.root.Close() }

// resolve returns the path of a name in the root, with all links followed. If there is no such
// file, it returns the path at which the file would be created.
func (t *tree) resolve(name string) (string, error) {
	rest := strings.Split(path.Clean("/"+name), "/")
	at, links := ".", 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at) // the Dir of "." is "."
			continue
		}
		next := path.Join(at, part)
		info, err := t.root.Lstat(next)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", fmt.Errorf("setup: %s: %w", name, err)
			}
			at = next
			continue
		}
		if links++; links > 40 {
			return "", fmt.Errorf("setup: %s: too many links", name)
		}
		target, err := t.root.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("setup: %s: %w", name, err)
		}
		if path.IsAbs(target) {
			at = "."
		}
		rest = slices.Concat(strings.Split(target, "/"), rest)
	}
	return at, nil
}

// A file is the file at a path. A file that does not exist has no contents.
type file struct {
	text     string
	exists   bool
	mode     fs.FileMode
	uid, gid int // -1 if the system has none
}

// read returns a regular file.
func (t *tree) read(name string) (file, error) {
	none := file{mode: 0o644, uid: -1, gid: -1}
	at, err := t.resolve(name)
	if err != nil {
		return none, err
	}
	info, err := t.root.Stat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("setup: %s: %w", name, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return none, fmt.Errorf("setup: %s: not a file of at most %d bytes", name, maxFile)
	}
	text, err := t.root.ReadFile(at)
	if err != nil {
		return none, fmt.Errorf("setup: %s: %w", name, err)
	}
	f := file{text: string(text), exists: true, mode: info.Mode().Perm(), uid: -1, gid: -1}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		f.uid, f.gid = int(s.Uid), int(s.Gid)
	}
	return f, nil
}

// exists reports whether there is a file at one of the paths.
func (t *tree) exists(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		at, err := t.resolve(name)
		if err != nil {
			return false
		}
		_, err = t.root.Stat(at)
		return err == nil
	})
}

// stat describes the file at a path.
func (t *tree) stat(name string) (fs.FileInfo, error) {
	at, err := t.resolve(name)
	if err != nil {
		return nil, err
	}
	return t.root.Stat(at)
}

// list returns the names of the regular files in a folder, sorted; none if there is no
// such folder.
func (t *tree) list(folder string) []string {
	at, err := t.resolve(folder)
	if err != nil {
		return nil
	}
	entries, err := fs.ReadDir(t.root.FS(), at)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// write writes a file atomically, with its mode and owner, and creates its parent folders.
func (t *tree) write(name string, f file) (err error) {
	at, err := t.resolve(name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("setup: %s: %w", name, err)
		}
	}()
	if err := t.root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	temporary := at + ".bulkhead-setup"
	w, err := t.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = w.WriteString(f.text)
	if f.uid >= 0 && err == nil && os.Geteuid() == 0 {
		err = w.Chown(f.uid, f.gid)
	}
	if err == nil {
		err = w.Chmod(f.mode)
	}
	if err == nil {
		err = w.Sync()
	}
	err = errors.Join(err, w.Close())
	if err == nil {
		err = t.root.Rename(temporary, at)
	}
	if err != nil {
		return errors.Join(err, t.root.Remove(temporary))
	}
	return nil
}

func (t *tree) remove(name string) error {
	at, err := t.resolve(name)
	if err != nil {
		return err
	}
	if err := t.root.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("setup: %s: %w", name, err)
	}
	return nil
}
