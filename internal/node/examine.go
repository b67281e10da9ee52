package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/audit"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/edge"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
	"github.com/bulkhead-mail/bulkhead/internal/node/doors"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/internal/node/pair"
	"github.com/bulkhead-mail/bulkhead/internal/node/upstream"
	"github.com/bulkhead-mail/bulkhead/internal/ratelimit"
	"github.com/bulkhead-mail/bulkhead/internal/shard/bucket"
	"github.com/bulkhead-mail/bulkhead/internal/standby"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// Examine reads every file of a data folder, and the files of lists that the configuration names,
// and returns all their faults. It changes nothing, and the node may be running. An error means
// that the folder could not be read.
func Examine(ctx context.Context, cfg *config.Config, dir string) (*admin.Examination, error) {
	x := &examination{cfg: cfg, dir: dir,
		out: &admin.Examination{Folder: dir, Faults: []admin.Fault{}, Doubts: []admin.Doubt{}}}
	if err := x.folder(); err != nil {
		return nil, err
	}
	x.keys()
	if err := x.store(ctx); err != nil {
		return nil, err
	}
	x.rates()
	x.files()
	x.whitelist()
	x.lists()
	x.mesh()
	x.pair()
	x.inventory()
	return x.out, nil
}

// examine is Examine for the running node.
func (n *core) examine(ctx context.Context) (*admin.Examination, error) {
	x, err := Examine(ctx, n.cfg.Load(), n.dir)
	if err == nil && n.engine != nil {
		// The files are as of the last snapshot.
		x.Known, x.Healed = manage.Doubts(n.engine.Doubts()), manage.Healings(n.engine.Healings())
	}
	return x, err
}

// An examination is an Examination in progress.
type examination struct {
	cfg   *config.Config
	dir   string
	out   *admin.Examination
	token string // the administrator's
}

func (x *examination) fault(part, file string, offset int64, problem, advice string) {
	x.out.Faults = append(x.out.Faults,
		admin.Fault{Part: part, File: file, Offset: offset, Problem: problem, Advice: advice})
}

// folder checks what other users could do in the data folder.
func (x *examination) folder() error {
	if _, err := os.Stat(x.dir); err != nil {
		return err
	}
	for _, problem := range unsafePlaces(x.dir) {
		x.fault("folder", problem.path, 0, problem.what, problem.advice)
	}
	return nil
}

// keys reads the keys of the node and the administrator's token.
func (x *examination) keys() {
	var secret filter.Secret
	var seal [32]byte
	for _, k := range []struct {
		name string
		key  []byte
	}{{networkKeyFile, secret[:]}, {sealKeyFile, seal[:]}} {
		name, key, path := k.name, k.key, filepath.Join(x.dir, k.name)
		switch err := ReadKey(path, key); {
		case err == nil:
			x.out.Files, x.out.Bytes = x.out.Files+1, x.out.Bytes+int64(len(key))
		case errors.Is(err, fs.ErrNotExist):
			if _, err := os.Stat(filepath.Join(x.dir, StoreFolder)); err == nil {
				x.fault("keys", path, 0, missingKey(x.dir, name, len(key)).Error(), "")
			}
		case errors.Is(err, store.ErrPermission): // unsafePlaces reports it
		default:
			x.fault("keys", path, 0, err.Error(), "put it back from a backup")
		}
	}
	if past, err := readPast(x.dir); err != nil {
		x.fault("keys", filepath.Join(x.dir, pastKeysFile), 0, err.Error(), "put it back from a backup")
	} else if len(past.all) > 0 {
		x.out.Files++
	}
	path := filepath.Join(x.dir, AdminTokenFile)
	token, err := ReadSecret(path)
	if err == nil {
		err = trust.CheckToken(token)
		x.token = token
	}
	if err == nil {
		x.out.Files++
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrPermission) {
		x.fault("keys", path, 0, err.Error(), "see \"bulkhead user recover\"")
	}
}

// store reads the journal and the last checkpoint.
func (x *examination) store(ctx context.Context) error {
	found, err := store.Inspect(ctx, filepath.Join(x.dir, StoreFolder))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !x.cfg.IsEdge() {
			x.fault("store", filepath.Join(x.dir, StoreFolder), 0, "the store is missing",
				"restore a backup; a node started without it has only what its peers send back")
		}
		return nil
	case err != nil:
		return err
	}
	x.out.Former = engine.Former(found.Manifest.Meta)
	x.out.Files, x.out.Bytes, x.out.Entries = x.out.Files+found.Files, x.out.Bytes+found.Bytes, found.Entries
	for _, f := range found.Faults {
		if x.out.Former != 0 && f.Absent && f.Mended {
			continue // older versions made no copy of the manifest
		}
		x.fault("store", f.File, f.Offset, f.What, "")
	}
	doubts, err := engine.Inspect(found)
	if err != nil {
		x.fault("store", filepath.Join(x.dir, StoreFolder), 0, err.Error(), "restore a backup")
	}
	x.out.Doubts = append(x.out.Doubts, manage.Doubts(doubts)...)
	x.owned(ctx, found)
	x.out.Known = manage.Doubts(engine.Known(found))
	return nil
}

