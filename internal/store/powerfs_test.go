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
)

var (
	errDead  = errors.New("the process is dead")
	errFault = errors.New("injected fault")
)

// A powerFS is a file system that knows what would survive a power loss: of a
// file what was synced, of a directory the names that were synced, and of what
// came later a random part. It also injects faults. After a failed Sync it
// behaves like Linux: the content stays readable, counts as clean, and does not
// reach the disk with the next Sync.
type powerFS struct {
	mu      sync.Mutex
	names   map[string]*powerNode            // by path, as processes see them
	durable map[string]*powerNode            // by path, as the disk has them
	ops     []powerOp                        // the difference, in order
	left    int                              // operations until the process dies; -1: it lives
	fault   func(op, path string) (bad bool) // nil: never
	count   int                              // operations that change something
}

type powerOp struct {
	dir, from, to string // from "": create; to "": remove
	node          *powerNode
}

// A powerNode is a file whatever its name.
type powerNode struct {
	disk    []byte
	pending []powerWrite
}

// A powerWrite is a write, or with nil data a truncation.
type powerWrite struct {
	offset int64
	data   []byte
}

func newPowerFS() *powerFS {
	return &powerFS{names: map[string]*powerNode{}, durable: map[string]*powerNode{}, left: -1}
}

// op counts an operation and says whether it fails. It needs mu.
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
		n = &powerNode{}
		p.names[name] = n
		p.ops = append(p.ops, powerOp{filepath.Dir(name), "", name, n})
	}
	if flag&os.O_TRUNC != 0 {
		n.pending = append(n.pending, powerWrite{})
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

func (op powerOp) apply(names map[string]*powerNode) {
	delete(names, op.from)
	if op.to != "" {
		names[op.to] = op.node
	}
}

// cut switches the power off: it leaves in root what the disk had, and returns
// the file system of the next boot.
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
		b := n.lose(rng)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		node := &powerNode{disk: b}
		next.names[path], next.durable[path] = node, node
	}
	return next
}

// lose returns what the disk holds: what was synced, and of the later writes
// nothing, all, or any sectors.
func (n *powerNode) lose(rng *rand.Rand) []byte {
	b := append([]byte(nil), n.disk...)
	mode := rng.IntN(3)
	for _, w := range n.pending {
		for start := 0; mode > 0; {
			end := len(w.data)
			if mode == 2 {
				end = min(start+512-int(w.offset+int64(start))%512, end)
			}
			if mode == 1 || rng.IntN(2) == 0 {
				b = powerWrite{w.offset + int64(start), w.data[start:end]}.apply(b, w.data == nil)
			}
			if start = end; start >= len(w.data) {
				break
			}
		}
	}
	return b
}

func (w powerWrite) apply(b []byte, truncate bool) []byte {
	end := int(w.offset) + len(w.data)
	if grow := end - len(b); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	if truncate {
		return b[:w.offset]
	}
	copy(b[w.offset:], w.data)
	return b
}

type powerFile struct {
	*os.File
	p *powerFS
	n *powerNode
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

// WriteAt writes a part if it fails, like a full disk.
func (f *powerFile) WriteAt(b []byte, offset int64) (int, error) {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	err := f.p.op("write", f.Name())
	if err != nil && len(b) <= 512 {
		b = nil // a sector is written whole or not
	}
	if err != nil {
		b = b[:len(b)/2]
	}
	n, werr := f.File.WriteAt(b, offset)
	f.n.pending = append(f.n.pending, powerWrite{offset, append([]byte{}, b[:n]...)})
	return n, errors.Join(err, werr)
}

func (f *powerFile) Truncate(size int64) error {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	if err := f.p.op("truncate", f.Name()); err != nil {
		return err
	}
	f.n.pending = append(f.n.pending, powerWrite{offset: size})
	return f.File.Truncate(size)
}

func (f *powerFile) Sync() error {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	err := f.p.op("sync", f.Name())
	if err == nil {
		for _, w := range f.n.pending {
			f.n.disk = w.apply(f.n.disk, w.data == nil)
		}
	}
	if !errors.Is(err, errDead) {
		f.n.pending = nil
	}
	return err
}
