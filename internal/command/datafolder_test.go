package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

func TestDataFolder(t *testing.T) {
	for _, tt := range []struct{ flag, configured, systemd, want string }{
		{"", "", "", "bulkhead-data"},
		{"", "", "/var/lib/a:/var/lib/b", "/var/lib/a"},
		{"", "conf", "/var/lib/a", "conf"},
		{"flag", "conf", "/var/lib/a", "flag"},
	} {
		t.Setenv("STATE_DIRECTORY", tt.systemd)
		if got := DataFolder(tt.flag, tt.configured); got != tt.want {
			t.Errorf("DataFolder(%q, %q) with STATE_DIRECTORY=%q = %q, want %q", tt.flag, tt.configured, tt.systemd,
				got, tt.want)
		}
	}
}

// TestFindNode: if no folder is named and the working folder has none, the installed node is found
// by its configuration or by the folder of its service, and its token stays on this machine.
func TestFindNode(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	t.Chdir(t.TempDir())
	config, data := InstalledConfig, InstalledData
	t.Cleanup(func() { InstalledConfig, InstalledData = config, data })
	root := t.TempDir()
	InstalledConfig = filepath.Join(root, "etc/bulkhead/bulkhead.toml")
	InstalledData = filepath.Join(root, "var/lib/bulkhead")
	check := func(what string, want machineNode) {
		t.Helper()
		if got := findNode("", ""); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	check("nothing installed", machineNode{data: "bulkhead-data"})
	if err := os.MkdirAll(InstalledData, 0o700); err != nil {
		t.Fatal(err)
	}
	check("no configuration", machineNode{data: InstalledData, installed: true})
	other := filepath.Join(root, "other")
	if err := errors.Join(os.MkdirAll(filepath.Dir(InstalledConfig), 0o700), os.Mkdir(other, 0o700)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]machineNode{
		"[listen]\nhttp = \"127.0.0.1:9\"\n": {data: InstalledData,
			server: "http://127.0.0.1:9", installed: true},
		"[listen]\nhttp = \":9\"\n[node]\ndata = \"" + other + "\"\n": {data: other,
			server: "http://127.0.0.1:9", installed: true},
		"[listen]\nhttp = \"192.0.2.1:9\"\n[http]\ntls_cert=\"a\"\ntls_key=\"b\"\n": {data: InstalledData,
			server: "https://192.0.2.1:9", installed: true},
		"[node]\nname = \"mx\"\n":              {data: InstalledData, installed: true},
		"this is no configuration":             {data: InstalledData, installed: true},
		"[node]\ndata = \"/nowhere/at/all\"\n": {data: "bulkhead-data"},
	} {
		if err := os.WriteFile(InstalledConfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		check(text, want)
	}
	if err := os.Remove(InstalledConfig); err != nil {
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

// TestTokenStaysHere: without a socket, the token of a data folder goes to loopback addresses alone,
// and the installed node's only to one that the user names.
func TestTokenStaysHere(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("BULKHEAD_TOKEN", "")
	t.Chdir(t.TempDir())
	config, data, run := InstalledConfig, InstalledData, InstalledRun
	t.Cleanup(func() { InstalledConfig, InstalledData, InstalledRun = config, data, run })
	root := t.TempDir()
	InstalledConfig, InstalledData, InstalledRun = root+"/bulkhead.toml", root+"/data", root+"/run"
	for _, dir := range []string{InstalledData, "here"} {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+"/admin.token", []byte("secret\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		listen, server, data string
		sent                 bool
	}{
		{"127.0.0.1:9", "", "", false},
		{"192.0.2.1:9", "", "", false},
		{"127.0.0.1:9", "http://127.0.0.1:9", "", true},
		{"192.0.2.1:9", "http://[::1]:8", "", true},
		{"192.0.2.1:9", "http://192.0.2.1:9", "", false},
		{"127.0.0.1:9", "https://mx.example.com", "", false},
		{"127.0.0.1:9", "", "here", true},
		{"127.0.0.1:9", "http://localhost:9", "here", true},
		{"127.0.0.1:9", "http://192.0.2.1:9", "here", false},
	} {
		if err := os.WriteFile(InstalledConfig, []byte("[listen]\nhttp = \""+tt.listen+"\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, token := Remote{Server: tt.server}, ""
		err := r.AsAdmin(nil, tt.data, func(c *admin.Client) error { token = c.Token; return nil })
		if err != nil || (token == "secret") != tt.sent || token != "" && !tt.sent {
			t.Errorf("%+v: token %q, %v", tt, token, err)
		}
	}
}

func TestOwnAddress(t *testing.T) {
	for _, tt := range []struct{ listen, want string }{
		{":8420", "127.0.0.1:8420"},
		{"0.0.0.0:8420", "127.0.0.1:8420"},
		{"[::]:8420", "[::1]:8420"},
		{"192.0.2.1:80", "192.0.2.1:80"},
		{"[2001:db8::1]:80", "[2001:db8::1]:80"},
		{"node.example.com:8420", "node.example.com:8420"},
		{"127.0.0.1:0", ""},
		{"", ""},
	} {
		got, err := OwnAddress(tt.listen)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("a node at %q is asked at %q, %v; want %q", tt.listen, got, err, tt.want)
		}
	}
}

// TestAsAnyone: a node that does not know the token of the data folder is asked again without one, if --server names
// the node. Without --server, another node's answer says nothing about the node of the folder.
func TestAsAnyone(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("bulkhead-data", 0o700),
		os.WriteFile("bulkhead-data/admin.token", []byte("secret\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ server, token, want string }{
		{"http://127.0.0.1:9", "", "secret,"},
		{"", "", "secret"},
		{"http://127.0.0.1:9", "named", "named"},
	} {
		t.Setenv("BULKHEAD_TOKEN", tt.token)
		var tokens []string
		err := (&Remote{Server: tt.server}).AsAnyone(nil, func(c *admin.Client) error {
			if tokens = append(tokens, c.Token); c.Token == "" {
				return nil
			}
			return bulkhead.ErrUnauthorised
		})
		if got := strings.Join(tokens, ","); got != tt.want || (err == nil) != strings.HasSuffix(tt.want, ",") {
			t.Errorf("%+v: asked with %q, %v", tt, got, err)
		}
	}
}
