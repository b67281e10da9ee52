//go:build interop

package torture

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/bulkhead-mail/bulkhead/internal/testing/disktest"
)

// A disk is a file system in memory, mounted for other processes, that knows what would
// survive a power cut: of a file what was synced, of a folder the names that were
// synced, and of what came later a part. It also fails on demand. The test itself does
// not read what is mounted, but asks the disk.
type disk struct {
	mu     sync.Mutex
	root   *node
	ops    []nameOp // changes of names that are not synced, in order
	left   int      // changes until the power is cut; below 0: it stays
	dead   bool
	fault  fault
	struck int // how many operations failed because of fault
	rng    *rand.Rand

	where  string
	server *fuse.Server
}

// A fault is what a disk does wrong: the share of operations that fail, and how.
type fault struct {
	errno syscall.Errno
	share float64
	reads bool // those that read, instead of those that change something
}

// A nameOp gives a node another name, or its first or none: without from or without to.
type nameOp struct {
	fromDir, toDir *node
	from, to       string
	node           *node
}

func (o nameOp) apply() {
	if o.fromDir != nil && o.fromDir.durable[o.from] == o.node {
		delete(o.fromDir.durable, o.from)
	}
	if o.toDir != nil {
		o.toDir.durable[o.to] = o.node
	}
}

// A node is a file or folder whatever its name.
type node struct {
	fs.Inode
	disk    *disk
	changed time.Time

	names, durable map[string]*node // of a folder: as processes see them, and as the disk has them

	data []byte // of a file, as processes see it
	file *disktest.File
}

func (d *disk) folder() *node {
	return &node{disk: d, changed: time.Now(), names: map[string]*node{}, durable: map[string]*node{}}
}

func (d *disk) regular(b []byte) *node {
	return &node{disk: d, changed: time.Now(), data: b, file: disktest.NewFile(append([]byte{}, b...))}
}

// newDisk returns an empty disk, mounted at a folder of its own until the test ends. On a
// machine whose kernel has no FUSE, or keeps it from this user, the test is skipped.
func newDisk(t testing.TB, rng *rand.Rand) *disk {
	t.Helper()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs FUSE: %v", err)
	}
	device.Close()
	d := &disk{left: -1, rng: rng, where: t.TempDir()}
	d.root = d.folder()
	d.mount(t)
	t.Cleanup(func() { d.unmount(t) })
	return d
}

func (d *disk) mount(t testing.TB) {
	t.Helper()
	options := &fs.Options{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	options.DirectMount, options.FsName, options.Name = true, "forgetful", "torture"
	options.ExtraCapabilities = fuse.CAP_DIRECT_IO_ALLOW_MMAP // the history maps its file
	server, err := fs.Mount(d.where, d.root, options)
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	d.server = server
}

func (d *disk) unmount(t testing.TB) {
	t.Helper()
	if d.server == nil {
		return
	}
	if err := d.server.Unmount(); err != nil {
		t.Errorf("unmount: %v", err)
	}
	d.server = nil
}

// cutAfter lets the power last for n more changes.
func (d *disk) cutAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = n
}

// cut ends the power now, if that has not happened.
func (d *disk) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

func (d *disk) isDead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// ail has the disk fail from now on; the zero fault ends that. It returns how many
// operations have failed since it was last called.
func (d *disk) ail(f fault) (struck int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	struck, d.struck, d.fault = d.struck, 0, f
	return struck
}

// boot brings the power back, with what the disk had. It must not be used any more.
func (d *disk) boot(t testing.TB) {
	t.Helper()
	d.unmount(t)
	for _, op := range d.ops[:d.rng.IntN(len(d.ops)+1)] {
		op.apply()
	}
	d.ops, d.left, d.dead, d.fault = nil, -1, false, fault{}
	d.root = d.survivor(d.root)
	d.mount(t)
}

// clear empties the disk.
func (d *disk) clear(t testing.TB) {
	t.Helper()
	d.unmount(t)
	d.ops, d.root = nil, d.folder()
	d.mount(t)
}

func (d *disk) survivor(n *node) *node {
	if n.file != nil {
		return d.regular(n.file.Lose(d.rng))
	}
	next := d.folder()
	for name, child := range n.durable {
		child = d.survivor(child)
		next.names[name], next.durable[name] = child, child
	}
	return next
}

// change reports whether an operation that changes something fails. It needs mu.
func (d *disk) change() syscall.Errno {
	if d.left == 0 {
		d.dead = true
	}
	if d.dead {
		return syscall.EIO
	}
	if d.left > 0 {
		d.left--
	}
	return d.strike(false)
}

// strike is change as far as it is about the present fault. It needs mu.
func (d *disk) strike(reads bool) syscall.Errno {
	if d.dead {
		return syscall.EIO
	}
	if d.fault.errno == 0 || d.fault.reads != reads || d.rng.Float64() >= d.fault.share {
		return 0
	}
	d.struck++
	return d.fault.errno
}

// OnAdd hands the names of a folder that survived to the kernel's side.
func (n *node) OnAdd(ctx context.Context) {
	for name, child := range n.names {
		n.AddChild(name, n.inode(ctx, child), true)
	}
}

