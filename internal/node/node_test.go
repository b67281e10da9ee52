package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A journal keeps the log of a node.
type journal struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
	return nil
}

func (j *journal) WithAttrs([]slog.Attr) slog.Handler { return j }
func (j *journal) WithGroup(string) slog.Handler      { return j }

// stopped returns the stopped parts, in their order.
func (j *journal) stopped() (parts []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if rest, ok := strings.CutPrefix(line, "stopped part="); ok {
			part, _, _ := strings.Cut(rest, " err=")
			parts = append(parts, part)
		}
	}
	return parts
}

// count returns the number of lines that contain text.
func (j *journal) count(text string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// inOrder returns the order in which a node stops.
func inOrder() []string {
	return []string{"doors", "mesh", "pair", "rate limits and lists", "history", "upstream", "engine"}
}

// everyDoor is a configuration in which all doors are on, at free ports.
func everyDoor(t *testing.T, sections string) *config.Config {
	t.Helper()
	text := "[listen]\n"
	for _, d := range config.Default().Listen.Doors() {
		text += d.Key + " = \"127.0.0.1:0\"\n"
	}
	return parse(t, text+sections)
}

// httpDoor is a configuration with the HTTP door alone, at a free port.
func httpDoor(t *testing.T) *config.Config {
	t.Helper()
	return parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n[http]\nanonymous_report = \"loopback\"\n")
}

// startWith serves a node with some doors alone, and returns their addresses.
func startWith(t *testing.T, cfg *config.Config, doors ...string) (n *Node, addresses map[string]string) {
	t.Helper()
	text := "[listen]\n"
	for _, d := range cfg.Listen.Doors() {
		listen := ""
		if slices.Contains(doors, d.Key) {
			listen = "127.0.0.1:0"
		}
		text += fmt.Sprintf("%s = %q\n", d.Key, listen)
	}
	cfg.Listen = parse(t, text).Listen
	n, _ = start(t, Options{Config: cfg, Dir: filepath.Join(t.TempDir(), "data")})
	addresses = make(map[string]string)
	for _, name := range doors {
		addresses[name] = address(t, n, name)
	}
	return n, addresses
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// start opens and serves a node; stop ends it and returns the result of Serve.
func start(t *testing.T, o Options) (n *Node, stop func() error) {
	t.Helper()
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Serve(ctx) }()
	stop = sync.OnceValue(func() error {
		end()
		return <-done
	})
	t.Cleanup(func() { stop() })
	return n, stop
}