// owned compares the keys beside the store with the store: they may be those of another node.
func (x *examination) owned(ctx context.Context, found *store.Inspection) {
	if !found.Readable || len(found.Faults) > 0 {
		return // damage has been reported, and may be all that differs
	}
	owner, err := engine.OwnerOf(ctx, found)
	if err != nil {
		x.fault("store", filepath.Join(x.dir, StoreFolder), 0, err.Error(), "restore a backup")
		return
	}
	var secret filter.Secret
	path := filepath.Join(x.dir, networkKeyFile)
	if ReadKey(path, secret[:]) == nil && len(owner.Networks) > 0 {
		past, _ := readPast(x.dir) // keys reports the error
		known := map[uint64]bool{secret.ID(): true}
		for _, s := range past.all {
			known[s.ID()] = true
		}
		for _, id := range owner.Networks {
			if !known[id] {
				x.fault("keys", path, 0,
					fmt.Sprintf("the store has counts under the secret of network %016x, which is not here", id),
					"put "+networkKeyFile+" and "+pastKeysFile+" of this node back from a backup")
				break
			}
		}
	}
	if x.token != "" && len(owner.Tokens) > 0 && trust.CheckToken(x.token) == nil &&
		!slices.ContainsFunc(owner.Tokens, func(hash []byte) bool { return bytes.Equal(hash, trust.HashToken(x.token)) }) {
		x.fault("keys", filepath.Join(x.dir, AdminTokenFile), 0, "it is the token of no account of this node",
			"stop the node, and run \"bulkhead user recover\"")
	}
}

// otherRecord returns where the copy of a record of the other node of a pair is, in the data folder.
func otherRecord(name string) string {
	return filepath.Join(filepath.FromSlash(pair.OtherFolder), name)
}

// files reads the files that need no other file to be understood.
func (x *examination) files() {
	const (
		aside = "on start, or when it notices, the node sets it aside and begins an empty one"
		again = "move it away; the other node of the pair sends it again"
	)
	inspectMap := func(path string) error {
		_, err := bucket.ReadFile(path)
		return err
	}
	for _, f := range []struct {
		part, name string
		inspect    func(path string) error
		advice     string
	}{
		{"greylist", doors.GreylistFile, doors.CheckGreylist, "without it every sender is new and has to wait once more"},
		{"history", historyFile, logbook.Inspect, aside},
		{"history", manage.SumsFile, logbook.InspectSums, aside},
		{"spool", upstream.SpoolFile, edge.InspectSpool,
			"on start the node sets it aside, and keeps the reports that it can read"},
		{"shards", upstream.MapFile, inspectMap, "remove it: the edge reads the map from the servers of [shards]"},
		{"records", manage.WeightsFile, manage.InspectWeights, "remove it, and the chart of weights begins anew"},
		{"records", audit.File, audit.Inspect, "move it away, and the record begins anew"},
		{"records", audit.OlderFile, audit.Inspect, "move it away"},
		{"records", otherRecord(audit.File), audit.Inspect, again},
		{"records", otherRecord(audit.OlderFile), audit.Inspect, again},
	} {
		path := filepath.Join(x.dir, f.name)
		switch err := f.inspect(path); {
		case err == nil:
			x.out.Files++
		case !errors.Is(err, fs.ErrNotExist):
			x.fault(f.part, path, 0, err.Error(), f.advice)
		}
	}
}

func (x *examination) rates() {
	rules, err := rulesOf(x.cfg)
	if err != nil {
		x.fault("ratelimits", "", 0, err.Error(), "see \"bulkhead config check\"")
		return
	}
	dir := filepath.Join(x.dir, rateFolder)
	faults, read := ratelimit.Inspect(dir, rules)
	x.out.Files += read
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		if x.out.Former != 0 && name != ratelimit.SecretFile {
			continue // states of older versions are not read
		}
		advice := "on start the node sets it aside and forgets the counts of the current period"
		if name == ratelimit.SecretFile {
			advice = "put it back from a copy; else \"bulkhead doctor --repair\", or a start with --salvage, begins " +
				"all limits anew"
		}
		x.fault("ratelimits", filepath.Join(dir, name), 0, faults[name].Error(), advice)
	}
}