func (n *node) inode(ctx context.Context, child *node) *fs.Inode {
	mode := uint32(fuse.S_IFREG)
	if child.file == nil {
		mode = fuse.S_IFDIR
	}
	return n.NewPersistentInode(ctx, child, fs.StableAttr{Mode: mode})
}

// attributes need mu.
func (n *node) attributes(out *fuse.Attr) {
	out.Mode, out.Size = fuse.S_IFDIR|0o700, 0
	if n.file != nil {
		out.Mode, out.Size = fuse.S_IFREG|0o600, uint64(len(n.data))
	}
	out.Nlink, out.Uid, out.Gid = 1, uint32(os.Getuid()), uint32(os.Getgid())
	out.SetTimes(nil, &n.changed, &n.changed)
}

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	n.attributes(&out.Attr)
	return 0
}

func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if size, ok := in.GetSize(); ok && n.file != nil {
		if errno := n.disk.change(); errno != 0 {
			return errno
		}
		n.resize(int(size))
	}
	n.attributes(&out.Attr)
	return 0
}

// resize needs mu.
func (n *node) resize(size int) {
	n.file.Truncate(int64(size))
	n.grow(size)
	n.data, n.changed = n.data[:size], time.Now()
}

func (n *node) grow(size int) {
	if growth := size - len(n.data); growth > 0 {
		n.data = append(n.data, make([]byte, growth)...)
	}
}

func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if flags&syscall.O_TRUNC != 0 {
		if errno := n.disk.change(); errno != 0 {
			return nil, 0, errno
		}
		n.resize(0)
	}
	return nil, fuse.FOPEN_DIRECT_IO, 0 // each read and write comes here
}

func (n *node) Read(_ context.Context, _ fs.FileHandle, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if errno := n.disk.strike(true); errno != 0 {
		return nil, errno
	}
	if offset >= int64(len(n.data)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(dest[:copy(dest, n.data[offset:])]), 0
}

// Write writes a part if it fails, like a full disk, or one whose power is cut just then.
func (n *node) Write(_ context.Context, _ fs.FileHandle, b []byte, offset int64) (uint32, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	dead := n.disk.dead
	errno := n.disk.change()
	if dead {
		return 0, errno
	}
	if errno != 0 {
		b = b[:len(b)/2/disktest.Sector*disktest.Sector]
	}
	if errno == syscall.EROFS {
		return 0, errno
	}
	n.file.WriteAt(b, offset)
	n.grow(int(offset) + len(b))
	copy(n.data[offset:], b)
	n.changed = time.Now()
	if errno == syscall.ENOSPC && len(b) > 0 {
		errno = 0 // a short write, as Linux reports it
	}
	return uint32(len(b)), errno
}

// Fsync makes a file durable, or the names in a folder, with what came before of the
// same files.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d := n.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.file != nil && !n.file.Unsynced() {
		return d.strike(false)
	}
	if errno := d.change(); errno != 0 {
		if n.file != nil && !d.dead {
			n.file.Forget()
		}
		return errno
	}
	if n.file != nil {
		n.file.Sync()
		return 0
	}
	of := make(map[*node]bool)
	for _, op := range d.ops {
		if op.fromDir == n || op.toDir == n {
			of[op.node] = true
		}
	}
	var rest []nameOp
	for _, op := range d.ops {
		if of[op.node] {
			op.apply()
		} else {
			rest = append(rest, op)
		}
	}
	d.ops = rest
	return 0
}

// rename is what all changes of names are. It needs mu.
func (d *disk) rename(op nameOp) syscall.Errno {
	if errno := d.change(); errno != 0 {
		return errno
	}
	if op.fromDir != nil {
		delete(op.fromDir.names, op.from)
	}
	if op.toDir != nil {
		op.toDir.names[op.to] = op.node
	}
	d.ops = append(d.ops, op)
	return 0
}

func (n *node) add(ctx context.Context, name string, child *node, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if errno := n.disk.rename(nameOp{toDir: n, to: name, node: child}); errno != 0 {
		return nil, errno
	}
	child.attributes(&out.Attr)
	return n.inode(ctx, child), 0
}

func (n *node) Create(ctx context.Context, name string, _, _ uint32,
	out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, errno := n.add(ctx, name, n.disk.regular(nil), out)
	return inode, nil, fuse.FOPEN_DIRECT_IO, errno
}

func (n *node) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.add(ctx, name, n.disk.folder(), out)
}

func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	return n.disk.rename(nameOp{fromDir: n, from: name, node: n.names[name]})
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	n.disk.mu.Lock()
	full := len(n.names[name].names) > 0
	n.disk.mu.Unlock()
	if full {
		return syscall.ENOTEMPTY
	}
	return n.Unlink(ctx, name)
}

func (n *node) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if flags != 0 {
		return syscall.EINVAL
	}
	return n.disk.rename(nameOp{fromDir: n, from: name, toDir: to.(*node), to: newName, node: n.names[name]})
}
