package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/shard/bucket"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
)

// run runs "bulkhead shard" with arguments, and returns what it prints.
func run(t testing.TB, url string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "bulkhead", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Commands()...)
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetIn(strings.NewReader(""))
	if url != "" {
		args = append(args, "--nats", url)
	}
	root.SetArgs(append([]string{"shard"}, args...))
	err = root.ExecuteContext(context.Background())
	return out.String(), errs.String(), err
}

// node serves the health check of a node.
func node(t testing.TB) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ready") }))
	t.Cleanup(s.Close)
	return s.URL
}

// shownMap returns the map as --json prints it.
func shownMap(t testing.TB, url string) (m shown) {
	t.Helper()
	out, _, err := run(t, url, "show", "--json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &m)
	}
	if err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return m
}

// TestCommands takes a site from no map to three shards, back to two, and to an earlier map.
func TestCommands(t *testing.T) {
	url := "nats://" + natstest.Start(t)
	a, a2, b, c := node(t), "http://127.0.0.1:1", node(t), node(t)
	if _, _, err := run(t, url, "show"); err == nil || !strings.Contains(err.Error(), "no map") {
		t.Fatalf("no map: %v", err)
	}
	slots := func() map[string]int {
		out := make(map[string]int)
		for _, s := range shownMap(t, url).Shards {
			out[s.Name] = s.Slots
		}
		return out
	}
	for i, tt := range []struct {
		args []string
		want string // of the slots then, or part of the error
	}{
		{[]string{"move", "a", "--yes"}, "no map"},
		{[]string{"add", "a"}, "takes NAME URL [STANDBY-URL]..."},
		{[]string{"add", "A", a}, "name of a shard"},
		{[]string{"add", "a", "ftp://x"}, "not the URL"},
		{[]string{"add", "a", a, a2}, "map[a:1024]"},
		{[]string{"add", "a", b}, "already"},
		{[]string{"add", "b", b}, "map[a:1024 b:0]"},
		{[]string{"move", "b"}, "not a terminal"},
		{[]string{"move", "b", "--yes"}, "map[a:512 b:512]"},
		{[]string{"move", "b", "--yes"}, "has its part"},
		{[]string{"add", "c", c}, "map[a:512 b:512 c:0]"},
		{[]string{"move", "c", "--yes"}, "map[a:341 b:342 c:341]"},
		{[]string{"move", "a", "--from", "c", "--slots", "41", "--yes"}, "map[a:382 b:342 c:300]"},
		{[]string{"move", "a", "--from", "c", "--yes"}, "needs --slots"},
		{[]string{"move", "a", "--slots", "0", "--yes"}, "want 1 or more"},
		{[]string{"move", "a", "--from", "x", "--slots", "1", "--yes"}, "no shard"},
		{[]string{"remove", "c", "--yes"}, "drain it first"},
		{[]string{"drain", "c"}, "not a terminal"},
		{[]string{"drain", "c", "--yes"}, "map[a:512 b:512 c:0]"},
		{[]string{"remove", "c", "--yes"}, "map[a:512 b:512]"},
		{[]string{"default", "b"}, "map[a:512 b:512]"},
		{[]string{"set", "b", b, "http://127.0.0.1:2"}, "map[a:512 b:512]"},
		{[]string{"restore", "4", "--yes"}, "map[a:512 b:512 c:0]"},
		{[]string{"restore", "99", "--yes"}, "not in the history"},
	} {
		_, _, err := run(t, url, tt.args...)
		if err != nil {
			if !strings.Contains(err.Error(), tt.want) || command.CodeOf(err) == int(cli.Software) {
				t.Errorf("%d: %v: %v (exit code %d), want %s", i, tt.args, err, command.CodeOf(err), tt.want)
			}
			continue
		}
		if got := fmt.Sprint(slots()); got != tt.want {
			t.Errorf("%d: %v: %s, want %s", i, tt.args, got, tt.want)
		}
	}
	out, _, err := run(t, url, "show")
	for _, want := range []string{"a (default)", "50.0 %", "no standby answers", "restore version 4"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("show: %q is missing: %v\n%s", want, err, out)
		}
	}
	out, _, err = run(t, url, "show", "Ann+x@Example.com", "bob@example.com")
	if err != nil || !strings.Contains(out, "ann@example.com") || strings.Count(out, "\n") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = run(t, url, "history")
	if err != nil || strings.Count(out, "\n") != int(shownMap(t, url).Version)+1 || !strings.Contains(out, "drain c") {
		t.Errorf("%v\n%s", err, out)
	}
	_, facts, err := run(t, url, "drain", "a", "--yes")
	for _, want := range []string{"512 of 1024 slots", "50.0 %", "a to b: 512; a keeps 0, b has 1024", "Counts stay"} {
		if err != nil || !strings.Contains(facts, want) {
			t.Errorf("facts: %q is missing: %v\n%s", want, err, facts)
		}
	}
}

