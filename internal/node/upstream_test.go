package node

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/pyzor"
)

// TestEdge runs two nodes, one the edge of the other. A report at a door of the edge is known at
// the upstream and, through it, at every door of the edge. When the upstream is gone, the edge's
// doors still answer, and acknowledge nothing.
func TestEdge(t *testing.T) {
	log := &journal{}
	node, stop := start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"),
		Dir: filepath.Join(t.TempDir(), "up")})
	web := address(t, node, "http")
	upstream := fmt.Sprintf("[upstream]\nurl = %q\ntoken_file = %q\n", web, node.AdminTokenFile())
	n, _ := start(t, Options{Config: everyDoor(t, upstream), Dir: filepath.Join(t.TempDir(), "edge"), Log: slog.New(log)})

	sig, err := bulkhead.ParseSignature("pyzor/digest:0123456789abcdef0123456789abcdef01234567")
	if err != nil {
		t.Fatal(err)
	}
	client := admin.New(address(t, n, "http"), "")
	query := bulkhead.Query{Signatures: []bulkhead.Signature{sig}}
	spam := bulkhead.Report{Signatures: query.Signatures, Vote: bulkhead.Spam}
	if v, err := client.Check(t.Context(), query); err != nil || v.Spam() {
		t.Errorf("before: %+v, %v", v, err)
	}
	if _, err := client.Report(t.Context(), spam); err != nil {
		t.Fatal(err)
	}
	if v, err := node.Clearinghouse().Check(t.Context(), query); err != nil || !v.Spam() {
		t.Errorf("the upstream: %+v, %v; want spam", v, err)
	}
	if v, err := n.engine.Check(t.Context(), query); err != nil || v.Findings[0].Known() {
		t.Errorf("the edge has counts of its own: %+v, %v", v, err)
	}
	door, err := pyzor.Dial(t.Context(), address(t, n, "pyzor"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	if r, err := door.Do(t.Context(), pyzor.OpCheck, sig); err != nil || r.Values["Count"] == "0" {
		t.Errorf("at the door for Pyzor: %+v, %v; want what was reported", r, err)
	}
	if _, text := get(t, address(t, n, "http")+"/metrics"); !strings.Contains(text, "bulkhead_upstream_up 1") ||
		strings.Contains(text, `bulkhead_upstream_total{what="request"} 0`) {
		t.Errorf("metrics:\n%s", text)
	}

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if v, err := client.Check(t.Context(), query); err != nil || v.Unwanted() {
		t.Errorf("without the upstream: %+v, %v; want unknown", v, err)
	}
	if r, err := client.Report(t.Context(), spam); err != nil || r.Pending != 1 {
		t.Errorf("a report without the upstream: %+v, %v, want pending", r, err)
	}
	if err := client.Ready(t.Context()); err == nil {
		t.Error("an edge without its upstream is ready")
	}
	if r, err := door.Do(t.Context(), pyzor.OpCheck, sig); err != nil || r.Values["Count"] != "0" {
		t.Errorf("at the door for Pyzor, without the upstream: %+v, %v", r, err)
	}
	if _, text := get(t, address(t, n, "http")+"/metrics"); !strings.Contains(text, "bulkhead_upstream_up 0") ||
		strings.Contains(text, `bulkhead_upstream_total{what="fail_open"} 0`) {
		t.Errorf("metrics:\n%s", text)
	}
	if away := log.count("the upstream is unreachable"); away != 1 {
		t.Errorf("%d lines say that the upstream is away, want 1:\n%s", away, strings.Join(log.lines, "\n"))
	}
}

// TestEdgeNetwork checks that near copies of mail reported at the upstream are recognised at an
// edge that has its secret. Without the secret they are not, and the edge reports that.
func TestEdgeNetwork(t *testing.T) {
	dir := t.TempDir()
	up, _ := start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"), Dir: filepath.Join(dir, "up")})
	var words []string
	for i := range 120 {
		words = append(words, fmt.Sprintf("%c%c%cword", 'a'+i%26, 'b'+i/26, 'c'+i%7))
	}
	mail := func(name string) []byte {
		return []byte("Subject: offer\n\n" + strings.Join(words[:90], " ") + " " + name + " " + strings.Join(words[90:],
			" ") + "\n")
	}
	sigs, _, err := messages{up.core}.Read(t.Context(), mail("hither"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := up.Clearinghouse().Report(t.Context(),
		bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	secret, own := filepath.Join(dir, "secret"), up.secret()
	if err := writeKey(secret, own[:]); err != nil {
		t.Fatal(err)
	}
	for name, same := range map[string]bool{"same": true, "other": false} {
		home := filepath.Join(dir, name)
		if same {
			if _, err := NewNetwork(home, secret); err != nil {
				t.Fatal(err)
			}
		}
		log := &journal{}
		n, _ := start(t, Options{
			Config: parse(t, fmt.Sprintf("[listen]\nhttp = \"127.0.0.1:0\"\n[upstream]\nurl = %q\n", address(t, up, "http"))),
			Dir:    home, Log: slog.New(log),
		})
		copied, _, err := messages{n.core}.Read(t.Context(), mail("thither"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.Clearinghouse().Check(t.Context(), bulkhead.Query{Signatures: copied})
		if err != nil {
			t.Fatal(err)
		}
		near := 0
		for _, f := range v.Findings {
			if f.Signature.Scheme() == bulkhead.Near && f.Judged == bulkhead.JudgedSpam {
				near++
			}
		}
		if same != (near > 0) {
			t.Errorf("%s secret: %d of the copy's near signatures are known", name, near)
		}
		metric, lines := "bulkhead_upstream_other_network 1", 1
		if same {
			metric, lines = "bulkhead_upstream_other_network 0", 0
		}
		nodetest.Await(t, metric, func() bool {
			_, text := get(t, address(t, n, "http")+"/metrics")
			return strings.Contains(text, metric)
		})
		nodetest.Await(t, fmt.Sprintf("%d lines on it in the log", lines), func() bool {
			return log.count("another network secret") == lines
		})
	}
}

// TestEdgeToken checks that a token changed at the upstream is applied while the edge runs, and
// that a file without a token changes nothing.
func TestEdgeToken(t *testing.T) {
	dir := t.TempDir()
	up, _ := start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"), Dir: filepath.Join(dir, "up")})
	right, err := ReadSecret(up.AdminTokenFile())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "token")
	write := func(text string) {
		t.Helper()
		if err := writeSecret(file, text); err != nil {
			t.Fatal(err)
		}
	}
	write("a token that was changed")
	cfg := parse(t, fmt.Sprintf("[listen]\nhttp = \"127.0.0.1:0\"\n"+
		"[upstream]\nurl = %q\ntoken_file = %q\nspool_bytes = 0\n",
		address(t, up, "http"), file))
	n, _ := start(t, Options{Config: cfg, Dir: filepath.Join(dir, "edge")})
	sig := bulkhead.MustSignature(bulkhead.Exact, make([]byte, 20))
	report := func() error {
		_, err := n.Clearinghouse().Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{sig}})
		return err
	}
	if err := report(); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("with a wrong token: %v, want ErrReadOnly", err)
	}
	write(right)
	if err := report(); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("before the file was read again: %v, want ErrReadOnly", err)
	}
	if _, _, err := n.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	nodetest.Await(t, "a report with the new token", func() bool { return report() == nil })
	write("")
	var mistake *config.Error
	if _, _, err := n.Reload(cfg); !errors.As(err, &mistake) || mistake.Key != "upstream.token_file" {
		t.Errorf("an empty file: %v, want a mistake of upstream.token_file", err)
	}
	if err := report(); err != nil {
		t.Errorf("after a mistake: %v, want the token from before", err)
	}
}
