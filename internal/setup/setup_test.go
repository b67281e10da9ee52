package setup

import (
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/internal/plugins"
)

var update = flag.Bool("update", false, "write what setup does into the golden trees; look at the difference")

// plant writes files below a folder, by their paths.
func plant(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// harvest reads all files below a folder except backups.
func harvest(t testing.TB, root string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			return err
		}
		name := strings.TrimPrefix(at, root)
		if strings.HasPrefix(name, Backups+"/") {
			return nil
		}
		text, err := os.ReadFile(at)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func look(t testing.TB, o Options) *Plan {
	t.Helper()
	p, err := Look(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func apply(t testing.TB, o Options) *Plan {
	t.Helper()
	p := look(t, o)
	if _, err := p.Apply(time.Now()); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGolden sets up machines that the archives in testdata describe: files before and after,
// programs and notes. A second run must change nothing, and undo must restore the original files.
func TestGolden(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) < 8 {
		t.Fatalf("%d archives, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			before, want := make(map[string]string), make(map[string]string)
			notes := ""
			for _, f := range a.Files {
				if path, ok := strings.CutPrefix(f.Name, "before"); ok {
					before[path] = string(f.Data)
				} else if path, ok := strings.CutPrefix(f.Name, "after"); ok {
					want[path] = string(f.Data)
				} else {
					notes = string(f.Data)
				}
			}
			o := Options{}
			for line := range strings.Lines(string(a.Comment)) {
				if list, ok := strings.CutPrefix(line, "for: "); ok {
					o.For = strings.Split(strings.TrimSpace(list), ",")
				}
			}
			o.Root = plant(t, before)
			p := apply(t, o)

			gotNotes := "for " + strings.Join(p.For, ", ") + "\n"
			for _, n := range p.Notes {
				gotNotes += "note " + n + "\n"
			}
			for _, c := range p.After {
				gotNotes += "then " + c + "\n"
			}
			got := harvest(t, o.Root)
			changed := make(map[string]string)
			for path, text := range got {
				if was, ok := before[path]; !ok || was != text {
					changed[path] = shipped(t, path, text)
				}
			}
			if *update {
				writeGolden(t, name, a, changed, gotNotes)
				return
			}
			if gotNotes != notes {
				t.Errorf("said\n%s\nwant\n%s", gotNotes, notes)
			}
			if !maps.Equal(changed, want) {
				for _, path := range slices.Sorted(maps.Keys(changed)) {
					if want[path] != changed[path] {
						t.Errorf("%s became\n%s\nwant\n%s", path, changed[path], want[path])
					}
				}
				for path := range want {
					if _, ok := changed[path]; !ok {
						t.Errorf("%s stayed as it was", path)
					}
				}
			}

			if again := look(t, o); len(again.Changes) > 0 {
				var b strings.Builder
				again.WriteDiff(&b)
				t.Errorf("a second run changes\n%s", b.String())
			}
			if len(p.Changes) > 0 {
				if _, err := Undo(o.Root); err != nil {
					t.Fatal(err)
				}
			}
			if after := harvest(t, o.Root); !maps.Equal(after, before) {
				t.Errorf("undo left %v, want %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
			}
			if _, err := Undo(o.Root); !errors.Is(err, ErrNoBackup) {
				t.Errorf("a second undo: %v", err)
			}
		})
	}
}

// shipped returns a text, or a placeholder if it is the text of a plugin.
func shipped(t *testing.T, path, text string) string {
	t.Helper()
	for _, name := range []string{"rspamd/bulkhead.lua", "spamassassin/Bulkhead.pm", "spamassassin/bulkhead.cf"} {
		if filepath.Base(path) != filepath.Base(name) {
			continue
		}
		if want, err := plugins.Files.ReadFile(name); err != nil || string(want) != text {
			t.Errorf("%s is not %s (%v)", path, name, err)
		}
		return "the plugin\n"
	}
	return text
}

func writeGolden(t *testing.T, name string, a *txtar.Archive, changed map[string]string, notes string) {
	t.Helper()
	a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return !strings.HasPrefix(f.Name, "before") })
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		a.Files = append(a.Files, txtar.File{Name: "after" + path, Data: []byte(changed[path])})
	}
	a.Files = append(a.Files, txtar.File{Name: "said", Data: []byte(notes)})
	if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLinks checks that links in a root are resolved as programs inside it would resolve them, and
// never lead out of it.
func TestLinks(t *testing.T) {
	outside := plant(t, map[string]string{"/main.cf": "outside = yes\n"})
	for _, link := range []struct{ at, target, real string }{
		{"/etc/postfix", "/srv/postfix", "/srv/postfix/main.cf"},
		{"/etc/postfix", "../srv/postfix", "/srv/postfix/main.cf"},
		{"/etc/postfix", "../../../../../../../../srv/postfix", "/srv/postfix/main.cf"},
		{"/etc/postfix/main.cf", "/srv/postfix/main.cf", "/srv/postfix/main.cf"},
	} {
		root := plant(t, map[string]string{"/srv/postfix/main.cf": "inside = yes\n"})
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, link.at)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(link.target, filepath.Join(root, link.at)); err != nil {
			t.Fatal(err)
		}
		apply(t, Options{Root: root, For: []string{"postfix"}})
		got, err := os.ReadFile(filepath.Join(root, link.real))
		if err != nil || !strings.Contains(string(got), "smtpd_milters") {
			t.Errorf("%s -> %s: %q, %v", link.at, link.target, got, err)
		}
	}
	root := plant(t, nil)
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "etc/postfix")); err != nil {
		t.Fatal(err)
	}
	if p, err := Look(Options{Root: root, For: []string{"postfix"}}); err == nil {
		t.Errorf("found what lies outside: %v", p.Changes)
	}
	if err := os.Symlink("loop", filepath.Join(root, "etc/loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := Look(Options{Root: root, Config: "/etc/loop"}); err == nil {
		t.Error("a link to itself was read")
	}
	if got := harvest(t, outside); got["/main.cf"] != "outside = yes\n" {
		t.Errorf("outside there is %q", got)
	}
}