// TestAtOnce has two administrators add and move at once. No change is lost.
func TestAtOnce(t *testing.T) {
	url := "nats://" + natstest.Start(t)
	if _, _, err := run(t, url, "add", "first", "http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for admin := range 2 {
		running.Go(func() {
			for n := range 4 {
				name := fmt.Sprintf("s%d-%d", admin, n)
				for _, args := range [][]string{{"add", name, fmt.Sprintf("http://127.0.0.1:%d", 10+10*admin+n)},
					{"move", name, "--from", "first", "--slots", "7", "--yes"}} {
					if _, _, err := run(t, url, args...); err != nil {
						t.Errorf("%v: %v", args, err)
					}
				}
			}
		})
	}
	running.Wait()
	m := shownMap(t, url)
	if m.Version != 17 || len(m.Shards) != 9 {
		t.Errorf("version %d with %d shards, want 17 with 9", m.Version, len(m.Shards))
	}
	for _, s := range m.Shards {
		if want := map[bool]int{true: 1024 - 8*7, false: 7}[s.Name == "first"]; s.Slots != want {
			t.Errorf("%s has %d slots, want %d", s.Name, s.Slots, want)
		}
	}
}

// TestBroken mends a map that is not valid.
func TestBroken(t *testing.T) {
	url := "nats://" + natstest.Start(t)
	if _, _, err := run(t, url, "add", "a", "http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	kv, err := natstest.JetStream(t, url).KeyValue(t.Context(), bucket.Name)
	if err == nil {
		_, err = kv.Put(t.Context(), "main", []byte("\x1b[31m{"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"show"}, {"add", "b", "http://127.0.0.1:2"}} {
		if _, _, err := run(t, url, args...); command.CodeOf(err) != int(cli.Data) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, _, err := run(t, url, "restore", "1", "--yes"); err != nil {
		t.Fatal(err)
	}
	if m := shownMap(t, url); len(m.Shards) != 1 || m.Version != 2 {
		t.Errorf("%+v", m)
	}
}

// TestServers finds the servers in a configuration, and reports servers that are away.
func TestServers(t *testing.T) {
	url := "nats://" + natstest.Start(t)
	path := filepath.Join(t.TempDir(), "edge.toml")
	text := fmt.Appendf(nil, "[shards]\nservers = [%q]\nsite = \"north\"\n", url)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, "", "add", "a", "http://127.0.0.1:1", "--config", path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, url, "show"); err == nil {
		t.Error("site main has the map of site north")
	}
	if _, _, err := run(t, url, "show", "--site", "north"); err != nil {
		t.Error(err)
	}
	if _, _, err := run(t, url, "show", "--site", "no.rth"); err == nil {
		t.Error("a name of a site with a dot")
	}
	_, _, err := run(t, "nats://127.0.0.1:1", "show", "--timeout", "1s")
	var code cli.Code
	if !errors.As(err, &code) || code != cli.Unavailable {
		t.Errorf("no server: %v", err)
	}
}
