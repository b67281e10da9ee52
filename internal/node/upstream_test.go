package node

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/pyzor"
)

// TestEdge runs two nodes, one the edge of the other: what is reported at a door of
// the edge is known at the upstream and, by it, at every door of the edge. When the
// upstream is gone the edge's doors still answer, and acknowledge nothing.
func TestEdge(t *testing.T) {
	log := &journal{}
	node, stop := start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"), Dir: filepath.Join(t.TempDir(), "up")})
	web := address(t, node, "http")
	upstream := fmt.Sprintf("[upstream]\nurl = %q\ntoken_file = %q\n", web, node.AdminTokenFile())
	n, _ := start(t, Options{Config: everyDoor(t, upstream), Dir: filepath.Join(t.TempDir(), "edge"), Log: slog.New(log)})

	sig, err := bulkhead.ParseSignature("pyzor/digest:0123456789abcdef0123456789abcdef01234567")
	if err != nil {
		t.Fatal(err)
	}
	client := &client.Client{Server: address(t, n, "http")}
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
	door := &pyzor.Client{Address: address(t, n, "pyzor")}
	if r, err := door.Do(t.Context(), pyzor.OpCheck, sig); err != nil || r.Values["Count"] == "0" {
		t.Errorf("at the door for Pyzor: %+v, %v; want what was reported", r, err)
	}
	if _, text := get(t, address(t, n, "http")+"/metrics"); !strings.Contains(text, "bulkhead_upstream_up 1") || strings.Contains(text, `bulkhead_upstream_total{what="request"} 0`) {
		t.Errorf("metrics:\n%s", text)
	}

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if v, err := client.Check(t.Context(), query); err != nil || v.Unwanted() {
		t.Errorf("without the upstream: %+v, %v; want unknown", v, err)
	}
	if _, err := client.Report(t.Context(), spam); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("a report without the upstream: %v, want ErrReadOnly", err)
	}
	if r, err := door.Do(t.Context(), pyzor.OpCheck, sig); err != nil || r.Values["Count"] != "0" {
		t.Errorf("at the door for Pyzor, without the upstream: %+v, %v", r, err)
	}
	if _, text := get(t, address(t, n, "http")+"/metrics"); !strings.Contains(text, "bulkhead_upstream_up 0") || strings.Contains(text, `bulkhead_upstream_total{what="fail_open"} 0`) {
		t.Errorf("metrics:\n%s", text)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	away := 0
	for _, line := range log.lines {
		away += strings.Count(line, "the upstream is away")
	}
	if away != 1 {
		t.Errorf("%d lines say that the upstream is away, want 1", away)
	}
}
