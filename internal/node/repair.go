package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/internal/ratelimit"
	"github.com/bulkhead-mail/bulkhead/internal/standby"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// A mending describes how a core opens a damaged store.
type mending struct {
	aside   string            // folder for damaged files
	entries map[uint64][]byte // of the journal, from a backup
	refill  *engine.Refill    // nil without a backup
	admin   bool              // whether the administrator's account was made anew
}

// setAsideFolder is the folder of the data folder for what was taken out of use, and agedFolder its folder
// for generations that have aged out.
const setAsideFolder, agedFolder = "set-aside", "aged"

// asideFolder returns the folder for the damaged files of a data folder, named after the present
// time.
func asideFolder(dir string) string {
	return filepath.Join(dir, setAsideFolder, clock.Now().UTC().Format("2006-01-02T150405Z"))
}

// RepairOptions are the inputs of a repair.
type RepairOptions struct {
	Config *config.Config
	Dir    string    // the data folder
	Backup io.Reader // of the same node; nil for none
	Log    *slog.Logger
}

// Repair repairs the data folder of a stopped node. It makes a store from the readable part of a
// damaged one, and from a backup of the rest. It sets aside damaged files that the node makes anew.
// It never removes anything unreadable, and leaves keys alone. The error wraps [store.ErrInUse] if
// the node runs.
func Repair(ctx context.Context, o RepairOptions) (out *admin.Repair, err error) {
	err = withFolder(o.Dir, func() error {
		out, err = mend(ctx, o)
		return err
	})
	return out, err
}

