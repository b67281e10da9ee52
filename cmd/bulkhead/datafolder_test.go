package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
)

func TestDataFolder(t *testing.T) {
	for _, tt := range []struct{ flag, configured, systemd, want string }{
		{"", "", "", "bulkhead-data"},
		{"", "", "/var/lib/a:/var/lib/b", "/var/lib/a"},
		{"", "conf", "/var/lib/a", "conf"},
		{"flag", "conf", "/var/lib/a", "flag"},
	} {
		t.Setenv("STATE_DIRECTORY", tt.systemd)
		if got := dataFolder(tt.flag, tt.configured); got != tt.want {
			t.Errorf("dataFolder(%q, %q) with STATE_DIRECTORY=%q = %q, want %q", tt.flag, tt.configured, tt.systemd,
				got, tt.want)
		}
	}
}

// TestFindNode: if no folder is named and the working folder has none, the installed node is found
// by its configuration or by the folder of its service, and its token stays on this machine.
func TestFindNode(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	t.Chdir(t.TempDir())
	config, data := installedConfig, installedData
	t.Cleanup(func() { installedConfig, installedData = config, data })
	root := t.TempDir()
	redirect(root)
	check := func(what string, want machineNode) {
		t.Helper()
		if got := findNode("", ""); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	check("nothing installed", machineNode{data: "bulkhead-data"})
	if err := os.MkdirAll(installedData, 0o700); err != nil {
		t.Fatal(err)
	}
	check("no configuration", machineNode{data: installedData, installed: true})
	other := filepath.Join(root, "other")
	if err := errors.Join(os.MkdirAll(filepath.Dir(installedConfig), 0o700), os.Mkdir(other, 0o700)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]machineNode{
		"[listen]\nhttp = \"127.0.0.1:9\"\n": {data: installedData,
			server: "http://127.0.0.1:9", installed: true},
		"[listen]\nhttp = \":9\"\n[node]\ndata = \"" + other + "\"\n": {data: other,
			server: "http://127.0.0.1:9", installed: true},
		"[listen]\nhttp = \"192.0.2.1:9\"\n[http]\ntls_cert=\"a\"\ntls_key=\"b\"\n": {data: installedData,
			server: "https://192.0.2.1:9", installed: true},
		"[node]\nname = \"mx\"\n":              {data: installedData, installed: true},
		"this is no configuration":             {data: installedData, installed: true},
		"[node]\ndata = \"/nowhere/at/all\"\n": {data: "bulkhead-data"},
	} {
		if err := os.WriteFile(installedConfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		check(text, want)
	}
	if err := os.Remove(installedConfig); err != nil {
		t.Fatal(err)
	}
	for _, named := range []struct{ flag, configured string }{{"bulkhead-data", ""}, {"", "bulkhead-data"}} {
		if got := findNode(named.flag, named.configured); got.installed {
			t.Errorf("%+v: %+v, want the folder that is named", named, got)
		}
	}
	if err := os.Mkdir("bulkhead-data", 0o700); err != nil {
		t.Fatal(err)
	}
	check("a node here", machineNode{data: "bulkhead-data"})

	n := machineNode{server: "http://192.0.2.1:8420", installed: true}
	for url, want := range map[string]bool{
		"http://127.0.0.1:1": true, "http://[::1]:8420": true, "http://localhost:8420": true, "http://192.0.2.1:8420": true,
		"http://192.0.2.1:8421": false, "http://192.0.2.2:8420": false, "https://mx.example.com": false,
		"http://127.0.0.1.example.com": false, "%": false,
	} {
		if got := n.isAt(url); got != want {
			t.Errorf("isAt(%q) = %v, want %v", url, got, want)
		}
	}
}

// TestOwnFolder checks that root creates nothing in another user's folder, which that user could
// not read, and reads the existing files without changing them.
func TestOwnFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can write into the folders of others")
	}
	dir := t.TempDir()
	node := filepath.Join(dir, "node.toml")
	if err := os.WriteFile(node, []byte("[listen]\nhttp = \"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var none bytes.Buffer
	if code := run([]string{"restore", "--data", dir, "-"}, &none, &none, &none); code != int(cli.Data) {
		t.Fatalf("restore of nothing exits with %d, want %d: %s", code, cli.Data, none.String())
	}
	theirs := filepath.Join(dir, "theirs")
	if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"serve", "--config", node, "--data", theirs},
		{"network", "new", "--data", theirs},
		{"restore", "--data", theirs, "-"},
	} {
		var out, errs bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errs)
		if code != int(cli.NoPerm) || !strings.Contains(errs.String(), "owned by user 65534") {
			t.Errorf("%s exits with %d, want %d: %s", args[0], code, cli.NoPerm, errs.String())
		}
		if names, err := os.ReadDir(theirs); err != nil || len(names) != 0 {
			t.Fatalf("%s has left %v, %v", args[0], names, err)
		}
	}
	// Root changes nothing in an existing node of another user either.
	made := filepath.Join(dir, "made")
	if code := run([]string{"network", "new", "--data", made}, strings.NewReader(""), &none, &none); code != cli.OK {
		t.Fatal(none.String())
	}
	if err := errors.Join(os.Chown(made, 65534, 65534), os.Chown(filepath.Join(made, "mesh"), 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"rotate", "show"} { // which makes the node's key if it is missing
		if code := run([]string{"network", what, "--data", made}, strings.NewReader(""), &none,
			&none); code != int(cli.NoPerm) {
			t.Errorf("network %s exits with %d, want %d", what, code, cli.NoPerm)
		}
	}
}
