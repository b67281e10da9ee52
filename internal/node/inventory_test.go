package node

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
	"github.com/bulkhead-mail/bulkhead/internal/node/doors"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
)

// everyPart is the configuration of a node whose data folder has all parts. Its arrays are small, because nodes with
// arrays of the default size take twice the processor time and 6 GB of memory under the race detector.
const everyPart = "[listen]\nhttp = \"127.0.0.1:0\"\ndccifd = \"127.0.0.1:0\"\n[dccifd]\ngreylist = true\n" +
	"[mesh]\nmode = \"hub\"\nlisten = \"127.0.0.1:0\"\n" +
	"[[ratelimit]]\nname = \"r\"\nkey = \"{sender}\"\nlimit = 3\nperiod = \"1h\"\n" +
	"[tally]\ncapacity = 10_000\n[blocklist]\ncapacity = 10_000\n"

// everyPartFolder returns the data folder of a node that has stopped, with all parts.
func everyPartFolder(t *testing.T, cfg *config.Config) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	n, stop := start(t, Options{Config: cfg, Dir: dir})
	mta := manage.NewMTA(n.mta.limits, n.mta.lists)
	if d, err := mta.ApplyRateLimits(t.Context(), map[string]string{"sender": "ann@example.com"},
		false); err != nil || len(d.Rules) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{manage.WhitelistFile: "[]", filepath.Join(meshFolder, "peers.json"): "[]"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, stop = start(t, Options{Config: cfg, Dir: dir}) // it records them
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if x, err := Examine(t.Context(), cfg, dir); err != nil || !x.Sound() {
		t.Fatalf("of a sound folder: %+v, %v", x, err)
	}
	return dir
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// TestMissingIsNotEmpty checks that a missing part of the data folder is distinguished from one
// that never existed: by an examination, by the log and by the state of the node that begins it
// anew. It is reported only once.
func TestMissingIsNotEmpty(t *testing.T) {
	cfg := parse(t, everyPart)
	dir := everyPartFolder(t, cfg)
	for _, p := range keptParts() {
		t.Run(p.path, func(t *testing.T) {
			dir := copyOf(t, dir)
			path := filepath.Join(dir, p.path)
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			x, err := Examine(t.Context(), cfg, dir)
			if err != nil || len(x.Faults) != 1 || x.Faults[0].Part != p.name || x.Faults[0].File != path ||
				x.Faults[0].Advice == "" {
				t.Fatalf("examined: %+v, %v", x, err)
			}
			log := &journal{}
			n, stop := start(t, Options{Config: cfg, Dir: dir, Log: slog.New(log)})
			if got := n.state.State(t.Context()).Missing; !slices.Equal(got, []string{p.path}) {
				t.Errorf("missing %q, want %q", got, p.path)
			}
			if log.count("part of the data folder is missing") != 1 {
				t.Error("the log does not say so")
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			n, stop = start(t, Options{Config: cfg, Dir: dir, Log: slog.New(log)})
			if got := n.state.State(t.Context()).Missing; len(got) > 0 ||
				log.count("part of the data folder is missing") != 1 {
				t.Errorf("at the next start %q are missing", got)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if x, err := Examine(t.Context(), cfg, dir); err != nil || !x.Sound() {
				t.Errorf("in the end: %+v, %v", x, err)
			}
		})
	}
	t.Run("none", func(t *testing.T) { // a part that a node never had is not missing
		log := &journal{}
		n, _ := start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"),
			Dir: filepath.Join(t.TempDir(), "data"), Log: slog.New(log)})
		if got := n.state.State(t.Context()).Missing; len(got) > 0 ||
			log.count("part of the data folder is missing") > 0 {
			t.Errorf("of a new node %q are missing", got)
		}
	})
}

// TestMissingAtFailedStart checks that parts missed by a start, and perhaps made anew, are reported
// by the next start if that start fails later. They are reported only once.
func TestMissingAtFailedStart(t *testing.T) {
	cfg := parse(t, everyPart)
	whole := everyPartFolder(t, cfg)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	fails := parse(t, strings.Replace(everyPart, "http = \"127.0.0.1:0\"", fmt.Sprintf("http = %q", taken.Addr()), 1))
	for _, p := range keptParts() {
		t.Run(p.path, func(t *testing.T) {
			dir := copyOf(t, whole)
			if err := os.RemoveAll(filepath.Join(dir, p.path)); err != nil {
				t.Fatal(err)
			}
			log := &journal{}
			for range 2 {
				if n, err := Open(t.Context(), Options{Config: fails, Dir: dir, Log: slog.New(log)}); err == nil {
					n.Close(t.Context())
					t.Fatal("a start whose door is taken has succeeded")
				}
			}
			for _, want := range [][]string{{p.path}, nil} {
				n, stop := start(t, Options{Config: cfg, Dir: dir, Log: slog.New(log)})
				if got := n.state.State(t.Context()).Missing; !slices.Equal(got, want) {
					t.Errorf("missing %q, want %q", got, want)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			const missing, was = "part of the data folder is missing",
				"part of the data folder was missing at an earlier start"
			if log.count(missing) == 0 || log.count(missing)+log.count(was) != 3 {
				t.Errorf("the log of three starts says %d times that it is missing, and %d times that it was",
					log.count(missing), log.count(was))
			}
			if x, err := Examine(t.Context(), cfg, dir); err != nil || !x.Sound() {
				t.Errorf("in the end: %+v, %v", x, err)
			}
		})
	}
}

// TestRepairMissing checks that a repair records that a part is to begin anew, except the store and
// the key that peers know.
func TestRepairMissing(t *testing.T) {
	cfg := parse(t, everyPart)
	dir := everyPartFolder(t, cfg)
	for _, p := range keptParts() {
		dir := copyOf(t, dir)
		if err := os.RemoveAll(filepath.Join(dir, p.path)); err != nil {
			t.Fatal(err)
		}
		r, err := Repair(t.Context(), RepairOptions{Config: cfg, Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("%s: %v", p.path, err)
		}
		keeps := p.path == StoreFolder || p.path == meshFolder
		if r.After.Sound() == keeps || len(r.Done) == 0 != keeps {
			t.Errorf("%s: done %q, then %+v", p.path, r.Done, r.After.Faults)
		}
	}
}

// TestRepairDamaged damages each file of a data folder in several ways. One repair suffices: the examination that
// follows finds no fault. Keys are left as they are, because their owner decides.
func TestRepairDamaged(t *testing.T) {
	cfg := parse(t, everyPart)
	whole := everyPartFolder(t, cfg)
	keys := []string{networkKeyFile, sealKeyFile, filepath.Join(meshFolder, mesh.KeyFile)}
	ways := map[string]func(b []byte) []byte{
		"another byte": func(b []byte) []byte { b[len(b)/2] ^= 0xff; return b },
		"cut off":      func(b []byte) []byte { return b[:len(b)-2] },
		"another file": func([]byte) []byte { return []byte("{damaged") },
		"empty":        func([]byte) []byte { return nil },
	}
	err := fs.WalkDir(os.DirFS(whole), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOCK" || strings.HasPrefix(name, "mesh/broker/") {
			return err
		}
		before, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil || len(before) == 0 {
			return err
		}
		for way, damage := range ways {
			dir := copyOf(t, whole)
			path, after := filepath.Join(dir, name), damage(slices.Clone(before))
			if err := os.WriteFile(path, after, 0o600); err != nil {
				return err
			}
			r, err := Repair(t.Context(), RepairOptions{Config: cfg, Dir: dir, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, way, err)
			}
			if key := slices.Contains(keys, name); r.After.Sound() == key {
				t.Errorf("%s, %s: before %+v, then %+v", name, way, r.Before.Faults, r.After.Faults)
			} else if b, err := os.ReadFile(path); key && (err != nil || string(b) != string(after)) {
				t.Errorf("%s, %s: the key became %q, %v", name, way, b, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedInventory checks that a damaged inventory loses the record of former parts, and
// nothing else.
func TestDamagedInventory(t *testing.T) {
	cfg := parse(t, everyPart)
	dir := everyPartFolder(t, cfg)
	path := filepath.Join(dir, inventoryFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(strings.Fields(string(whole))) {
		t.Errorf("not in order: %q", whole)
	}
	if got := strings.Count(string(whole), "\n"); got != len(keptParts()) {
		t.Errorf("%d lines, want %d: %q", got, len(keptParts()), whole)
	}
	for name, content := range map[string]string{"bytes": "\x00\xff\n", "outside": "../store\n",
		"long": strings.Repeat("a", maxInventory+1), "empty": "", "cut off": string(whole[:len(whole)-6])} {
		for _, repair := range []bool{true, false} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			x, err := Examine(t.Context(), cfg, dir)
			if err != nil || len(x.Faults) != 1 || x.Faults[0].Part != "inventory" || x.Faults[0].File != path {
				t.Errorf("%s: %+v, %v", name, x, err)
			}
			if repair {
				r, err := Repair(t.Context(), RepairOptions{Config: cfg, Dir: dir, Log: slog.New(slog.DiscardHandler)})
				if err != nil || !r.After.Sound() {
					t.Errorf("%s: repaired: %+v, %v", name, r, err)
				}
			} else {
				_, stop := start(t, Options{Config: cfg, Dir: dir})
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != string(whole) {
				t.Errorf("%s: made anew as %q, %v, want %q", name, got, err, whole)
			}
		}
	}
}

// TestSalvageFiles checks that a node started to salvage starts without the files that would
// prevent a start, sets them aside, and leaves its key alone.
func TestSalvageFiles(t *testing.T) {
	cfg := parse(t, everyPart)
	dir := everyPartFolder(t, cfg)
	for _, name := range []string{manage.WhitelistFile, "mesh/peers.json", "mesh/state.json", "mesh/joined.json",
		"mesh/rotation.json", "mesh/invitations.json", "ratelimits/secret"} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, dir)
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte("{damaged"), 0o600); err != nil {
				t.Fatal(err)
			}
			x, err := Examine(t.Context(), cfg, dir)
			if err != nil || len(x.Faults) == 0 || !strings.HasPrefix(x.Faults[0].File, filepath.Dir(path)) {
				t.Fatalf("examined: %+v, %v", x, err)
			}
			if n, err := Open(t.Context(), Options{Config: cfg, Dir: dir}); err == nil {
				n.Close(t.Context())
				t.Error("it starts without being told to")
			} else if !strings.Contains(err.Error(), filepath.Base(name)) {
				t.Errorf("it does not say why: %v", err)
			}
			log := &journal{}
			_, stop := start(t, Options{Config: cfg, Dir: dir, Salvage: true, Log: slog.New(log)})
			if log.count("damaged file was moved away") == 0 {
				t.Error("the log does not say so")
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			kept, err := filepath.Glob(filepath.Join(dir, "set-aside", "*", name))
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept as %q, %v", kept, err)
			}
			if b, err := os.ReadFile(kept[0]); err != nil || string(b) != "{damaged" {
				t.Errorf("kept %q, %v", b, err)
			}
			if x, err := Examine(t.Context(), cfg, dir); err != nil || !x.Sound() {
				t.Errorf("then: %+v, %v", x, err)
			}
		})
	}
	key := filepath.Join(dir, meshFolder, "node.key")
	if err := os.WriteFile(key, []byte("{damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := Open(t.Context(), Options{Config: cfg, Dir: dir, Salvage: true}); err == nil {
		n.Close(t.Context())
		t.Error("it starts with another key")
	} else if b, err := os.ReadFile(key); err != nil || string(b) != "{damaged" {
		t.Errorf("the key became %q, %v", b, err)
	}
}

// TestDamagedGreylist checks that a damaged greylist is set aside, and that the node starts without
// an option.
func TestDamagedGreylist(t *testing.T) {
	cfg := parse(t, everyPart)
	dir := everyPartFolder(t, cfg)
	if err := os.WriteFile(filepath.Join(dir, doors.GreylistFile), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stop := start(t, Options{Config: cfg, Dir: dir})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "set-aside", "*", doors.GreylistFile))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept as %q, %v", kept, err)
	}
	if b, err := os.ReadFile(kept[0]); err != nil || string(b) != "damaged" {
		t.Errorf("kept %q, %v", b, err)
	}
	if err := doors.CheckGreylist(filepath.Join(dir, doors.GreylistFile)); err != nil {
		t.Errorf("then: %v", err)
	}
}

// FuzzInventory checks that, for any content of the file, its names stay in the folder, and that a
// value that is read, written and read again is the same.
func FuzzInventory(f *testing.F) {
	for _, seed := range []string{"", "store\n", "mesh\nmesh/peers.json\nstore", "../x\n", "/etc\n", "a\x00\n", "\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		names, err := parseInventory(b)
		if err != nil {
			return
		}
		for _, name := range names {
			if !filepath.IsLocal(name) {
				t.Errorf("%q leads out of the folder", name)
			}
		}
		again, err := parseInventory([]byte(strings.Join(names, "\n") + "\n"))
		if len(b) < maxInventory && (err != nil || !slices.Equal(again, names)) {
			t.Errorf("%q is read again as %q, %v", names, again, err)
		}
	})
}