// TestModes checks that a file keeps its mode, and that backups of files that other users may not
// read are not readable for them.
func TestModes(t *testing.T) {
	root := plant(t, map[string]string{"/etc/postfix/main.cf": "a = b\n"})
	main := filepath.Join(root, "etc/postfix/main.cf")
	if err := os.Chmod(main, 0o600); err != nil {
		t.Fatal(err)
	}
	apply(t, Options{Root: root})
	for _, name := range []string{main, ""} {
		if name == "" {
			names, _ := filepath.Glob(root + Backups + "/*")
			if len(names) != 1 {
				t.Fatalf("backups %v", names)
			}
			name = names[0]
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestRefusals checks that nothing is changed if any change is impossible.
func TestRefusals(t *testing.T) {
	files := map[string]string{"/etc/postfix/main.cf": "a = b\n",
		"/etc/bulkhead/bulkhead.toml": "[listen]\nhttp = \"127.0.0.1:8420\"\n"}
	root := plant(t, files)
	main := filepath.Join(root, "etc/postfix/main.cf")
	for _, o := range []Options{
		{Root: root, For: []string{"sendmail"}}, {Root: root, For: []string{"rspamd"}}, {Root: filepath.Join(root, "none")},
		{Root: root, Config: "/etc/postfix/main.cf"},
	} {
		if _, err := Look(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}

	// A file changes while the administrator reads the diff.
	p := look(t, Options{Root: root})
	if err := os.WriteFile(main, []byte("a = c\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(time.Now()); err == nil || !strings.Contains(err.Error(), "changed just now") {
		t.Errorf("applied to a file that was changed: %v", err)
	}
	// If the second file cannot be written, the first is restored.
	p = look(t, Options{Root: root})
	if len(p.Changes) != 2 {
		t.Fatalf("changes %+v", p.Changes)
	}
	blocker := filepath.Join(root, p.Changes[1].Path) + ".bulkhead-setup"
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(time.Now()); err == nil {
		t.Error("wrote over a file that was in the way")
	}
	if err := os.Remove(blocker); err != nil {
		t.Fatal(err)
	}
	files["/etc/postfix/main.cf"] = "a = c\n"
	if got := harvest(t, root); !maps.Equal(got, files) {
		t.Errorf("after a failure: %q", got)
	}
	if _, err := Undo(root); !errors.Is(err, ErrNoBackup) {
		t.Errorf("the backup of nothing is kept: %v", err)
	}

	// Undo restores all or nothing.
	apply(t, Options{Root: root})
	f, err := os.OpenFile(main, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("later = yes\n")
	f.Close()
	was := harvest(t, root)
	if _, err := Undo(root); err == nil || !strings.Contains(err.Error(), "main.cf was changed since") {
		t.Errorf("undo over a later change: %v", err)
	}
	if got := harvest(t, root); !maps.Equal(got, was) {
		t.Errorf("undo that was refused changed %q", got)
	}
}

// TestUndoInTurn checks that each undo takes back one setup, the latest first.
func TestUndoInTurn(t *testing.T) {
	root := plant(t, map[string]string{"/etc/postfix/main.cf": "a = b\n"})
	start := harvest(t, root)
	apply(t, Options{Root: root})
	middle := harvest(t, root)
	apply(t, Options{Root: root, For: []string{"policy"}})
	for _, want := range []map[string]string{middle, start} {
		if _, err := Undo(root); err != nil {
			t.Fatal(err)
		}
		if got := harvest(t, root); !maps.Equal(got, want) {
			t.Errorf("undone to %q, want %q", got, want)
		}
	}
}

// TestParameters checks edits of main.cf with an independent reader: the changed parameter has one
// additional word, and all others are unchanged.
func TestParameters(t *testing.T) {
	line := rapid.SampledFrom([]string{"smtpd_milters = inet:a:1\n", "smtpd_milters=\n", "smtpd_milters =\n  inet:b:2,\n",
		"smtpd_milters = {inet:c:3,\n  default_action=accept}\n",
		"# smtpd_milters = no\n", "   # in between\n", "\n", "other = 1\n", "other =\n", "  more\n",
		"smtpd_milters_x = y\n", "\tlast"})
	rapid.Check(t, func(t *rapid.T) {
		text := "first = 1\n" + strings.Join(rapid.SliceOfN(line, 0, 8).Draw(t, "lines"), "")
		got := readMain(appendParameter(text, "smtpd_milters", "NEW"))
		want := readMain(text)
		words := strings.Fields(strings.ReplaceAll(want["smtpd_milters"], ",", " "))
		if have := strings.Fields(strings.ReplaceAll(got["smtpd_milters"], ",", " ")); !slices.Equal(have,
			append(words, "NEW")) {
			t.Fatalf("%q\nhas %q, want %q and NEW", text, have, words)
		}
		if len(words) > 0 {
			front := readMain(prependParameter(text, "smtpd_milters", "NEW,"))
			if have := strings.Fields(strings.ReplaceAll(front["smtpd_milters"], ",", " ")); !slices.Equal(have,
				append([]string{"NEW"}, words...)) {
				t.Fatalf("%q\nhas %q, want NEW and %q", text, have, words)
			}
		}
		delete(got, "smtpd_milters")
		delete(want, "smtpd_milters")
		if !maps.Equal(got, want) {
			t.Fatalf("%q\nhas %q, want %q", text, got, want)
		}
	})
}

// readMain reads main.cf by first joining the lines of each parameter.
func readMain(text string) map[string]string {
	var logical []string
	for _, l := range strings.Split(text, "\n") {
		if s := strings.TrimSpace(l); s == "" || s[0] == '#' {
			continue
		}
		if l[0] == ' ' || l[0] == '\t' {
			logical[len(logical)-1] += l
			continue
		}
		logical = append(logical, l)
	}
	values := make(map[string]string)
	for _, l := range logical {
		name, value, _ := strings.Cut(l, "=")
		values[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return values
}

// TestBlocks checks that the lines between the marks are replaced, and the lines around them stay.
func TestBlocks(t *testing.T) {
	part := rapid.SampledFrom([]string{"", "a\n", blockBegin + "\n", blockEnd + "\n", "b\n", " " + blockBegin + "\n", "c"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(part, 0, 6).Draw(t, "parts"), "")
		once := withBlock(text, "x\n")
		if twice := withBlock(once, "x\n"); twice != once {
			t.Fatalf("%q: %q, and then %q", text, once, twice)
		}
		if !strings.Contains(once, blockBegin+"\nx\n"+blockEnd+"\n") {
			t.Fatalf("%q: %q", text, once)
		}
		if _, _, marked := cutBlock(text); !marked &&
			strings.TrimSuffix(withBlock(once, ""), "\n") != strings.TrimSuffix(text, "\n") {
			t.Fatalf("%q: %q without the block", text, withBlock(once, ""))
		}
	})
}

// FuzzLook checks that, whatever the files of a machine contain, setup makes a plan or explains why
// it cannot, that a second run has nothing to change, and that undo restores the files.
func FuzzLook(f *testing.F) {
	if memory, err := os.Stat("/dev/shm"); err == nil && memory.IsDir() {
		f.Setenv("TMPDIR", "/dev/shm") // files are synced, which takes long on a disk
	}
	for i, seed := range []string{"smtpd_milters =\n", "add_header = 9;", "score BULKHEAD_SPAM 9\n" + blockBegin + "\n",
		"plugin {\n sieve_plugins = a\n}\n}\nmailbox \"{\n special_use = \\Junk\n",
		"CHECK_DATA_LOCAL_ACL_FILE = /etc/x\n" + blockBegin + "\n", "[listen]\nhttp = \"\""} {
		f.Add([]byte(seed), uint8(i))
	}
	f.Add([]byte("# caf\xe9, in Latin 1\nmyhostname = mx\n"), uint8(0))
	paths := []string{"/etc/postfix/main.cf", "/etc/rspamd/local.d/actions.conf", "/etc/spamassassin/local.cf",
		"/etc/dovecot/dovecot.conf", "/etc/exim4/exim4.conf.localmacros", DefaultConfig}
	f.Fuzz(func(t *testing.T, text []byte, which uint8) {
		files := map[string]string{"/etc/rspamd/rspamd.conf": "", "/etc/exim4/exim4.conf.template": "",
			"/usr/lib/dovecot/modules/lib95_imap_sieve_plugin.so": ""}
		for i, path := range paths[:5] {
			files[path] = ""
			if int(which)%len(paths) == i {
				files[path] = string(text)
			}
		}
		if int(which)%len(paths) == 5 {
			files[DefaultConfig] = string(text)
		}
		root := plant(t, files)
		o := Options{Root: root, For: []string{"rspamd", "spamassassin", "postfix", "exim", "dovecot", "policy"}}
		p, err := Look(o)
		if err != nil {
			return
		}
		defer p.Close()
		if _, err := p.Apply(time.Now()); err != nil {
			if got := harvest(t, root); !maps.Equal(got, files) {
				t.Fatalf("%v, and left %q", err, got)
			}
			return
		}
		again, err := Look(o)
		if err != nil {
			t.Fatalf("a second run: %v", err)
		}
		defer again.Close()
		if len(again.Changes) > 0 {
			var b strings.Builder
			again.WriteDiff(&b)
			t.Fatalf("a second run changes\n%s", b.String())
		}
		if _, err := Undo(root); err != nil && len(p.Changes) > 0 {
			t.Fatal(err)
		}
		if got := harvest(t, root); !maps.Equal(got, files) {
			t.Fatalf("undo left %q, want %q", got, files)
		}
	})
}

// TestUndoLeavesNothing applies a plan, compiles its scripts as sievec does, and takes it back: no file
// and no folder is left, and the commands are those that make the programs notice.
func TestUndoLeavesNothing(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"etc/dovecot/dovecot.conf", "usr/lib/dovecot/modules/lib95_imap_sieve_plugin.so"} {
		at := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte("a = b\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	everything := func() (all []string) {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			all = append(all, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := everything()
	p, err := Look(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Apply(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, dovecotSieve, "spam.svbin"), []byte("compiled"), 0o644); err != nil {
		t.Fatal(err)
	}
	last, err := Last(root)
	if err != nil || !slices.Contains(last.After, "systemctl reload dovecot") || len(last.Removed) < 4 ||
		!slices.Equal(last.PutBack, []string{dovecotConf}) {
		t.Errorf("the latest change is %+v, %v", last, err)
	}
	if slices.ContainsFunc(last.After, func(c string) bool { return strings.HasPrefix(c, "sievec") }) {
		t.Errorf("after undo, scripts are compiled that are gone: %q", last.After)
	}
	if _, err := Undo(root); err != nil {
		t.Fatal(err)
	}
	if after := everything(); !slices.Equal(after, before) {
		t.Errorf("after undo there is %q, before there was %q", after, before)
	}
	if _, err := Last(root); !errors.Is(err, ErrNoBackup) {
		t.Errorf("a second undo: %v", err)
	}
}