func (x *examination) whitelist() {
	path := filepath.Join(x.dir, manage.WhitelistFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := manage.NewWhitelist(x.dir, nil, nil).Read(); err != nil {
		x.fault("whitelist", path, 0, err.Error(),
			"put it back from a copy, or remove it: its texts are then judged as others")
		return
	}
	x.out.Files++
}

func (x *examination) lists() {
	for _, l := range x.cfg.Lists.Files {
		if _, err := lists.Open(l.Path, x.cfg.Lists.MaxBytes); err != nil {
			x.fault("lists", l.Path, 0, err.Error(), "build it again with \"bulkhead list build\"")
			continue
		}
		x.out.Files++
	}
}

func (x *examination) mesh() {
	dir := filepath.Join(x.dir, meshFolder)
	faults := mesh.Inspect(dir)
	if _, err := (&Node{core: &core{dir: x.dir}}).joined(); err != nil {
		faults[joinedFile] = err
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		x.fault("mesh", filepath.Join(dir, name), 0, faults[name].Error(), "put it back from a backup")
	}
}

// pair reads the node's part in a pair.
func (x *examination) pair() {
	folder := filepath.Join(x.dir, standby.Folder)
	if _, err := os.Stat(folder); err != nil {
		return // the node is alone
	}
	for _, fault := range standby.Inspect(x.dir) {
		x.fault("standby", folder, 0, fault.Error(), "put it back from a copy, or pair the nodes anew")
	}
}

// inventory looks for missing parts.
func (x *examination) inventory() {
	missing, err := missingParts(x.dir)
	if err == nil {
		err = knownInventory(x.dir)
	}
	if err != nil && !(x.out.Former != 0 && errors.Is(err, fs.ErrNotExist)) { // older versions made none
		path := filepath.Join(x.dir, inventoryFile)
		x.fault("inventory", path, 0, err.Error(),
			"the node, or \"bulkhead doctor --repair\", makes it anew of the parts that are there")
	}
	for _, p := range missing {
		path := filepath.Join(x.dir, p.path)
		if !slices.ContainsFunc(x.out.Faults, func(f admin.Fault) bool { return f.File == path }) {
			x.fault(p.name, path, 0, "it is missing, and the node had it", p.advice)
		}
	}
}

// A place is a path of the data folder and the reason why it is unsafe.
type place struct {
	path, what, advice string
	link               bool
	foreign            bool // owned by another user
}

// unsafePlaces returns the files and folders of a data folder that other users may read or change,
// and links to other places. The folder itself may be a link.
func unsafePlaces(dir string) (out []place) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil // the caller reports it
	}
	owner := os.Geteuid()
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && owner == 0 {
		owner = int(sys.Uid) // root may read all, and the node runs as the folder's owner
	}
	out = append(out, unsafe(dir, info, owner)...)
	names := []string{
		StoreFolder, networkKeyFile, pastKeysFile, sealKeyFile, AdminTokenFile, rateFolder, doors.GreylistFile, meshFolder,
		historyFile,
		standby.Folder, upstream.SpoolFile, upstream.MapFile, manage.SumsFile, manage.WhitelistFile, manage.WeightsFile,
		inventoryFile, audit.File, audit.OlderFile,
		filepath.Join(StoreFolder, "files"), filepath.Join(StoreFolder, "journal"), filepath.Join(StoreFolder, "MANIFEST"),
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil {
			continue // absent, which may be right
		}
		if info.Mode().Type() == fs.ModeSymlink {
			to, _ := os.Readlink(path)
			out = append(out, place{path: path, what: fmt.Sprintf("a symbolic link, to %s", to),
				advice: "move what it points to here, or name the other folder in [node] data", link: true})
			continue
		}
		out = append(out, unsafe(path, info, owner)...)
	}
	// A file that has gone meanwhile is an error here. A new checkpoint removes former files.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path) // path is below dir
		if err != nil || path == dir || slices.Contains(names, rel) || !d.IsDir() && !d.Type().IsRegular() {
			return nil
		}
		hidden := rel == filepath.Join(meshFolder, "broker") || rel == setAsideFolder
		if info, err := d.Info(); err == nil {
			for _, p := range unsafe(path, info, owner) {
				if !hidden || p.foreign {
					out = append(out, p)
				}
			}
		}
		if hidden {
			return fs.SkipDir // behind the folder's own mode; its files are the broker's, or out of use
		}
		return nil
	})
	slices.SortFunc(out, func(a, b place) int { return cmp.Compare(a.path, b.path) })
	return out
}

// unsafe describes what other users may do with a file or folder of the node, and whether its owner is
// another user than the node.
func unsafe(path string, info fs.FileInfo, owner int) []place {
	var what []string
	foreign := false
	perm := info.Mode().Perm()
	want := fs.FileMode(0o600)
	if info.IsDir() {
		want = 0o700
	}
	if perm&0o077 != 0 {
		what = append(what, fmt.Sprintf("mode %04o lets others in", perm))
	}
	advice := fmt.Sprintf("use chmod %04o %s", want, path)
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != owner {
		foreign = true
		if os.Geteuid() == 0 {
			what, advice = append(what, fmt.Sprintf("owned by user %d, and the data folder by %d", sys.Uid, owner)),
				fmt.Sprintf("use chown %d %s", owner, path)
		} else {
			what, advice = append(what, fmt.Sprintf("owned by user %d, and this process runs as %d", sys.Uid, owner)),
				"use chown, or run this as the owner"
		}
	}
	if len(what) == 0 {
		return nil
	}
	return []place{{path: path, what: strings.Join(what, "; "), advice: advice, foreign: foreign}}
}