// mend is Repair with the folder locked.
func mend(ctx context.Context, o RepairOptions) (*admin.Repair, error) {
	before, err := Examine(ctx, o.Config, o.Dir)
	if err != nil {
		return nil, err
	}
	r := &repair{RepairOptions: o, aside: asideFolder(o.Dir),
		out: &admin.Repair{Before: before, Done: []string{}, Lost: []admin.Doubt{}}}
	if before.Sound() {
		r.out.After = before
		return r.out, nil
	}
	if err := r.store(ctx); err != nil {
		return nil, err
	}
	for _, f := range before.Faults {
		if err := r.file(f); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(r.aside); err == nil {
		r.out.Aside = r.aside
	}
	r.out.After, err = Examine(ctx, o.Config, o.Dir)
	return r.out, err
}

// A repair is a Repair in progress.
type repair struct {
	RepairOptions
	aside string
	out   *admin.Repair
}

func (r *repair) done(format string, args ...any) {
	r.out.Done = append(r.out.Done, fmt.Sprintf(format, args...))
}

// store repairs the store by opening it.
func (r *repair) store(ctx context.Context) (err error) {
	damaged := false
	for _, f := range r.out.Before.Faults {
		damaged = damaged || f.Part == "store"
	}
	dir := filepath.Join(r.Dir, StoreFolder)
	if _, err := os.Stat(dir); err != nil || !damaged {
		return nil
	}
	n := newCore(r.Config, r.Dir, r.Log)
	n.mending = &mending{aside: r.aside}
	if r.Backup != nil {
		end, err := r.backup(ctx, n, dir)
		defer end()
		if err != nil {
			return err
		}
	}
	follows, err := standby.CopyAnew(r.Dir)
	if err != nil {
		return err
	}
	if err := n.open(ctx, true); err != nil {
		return err
	}
	reported := slices.Clone(r.out.Before.Known) // by earlier repairs; the same part may be lost again
	for _, d := range manage.Doubts(n.engine.Doubts()) {
		if i := slices.Index(reported, d); i >= 0 {
			reported = slices.Delete(reported, i, i+1)
			continue
		}
		r.out.Lost = append(r.out.Lost, d)
	}
	r.done("%s was written anew with all that could be read", dir)
	if n.mending.admin {
		r.done("the account %q was made anew; its token is in %s", adminName, filepath.Join(r.Dir, AdminTokenFile))
	}
	if follows {
		r.done("the node copies the store of the first node of its pair, once it follows that node")
	}
	return n.close(ctx)
}

// backup opens a copy of the backup next to the store, from which the store is refilled, until end
// is called.
func (r *repair) backup(ctx context.Context, n *core, dir string) (end func(), err error) {
	if err := removeUnfinished(r.Dir, "doctor-*"); err != nil {
		return func() {}, err
	}
	temp, err := os.MkdirTemp(r.Dir, "doctor-")
	end = func() { os.RemoveAll(temp) }
	if err != nil {
		return func() {}, err
	}
	found, err := store.Inspect(ctx, dir)
	if err != nil {
		return end, err
	}
	copied := filepath.Join(temp, StoreFolder)
	info, err := store.Restore(ctx, bufio.NewReader(r.Backup), copied, store.Options{})
	if err != nil {
		return end, err
	}
	if found.Readable && info.From != found.Manifest.Incarnation {
		return end,
			fmt.Errorf("%w: the backup is of the store %s, and this one is %s since it was restored or repaired: "+
				"take a later backup, or restore this one whole",
				store.ErrFormat, info.From, found.Manifest.Incarnation)
	}
	if found.Readable && info.LastIndex > found.LastIndex {
		return end, fmt.Errorf(
			"%w: the backup ends with journal entry %d, and the store with %d: an older store was put in its place; "+
				"restore the backup",
			store.ErrFormat, info.LastIndex, found.LastIndex)
	}
	st, err := store.Open(copied, store.Options{})
	if err != nil {
		return end, err
	}
	end = func() {
		st.Close()
		os.RemoveAll(temp)
	}
	n.mending.entries = make(map[uint64][]byte)
	err = st.Replay(ctx, st.Manifest().Start, func(index uint64, entry []byte) error {
		for _, f := range found.Faults {
			if f.First != 0 && f.First <= index && index <= f.Last {
				n.mending.entries[index] = append([]byte(nil), entry...)
			}
		}
		return nil
	})
	if err != nil {
		return end, err
	}
	from := newCore(r.Config, r.Dir, slog.New(slog.DiscardHandler))
	if err := from.loadSecrets(); err != nil {
		return end, err
	}
	from.store = st
	opts, err := from.engineOptions(asEdge(r.Config))
	if err != nil {
		return end, err
	}
	opts.Still = true
	e, err := engine.Open(ctx, opts)
	if err != nil {
		return end, err
	}
	n.mending.refill = &engine.Refill{From: e, Index: info.LastIndex}
	return func() {
		err := errors.Join(e.Close(ctx), st.Close(), os.RemoveAll(temp))
		if err != nil {
			r.Log.Warn("the copy of the backup", "err", err)
		}
	}, nil
}

// file repairs the cause of a fault outside of the store, if a program can.
func (r *repair) file(f admin.Fault) error {
	switch f.Part {
	case "folder":
		info, err := os.Lstat(f.File)
		if err != nil || info.Mode().Type() == fs.ModeSymlink || info.Mode().Perm()&0o077 == 0 {
			return err
		}
		r.done("%s is closed to others", f.File)
		return os.Chmod(f.File, info.Mode().Perm()&^0o077)
	case "inventory":
		r.done("%s was made anew", f.File)
		return takeInventory(r.Dir, nil, nil)
	case "greylist", "ratelimits", "mesh", "whitelist", "records", "history", "keys":
		base := filepath.Base(f.File)
		if base == mesh.KeyFile || base == meshFolder || f.Part == "keys" && base != AdminTokenFile {
			return nil // peers know the node by it, or nothing can be read without it: its owner decides
		}
		moved, err := setAside(r.Dir, r.aside, f.File)
		if err != nil {
			return err
		}
		if moved {
			r.done("%s was set aside", f.File)
		} else {
			r.done("%s is missing, and begins anew", f.File)
		}
		rel, err := filepath.Rel(r.Dir, f.File)
		if err != nil {
			return err
		}
		return takeInventory(r.Dir, nil, []string{rel})
	}
	return nil
}

// setAside moves a file of a data folder to the folder aside, and reports whether there was one.
func setAside(dir, aside, file string) (moved bool, err error) {
	rel, err := filepath.Rel(dir, file)
	if err != nil {
		return false, err
	}
	to := filepath.Join(aside, rel)
	if err := wholefile.MakeFolder(filepath.Dir(to)); err != nil {
		return false, err
	}
	err = os.Rename(file, to)
	if saved := ratelimit.SavedMark(file); saved != "" { // a file that was set aside must not be reported as missing
		err = errors.Join(err, os.RemoveAll(saved))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// setAsideDamaged moves away damaged files that would keep a node from starting and that it can do
// without. It is for a node that is started to salvage.
func (n *core) setAsideDamaged(cfg *config.Config) error {
	x := &examination{cfg: cfg, dir: n.dir, out: &admin.Examination{}}
	x.whitelist()
	x.rates()
	x.mesh()
	for _, f := range x.out.Faults {
		if filepath.Base(f.File) == mesh.KeyFile {
			continue // peers know the node by it: its owner decides
		}
		if moved, err := setAside(n.dir, n.mending.aside, f.File); err != nil {
			return err
		} else if moved {
			rel, _ := filepath.Rel(n.dir, f.File) // it has just been moved by that
			n.noteParts(rel)
			n.log.Error("damaged file was moved away", "file", f.File, "err", f.Problem,
				"moved_to", n.mending.aside, "consequence", "the node makes an empty one")
		}
	}
	return nil
}

// closeFolder denies other users access to the node's data folder. It returns an error if a link in
// the folder leads elsewhere.
func (n *core) closeFolder() error {
	var errs []error
	for _, p := range unsafePlaces(n.dir) {
		switch {
		case p.link:
			errs = append(errs, fmt.Errorf("%s: %w: %s; %s", p.path, store.ErrPermission, p.what, p.advice))
		case p.path == n.dir: // the contents are out of reach once this is closed
			if err := os.Chmod(p.path, 0o700); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w: %s; %s", p.path, store.ErrPermission, p.what, p.advice))
				continue
			}
			n.log.Warn("data folder was open to other users, and has been closed", "folder", p.path, "was", p.what)
		}
	}
	return errors.Join(errs...)
}

// noticeLostStore makes a node that has shared its counts, and has no store any more, take them back
// from its peers.
func (n *core) noticeLostStore() error {
	dir := filepath.Join(n.dir, meshFolder)
	if _, err := os.Stat(filepath.Join(n.dir, StoreFolder)); !errors.Is(err, fs.ErrNotExist) || !mesh.Shared(dir) {
		return nil
	}
	if n.cfg.Load().Journal.InStream() {
		return nil // the journal has it all, or the node does not start
	}
	_, err := mesh.WantRecovery(dir, false)
	return err
}

// RestoreFromPeers makes the node of a data folder without a store take back from all its peers, at
// its next start, what it has shared. It returns the number of peers.
func RestoreFromPeers(dir string) (peers int, err error) {
	err = withFolder(dir, func() error {
		peers, err = wantRecovery(dir)
		return err
	})
	return peers, err
}

func wantRecovery(dir string) (peers int, err error) {
	if _, err := os.Stat(filepath.Join(dir, StoreFolder)); err == nil {
		return 0, fmt.Errorf("%s: %w: move it away first", filepath.Join(dir, StoreFolder), fs.ErrExist)
	}
	for _, name := range []string{networkKeyFile, filepath.Join(meshFolder, mesh.KeyFile),
		filepath.Join(meshFolder, mesh.PeersFile)} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return 0, fmt.Errorf("%w: without it no peer knows the node: put it back first", err)
		}
	}
	return mesh.WantRecovery(filepath.Join(dir, meshFolder), true)
}

