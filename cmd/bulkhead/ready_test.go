package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestReady checks that a health check distinguishes a node that accepts requests from a node that
// does not, from a missing node, and from another program, and that it sends no token.
func TestReady(t *testing.T) {
	t.Setenv("BULKHEAD_TOKEN", "secret")
	answer := func(status int, media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" || r.Header.Get("Authorization") != "" {
				t.Errorf("asked for %s with %q", r.URL.Path, r.Header)
			}
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    int
	}{
		{"ready", answer(200, "text/plain; charset=utf-8", "ready\n"), cli.OK},
		{"stopping", answer(503, "application/problem+json", `{"status":503,"detail":"the node is stopping"}`),
			int(cli.Temporary)},
		{"another program", answer(200, "text/html", "<html>Welcome</html>"), int(cli.Software)},
		{"nothing said", answer(204, "text/plain", ""), int(cli.Software)},
	} {
		for _, serve := range []func(http.Handler) *httptest.Server{httptest.NewServer, httptest.NewTLSServer} {
			srv := serve(tt.handler)
			config := filepath.Join(t.TempDir(), "node.toml")
			text := fmt.Sprintf("[listen]\nhttp = %q\n", srv.Listener.Addr())
			if srv.TLS != nil {
				text += "[http]\ntls_cert = \"/nowhere/cert\"\ntls_key = \"/nowhere/key\"\n"
			}
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var output bytes.Buffer
			if got := run([]string{"ready", "--config", config}, nil, &output, &output); got != tt.want {
				t.Errorf("%s, %s: exit code %d, want %d: %s", tt.name, srv.URL, got, tt.want, &output)
			}
			srv.Close()
		}
	}
	var output bytes.Buffer
	if got := run([]string{"ready", "--server", "http://" + nodetest.Address(t)}, nil, &output,
		&output); got != int(cli.Unavailable) {
		t.Errorf("no node answers: exit code %d, want %d: %s", got, cli.Unavailable, &output)
	}
}
