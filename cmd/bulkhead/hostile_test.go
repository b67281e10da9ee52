package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// hostile is a name, a subject or a peer that attacks a terminal and forges a line.
const hostile = "evil\x1b]0;x\a\x1b[31m\u009b31m\u202e\u2066\u2028\r\nFORGED\tcell\x7f"

// answers are the types of a node's answers, by method and path.
var answers = []struct {
	path string
	of   any
}{
	{"^POST /v1/check", client.Verdict{}},
	{"^POST /v1/(report|revoke|history/)", client.Receipt{}},
	{"^POST /v1/signatures", client.Signatures{}},
	{"^GET /v1/node|/v1/ageing|/v1/standby", admin.NodeState{}},
	{"^GET /v1/config", admin.Configuration{}},
	{"^POST /v1/config", admin.ConfigCheck{}},
	{"^GET /v1/ratelimits/top", []admin.TopKeys{}},
	{"^GET /v1/ratelimits/keys", []admin.RateKey{}},
	{"^DELETE /v1/ratelimits/keys", admin.RateReset{}},
	{"^GET /v1/ratelimits", []admin.RateLimit{}},
	{"^POST /v1/ratelimits", admin.RateDecision{}},
	{"^GET /v1/weights", []admin.Weights{}},
	{"^GET /v1/examination", admin.Examination{}},
	{"^GET /v1/history/", admin.HistoryEntry{}},
	{"^GET /v1/history", admin.HistoryPage{}},
	{"^GET /v1/audit", admin.AuditPage{}},
	{"^GET /v1/waves/", admin.WaveDetail{}},
	{"^GET /v1/waves", admin.WavePage{}},
	{"/v1/whitelist", []admin.Cleared{}},
	{"^GET /v1/network", admin.Network{}},
	{"/(eviction|rollback)$", admin.PeerLoss{}},
	{"^GET /v1/peers$", []admin.Peer{}},
	{"/v1/peers", admin.Peer{}},
	{"^POST /v1/invitations", admin.Invitation{}},
	{"^GET /v1/invitations", []admin.Invitation{}},
	{"/v1/network/join", admin.Joining{}},
	{"/v1/network/leave", admin.Left{}},
	{"/v1/network/secret", admin.SecretChange{}},
	{"^GET /v1/rules", []admin.Rule{}},
	{"^GET /v1/size", admin.Sizes{}},
	{"^GET /v1/lists/find", []admin.ListMatch{}},
	{"^GET /v1/lists", []admin.List{}},
	{"^GET /v1/users$", []admin.User{}},
	{"^POST /v1/users$|/token$", admin.Token{}},
	{"/undo$", admin.Undone{}},
	{"/closing$", admin.Closing{}},
	{"/v1/users/", admin.User{}},
	{"/v1/login", admin.LoginLink{}},
	{"/v1/whoami", admin.Viewer{}},
	{"/v1/verdicts", admin.Verdicts{}},
}

// fill sets every string that v holds to the hostile one, and everything else to something.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)))
			return
		}
		if v.Type() == reflect.TypeFor[bulkhead.Signature]() {
			v.Set(reflect.ValueOf(bulkhead.NamedSignature(bulkhead.Link, "example.com")))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth)
			}
		}
	case reflect.Slice:
		if depth < 4 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			for i := range v.Len() {
				fill(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			v.Set(reflect.MakeMap(v.Type()))
			of := reflect.New(v.Type().Elem()).Elem()
			fill(of, depth+1)
			v.SetMapIndex(reflect.ValueOf(hostile).Convert(v.Type().Key()), of)
		}
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	}
}

// hostileNode answers every request with hostile strings, or refuses each with them.
func hostileNode(t *testing.T, refuses bool) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			json.NewEncoder(w).Encode(client.Problem{Title: hostile, Status: http.StatusForbidden, Detail: hostile})
			return
		}
		for _, a := range answers {
			if regexp.MustCompile(a.path).MatchString(r.Method + " " + r.URL.Path) {
				v := reflect.New(reflect.TypeOf(a.of)).Elem()
				fill(v, 0)
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(v.Interface()); err != nil {
					t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
				}
				return
			}
		}
		t.Errorf("no answer for %s %s", r.Method, r.URL.Path)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// leaves returns the commands that do something.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	if len(cmd.Commands()) == 0 {
		return []*cobra.Command{cmd}
	}
	for _, c := range cmd.Commands() {
		all = append(all, leaves(c)...)
	}
	return all
}

