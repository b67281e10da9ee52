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
	if code := run([]string{"restore", "--data", t.TempDir(), "-"}, &none, &none, &none); code != int(cli.Data) {
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
		{"doctor", "--repair", "--data", theirs},
	} {
		var out, errs bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errs)
		if code != int(cli.NoPerm) || strings.Count(errs.String(), "owned by user 65534") != 1 {
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
	if err := os.Mkdir(filepath.Join(made, "store"), 0o700); err != nil { // a folder with a record of administration
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	for _, args := range [][]string{{"restore", "--data", made, "-"}, {"user", "recover", "--data", made},
		{"doctor", "--repair", "--data", made}} {
		errs.Reset()
		code := run(args, strings.NewReader(""), &out, &errs)
		if code != int(cli.NoPerm) || strings.Count(errs.String(), "owned by user 65534") != 1 {
			t.Errorf("%s exits with %d, want %d and one line: %s", args[0], code, cli.NoPerm, errs.String())
		}
	}
	for _, what := range []string{"rotate", "show"} { // which makes the node's key if it is missing
		if code := run([]string{"network", what, "--data", made}, strings.NewReader(""), &none,
			&none); code != int(cli.NoPerm) {
			t.Errorf("network %s exits with %d, want %d", what, code, cli.NoPerm)
		}
	}
}

// TestFolderIsFile: a data folder that is a file is named, and stays as it is.
func TestFolderIsFile(t *testing.T) {
	dir := t.TempDir()
	node, file := filepath.Join(dir, "node.toml"), filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(node, []byte("[listen]\nhttp = \"\"\n"), 0o600),
		os.WriteFile(file, []byte("text"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := run([]string{"serve", "--config", node, "--data", file}, strings.NewReader(""), &out, &errs)
	if text, err := os.ReadFile(file); code == cli.OK || !strings.Contains(errs.String(), file+": not a directory") ||
		string(text) != "text" || err != nil {
		t.Errorf("exits with %d: %s; the file has %q, %v", code, errs.String(), text, err)
	}
}