// SecretFiles returns the files that a backup omits, because secrets must not be kept with counts.
func SecretFiles() []string {
	return []string{networkKeyFile, pastKeysFile, sealKeyFile, AdminTokenFile, meshFolder + "/"}
}

// removeUnfinished removes the folders that interrupted commands have left in a data folder, which is locked.
func removeUnfinished(dir, pattern string) error {
	left, err := filepath.Glob(filepath.Join(dir, pattern))
	for _, folder := range left {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

// Backup writes a consistent copy of everything that the node of a data folder has acknowledged to
// w, and returns its description. The node may run.
func Backup(ctx context.Context, dir string, w io.Writer) (store.BackupInfo, error) {
	return store.Backup(ctx, filepath.Join(dir, StoreFolder), w)
}

// Restore restores the store of a data folder without one from a backup. missing are the key files
// that must be put back before the node starts.
func Restore(ctx context.Context, in io.Reader, dir string) (info store.BackupInfo, missing []string, err error) {
	if err := errors.Join(ownFolder(dir), wholefile.MakeFolder(dir)); err != nil {
		return info, nil, err
	}
	err = withFolder(dir, func() error {
		if err := removeUnfinished(dir, StoreFolder+".restore-*"); err != nil {
			return err
		}
		info, err = store.Restore(ctx, in, filepath.Join(dir, StoreFolder), store.Options{})
		return err
	})
	if err != nil {
		return info, nil, err
	}
	for _, name := range []string{networkKeyFile, sealKeyFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			missing = append(missing, name)
		}
	}
	return info, missing, nil
}
