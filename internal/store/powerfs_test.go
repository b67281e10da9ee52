package store

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/disktest"
)

var (
	errDead  = errors.New("the process is dead")
	errFault = errors.New("injected fault")
)

// A powerFS is a file system that tracks what would survive a power loss: the synced content of a
// file, the synced names of a directory, and a random part of later changes. It also injects
// faults. After a failed Sync it behaves like Linux: the content stays readable, counts as clean,
// and does not reach the disk with the next Sync.
type powerFS struct {
	mu      sync.Mutex
	names   map[string]*disktest.File        // by path, as processes see them
	durable map[string]*disktest.File        // by path, as the disk has them
	ops     []powerOp                        // the difference, in order
	left    int                              // operations until the process dies; -1: it does not die
	fault   func(op, path string) (bad bool) // nil: never
	count   int                              // number of modifying operations
}

type powerOp struct {
	dir, from, to string // from "": create; to "": remove
	node          *disktest.File
}

func newPowerFS() *powerFS {
	return &powerFS{names: map[string]*disktest.File{}, durable: map[string]*disktest.File{}, left: -1}
}

// op counts an operation and returns an error if it fails. The caller holds mu.
func (p *powerFS) op(op, path string) error {
	p.count++
	if p.left == 0 {
		return errDead
	}
	if p.left > 0 {
		p.left--
	}
	if p.fault != nil && p.fault(op, path) {
		return &fs.PathError{Op: op, Path: path, Err: errFault}
	}
	return nil
}

func (p *powerFS) OpenFile(name string, flag int, perm fs.FileMode) (Handle, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if flag&os.O_CREATE != 0 {
		if err := p.op("open", name); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	n := p.names[name]
	if n == nil {
		n = &disktest.File{}
		p.names[name] = n
		p.ops = append(p.ops, powerOp{filepath.Dir(name), "", name, n})
	}
	if flag&os.O_TRUNC != 0 {
		n.Truncate(0)
	}
	return &powerFile{f, p, n}, nil
}

func (p *powerFS) Rename(from, to string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.op("rename", to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	n := p.names[from]
	delete(p.names, from)
	p.names[to] = n
	p.ops = append(p.ops, powerOp{filepath.Dir(to), from, to, n})
	return nil
}

func (p *powerFS) Remove(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.op("remove", name); err != nil {
		return err
	}
	if err := os.Remove(name); err != nil {
		return err
	}
	delete(p.names, name)
	p.ops = append(p.ops, powerOp{filepath.Dir(name), name, "", nil})
	return nil
}

func (p *powerFS) SyncDir(dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.op("syncdir", dir); err != nil {
		return err
	}
	var rest []powerOp
	for _, op := range p.ops {
		if op.dir == dir {
			op.apply(p.durable)
		} else {
			rest = append(rest, op)
		}
	}
	p.ops = rest
	return nil
}

func (op powerOp) apply(names map[string]*disktest.File) {
	delete(names, op.from)
	if op.to != "" {
		names[op.to] = op.node
	}
}

// cut switches the power off: it leaves the content of the disk in root, and returns the file
// system of the next boot.
func (p *powerFS) cut(t testing.TB, rng *rand.Rand, root string) *powerFS {
	t.Helper()
	for _, op := range p.ops[:rng.IntN(len(p.ops)+1)] {
		op.apply(p.durable)
	}
	next := newPowerFS()
	for path := range p.names {
		os.Remove(path)
	}
	for path, n := range p.durable {
		if !strings.HasPrefix(path, root) {
			t.Fatalf("path %s outside %s", path, root)
		}
		b := n.Lose(rng)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		node := disktest.NewFile(b)
		next.names[path], next.durable[path] = node, node
	}
	return next
}

type powerFile struct {
	*os.File
	p *powerFS
	n *disktest.File
}

func (f *powerFile) DropCache() {}

func (f *powerFile) Write(b []byte) (int, error) {
	offset, err := f.Seek(0, 1)
	if err != nil {
		return 0, err
	}
	n, err := f.WriteAt(b, offset)
	if _, serr := f.Seek(int64(n), 1); serr != nil {
		return n, serr
	}
	return n, err
}

// WriteAt writes only a part if it fails, like a full disk.
func (f *powerFile) WriteAt(b []byte, offset int64) (int, error) {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	err := f.p.op("write", f.Name())
	if err != nil && len(b) <= disktest.Sector {
		b = nil // a sector is written completely or not at all
	}
	if err != nil {
		b = b[:len(b)/2]
	}
	n, werr := f.File.WriteAt(b, offset)
	f.n.WriteAt(b[:n], offset)
	return n, errors.Join(err, werr)
}

func (f *powerFile) Truncate(size int64) error {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	if err := f.p.op("truncate", f.Name()); err != nil {
		return err
	}
	f.n.Truncate(size)
	return f.File.Truncate(size)
}

func (f *powerFile) Sync() error {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	err := f.p.op("sync", f.Name())
	switch {
	case err == nil:
		f.n.Sync()
	case !errors.Is(err, errDead):
		f.n.Forget()
	}
	return err
}
