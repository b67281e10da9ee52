//go:build interop

package torture

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// everything is the configuration of a node that has every kind of file in its data
// folder. Its greylist keeps dccifd from being used, so other steps do without.
const everything = "wreck.toml"

// configureEverything writes [everything], with a list from which dnsbl answers.
func (v *victim) configureEverything() {
	t := v.t
	t.Helper()
	text, list := filepath.Join(v.dir, "list.txt"), filepath.Join(v.dir, "list.bulkhead")
	if err := os.WriteFile(text, []byte("192.0.2.0/24\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v.run(0, "list", "build", list, text)
	b, err := os.ReadFile(filepath.Join(v.dir, "node.toml"))
	if err != nil {
		t.Fatal(err)
	}
	b = fmt.Appendf(b,
		"[mesh]\nmode = \"hub\"\nlisten = %q\n[dccifd]\ngreylist = true\n[[lists.list]]\nname = \"list\"\npath = %q\n"+
			"[[dnsbl.zone]]\nname = \"list.example\"\nlist = \"list\"\nform = \"ip\"\n", nodetest.Address(t), list)
	if err := os.WriteFile(filepath.Join(v.dir, everything), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// wreck stops the node, and damages a file of its data folder that is not of the store, or its
// list. The node sets it aside and starts without what was in it, or it names it and refuses to
// start until the file is back. Its counts are not affected.
func (v *victim) wreck() {
	t := v.t
	if _, err := os.Stat(filepath.Join(v.dir, everything)); err != nil {
		v.configureEverything()
	}
	p := v.serveWith(everything)
	v.compare("before a file is damaged")
	end := v.begin()
	runFor(1200 * time.Millisecond)
	stop := v.rng.IntN(2) == 0
	if stop {
		p.Stop()
	} else {
		p.Kill()
	}
	end()
	list := filepath.Join(v.dir, "list.bulkhead")
	paths := []string{list}
	for _, file := range v.files(v.data, func(path string) bool {
		return !strings.HasPrefix(path, "store/") && !strings.HasPrefix(path, "set-aside/") && filepath.Base(path) != "LOCK"
	}) {
		paths = append(paths, filepath.Join(v.data, file))
	}
	path := paths[v.rng.IntN(len(paths))]
	how, before := v.corrupt(path, paths[v.rng.IntN(len(paths))])
	if how == "" {
		return
	}
	what := kindOf(path) + " " + how
	p, output := v.tryServe("", everything)
	if p == nil {
		if !strings.Contains(output, filepath.Base(path)) {
			t.Errorf("%s: the node refuses to start, and does not say why: %s", what, output)
		}
		v.faults[what+": refused by name"]++
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
		if p, output = v.tryServe("", everything); p == nil {
			t.Fatalf("%s, and put back: %s", what, output)
		}
	} else {
		v.faults[what+": started"]++
	}
	v.compare(what)
	p.Stop()
	if path == list {
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var digits = regexp.MustCompile(`[0-9a-f]{8,}|\d+`)

// kindOf returns the last two parts of a path, without what makes it one of many.
func kindOf(path string) string {
	return digits.ReplaceAllString(filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)), "N")
}

// tryServe starts the node with a configuration, after commands of the shell. If it ends
// before it answers, it returns what it said instead.
func (v *victim) tryServe(before, config string) (*nodetest.Process, string) {
	t := v.t
	t.Helper()
	cmd := exec.Command("sh", "-c", fmt.Sprintf("%s exec %s serve --config %s --data %s", before, v.bin, config, v.data))
	cmd.Dir = v.dir
	output, err := os.CreateTemp(t.TempDir(), "said")
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	p := nodetest.Start(t, cmd)
	ended := false
	v.await("a start, or an end", func() bool {
		select {
		case <-p.Exited():
			ended = true
		default:
		}
		return ended || v.client.Ready(t.Context()) == nil
	})
	if !ended {
		return p, ""
	}
	b, err := os.ReadFile(output.Name())
	if err != nil {
		t.Fatal(err)
	}
	return nil, string(bytes.TrimSpace(b))
}