// notFed are the commands that [TestHostileNames] does not run, with the reason. All others are fed, new ones too.
var notFed = map[string]string{
	"serve": "runs until it is stopped; TestHostileLog has what it logs",
	"setup": "changes files of the machine's mail programs; what it prints is of these files and its flags",
	"ready": "waits for a node",
	"abuse": "watches a folder until it is stopped",
}

// TestHostileNames feeds every command, for people and with --json, hostile names, subjects, peers, lists
// and accounts: as its arguments, as a message, and as answers and refusals of a node. No output has a
// character that controls a terminal, and what a node answers forges no line.
func TestHostileNames(t *testing.T) {
	t.Chdir(t.TempDir())
	mail := "From: " + hostile[:4] + "\x1b[31m\u202e <a@example.com>\nSubject: =?utf-8?q?a=1B[31m=0AFORGED=0D=0AFORGED?=" +
		" \u009b31m\n\nA text that is long enough to be read.\n"
	message := filepath.Join(t.TempDir(), "evil\x1b[31m\u202e.mbox")
	if err := os.WriteFile(message, []byte("From a@example.com Thu Jan  1 00:00:00 2026\n"+mail), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("token", []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(notFed)
	shown := 0
	for _, refuses := range []bool{false, true} {
		node := hostileNode(t, refuses)
		for _, leaf := range leaves(newRootCommand()) {
			path := strings.Fields(leaf.CommandPath())[1:]
			if _, ok := notFed[path[0]]; ok {
				delete(left, path[0])
				continue
			}
			for _, args := range [][]string{nil, {"1"}, {message}, {hostile}, {hostile, hostile}, {message, "0.5"}} {
				for _, format := range []string{"", "--json"} {
					line := append(slices.Clone(path), args...)
					var out, complaints bytes.Buffer
					if leaf.Flag("server") != nil {
						line = append(line, "--server", node.URL, "--token-file", "token")
					}
					for _, flag := range []string{format, "--yes"} {
						if flag != "" && leaf.Flag(flag[2:]) != nil {
							line = append(line, flag)
						}
					}
					run(line, strings.NewReader(mail), &out, &complaints)
					if strings.Contains(out.String(), "evil") {
						shown++
					}
					checkShown(t, line, out.String())
					checkShown(t, line, complaints.String())
					if strings.Contains(out.String(), "\nFORGED") {
						t.Errorf("%q: a forged line: %q", line, out.String())
					}
				}
			}
		}
	}
	for name := range left {
		t.Errorf("%s is no command any more", name)
	}
	if shown < 40 {
		t.Errorf("the hostile name was shown %d times: too few commands were tried", shown)
	}
}

func checkShown(t *testing.T, line []string, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%q: not UTF-8: %q", line, text)
	}
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%q: %U is shown: %.300q", line, r, text)
			return
		}
	}
}

// TestHostileLog has a node log hostile names, as messages, values, errors, structures and the names of groups, in
// both formats. Each is one line, of which nothing controls a terminal.
func TestHostileLog(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		cfg := config.Default()
		cfg.Node.LogFormat = format
		var out bytes.Buffer
		screen := cli.NewScreen(&out)
		log := command.NewLogger(screen, cfg, new(slog.LevelVar))
		log.Warn(hostile)
		log.Warn("a line", hostile, 1)
		log.Warn("a line", "name", hostile)
		log.Warn("a line", "err", errors.New(hostile))
		log.Warn("a line", "all", []string{hostile}, "any", struct{ Name string }{hostile})
		log.With("peer", hostile).WithGroup(hostile).Warn("a line", "of", []byte(hostile))
		if err := screen.Flush(); err != nil {
			t.Fatal(err)
		}
		checkShown(t, []string{format}, out.String())
		if n := strings.Count(out.String(), "\n"); n != 6 || strings.Contains(out.String(), "\nFORGED") {
			t.Errorf("%s: %d lines of 6: %q", format, n, out.String())
		}
	}
}