func address(t *testing.T, n *Node, door string) string {
	t.Helper()
	for _, d := range n.Doors() {
		if d.Name == door {
			return d.Address
		}
	}
	t.Fatalf("no door %s among %v", door, n.Doors())
	return ""
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestNode runs a node with every door in this process: it answers, applies another configuration,
// stops in order, and keeps the reports to it.
func TestNode(t *testing.T) {
	log := &journal{}
	dir := filepath.Join(t.TempDir(), "data")
	n, stop := start(t, Options{Config: everyDoor(t, "[http]\nanonymous_report = \"loopback\"\n"), Dir: dir,
		Version: "v1", Log: slog.New(log)})
	if got, want := len(n.Doors()), len(config.Default().Listen.Doors()); got != want {
		t.Fatalf("%d doors are open, want %d", got, want)
	}
	base := address(t, n, "http")
	if code, _ := get(t, base+"/readyz"); code != http.StatusOK {
		t.Errorf("/readyz = %d", code)
	}
	resp, err := http.Post(base+"/v1/report", "application/json",
		strings.NewReader(`{"signatures":["pyzor/digest:0123456789abcdef0123456789abcdef01234567"]}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("report: %s", resp.Status)
	}
	sig, err := bulkhead.ParseSignature("pyzor/digest:0123456789abcdef0123456789abcdef01234567")
	if err != nil {
		t.Fatal(err)
	}
	spam := func(n *Node) uint32 {
		t.Helper()
		v, err := n.Clearinghouse().Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{sig}})
		if err != nil {
			t.Fatal(err)
		}
		return v.SpamVotes
	}
	if got := spam(n); got != 1 {
		t.Errorf("%d spam votes, want 1", got)
	}
	changed, restart, err := n.Reload(everyDoor(t,
		"[http]\nanonymous_report = \"loopback\"\n[tally]\nthreshold = 7\nkeep = 5\n"))
	if err != nil || !slices.Contains(changed, "tally.threshold") || !slices.Contains(restart, "tally.keep") {
		t.Errorf("Reload: changed %v, restart %v, %v", changed, restart, err)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if got := log.stopped(); !slices.Equal(got, inOrder()) {
		t.Errorf("stopped %q, want %q", got, inOrder())
	}
	if err := n.Close(t.Context()); err != nil {
		t.Errorf("Close of a stopped node: %v", err)
	}
	if err := n.Serve(t.Context()); err == nil {
		t.Error("a stopped node was served again")
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://")); err == nil {
		c.Close()
		t.Error("the HTTP door is open after the stop")
	}
	again, _ := start(t, Options{Config: everyDoor(t, ""), Dir: dir})
	if got := spam(again); got != 1 {
		t.Errorf("after the next start: %d spam votes, want 1", got)
	}
}

// TestCloseEndsServe checks that a caller that does not hold the context can also stop a node.
func TestCloseEndsServe(t *testing.T) {
	log := &journal{}
	n, stop := start(t, Options{Config: everyDoor(t, ""), Dir: t.TempDir(), Log: slog.New(log)})
	get(t, address(t, n, "http")+"/readyz") // it serves
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := log.stopped(); !slices.Equal(got, inOrder()) {
		t.Errorf("stopped %q, want %q", got, inOrder())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestFailedStart checks that if one door cannot be opened, the parts started before it are
// stopped, and the folder and the ports are free for the next start.
func TestFailedStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	first := nodetest.Address(t)
	dir, log := t.TempDir(), &journal{}
	listen := fmt.Sprintf(
		"[listen]\nhttp = %q\nrazor2 = \"127.0.0.1:0\"\npyzor = \"127.0.0.1:0\"\nfuzzy = \"127.0.0.1:0\"\n", first)
	cfg := parse(t, listen+fmt.Sprintf("policy = %q\n", taken.Addr()))
	if n, err := Open(t.Context(), Options{Config: cfg, Dir: dir, Log: slog.New(log)}); err == nil || n != nil ||
		!strings.Contains(err.Error(), "listen.policy") {
		t.Fatalf("Open = %v, %v, want a mistake of listen.policy", n, err)
	}
	if got := log.stopped(); !slices.Equal(got, inOrder()) {
		t.Errorf("stopped %q, want %q", got, inOrder())
	}
	spare, _ := start(t, Options{Config: cfg, Dir: dir, Spare: true, Log: slog.New(log)})
	for _, d := range spare.Doors() {
		if d.Name == "policy" {
			t.Errorf("door %s is open on a port that another program has", d.Name)
		}
	}
	if code, _ := get(t, "http://"+first+"/readyz"); code != http.StatusOK {
		t.Errorf("/readyz = %d", code)
	}
}

// TestFailedStage checks that, whichever stage fails, the stages before it are stopped, and it and
// the later ones are not begun.
func TestFailedStage(t *testing.T) {
	for _, tt := range []struct {
		name, config, want string
		stopped            []string
	}{
		{"engine", "[tally]\ncapacity = 10000000000\nerror = 1e-9\n", "tally.capacity", inOrder()[6:]},
		{"upstream", "[upstream]\nurl = \"http://127.0.0.1:1\"\ntoken_file = \"/nowhere/token\"\n", "upstream.token_file",
			inOrder()[5:]},
		{"limits", "[[ratelimit]]\nname = \"a\"\nkey = \"{x\"\nlimit = 5\nperiod = \"1h\"\n", "ratelimit", inOrder()[3:]},
		{"mesh", "[mesh]\nmode = \"external\"\nservers = [\"nats://127.0.0.1:1\"]\ncredentials = \"/nowhere/creds\"\n", "",
			inOrder()[1:]},
		{"doors", "[http]\ntls_cert = \"/nowhere/cert\"\ntls_key = \"/nowhere/key\"\n", "http.tls_cert", inOrder()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, dir := &journal{}, t.TempDir()
			_, err := Open(t.Context(), Options{Config: everyDoor(t, tt.config), Dir: dir, Log: slog.New(log)})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Open: %v, want a mistake of %s", err, tt.want)
			}
			if got := log.stopped(); !slices.Equal(got, tt.stopped) {
				t.Errorf("stopped %q, want %q", got, tt.stopped)
			}
			start(t, Options{Config: everyDoor(t, ""), Dir: dir}) // the folder is free
		})
	}
}

// TestStageFails checks that a task that ends by itself ends the node, in order, and that its error
// is returned.
func TestStageFails(t *testing.T) {
	broken := errors.New("broken")
	for _, end := range []error{broken, nil} {
		n, err := Open(t.Context(), Options{Config: everyDoor(t, ""), Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		last := n.life.stages[len(n.life.stages)-1]
		last.tasks = append(last.tasks, task{name: "odd", run: func(context.Context) error { return end }})
		err = n.Serve(t.Context())
		if end != nil && !errors.Is(err, broken) || end == nil && (err == nil || !strings.Contains(err.Error(), "odd")) {
			t.Errorf("a task ended with %v: Serve returned %v", end, err)
		}
	}
}
