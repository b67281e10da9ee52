//go:build interop

package plugins

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// A node is a running bulkhead, and what a plugin sends it.
type node struct {
	t    *testing.T
	url  string // of a proxy that notes requests
	real string

	mu       sync.Mutex
	requests []*http.Request // with their bodies
	down     http.Handler    // answers instead of the node; nil for the node
}

func startNode(t *testing.T) *node {
	t.Helper()
	dir, address := t.TempDir(), nodetest.Address(t)
	config := fmt.Sprintf("[listen]\nhttp = %q\n", address)
	if err := os.WriteFile(filepath.Join(dir, "bulkhead.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, dir, nodetest.Binary(t), "serve", "--config", filepath.Join(dir, "bulkhead.toml"), "--data",
		filepath.Join(dir, "data"))
	nodetest.AwaitTCP(t, address)
	n := &node{t: t, real: "http://" + address}
	target, err := url.Parse(n.real)
	if err != nil {
		t.Fatal(err)
	}
	// SetURL adds no X-Forwarded-For: the plugin itself is on this machine.
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		note := r.Clone(context.Background())
		note.Body = io.NopCloser(bytes.NewReader(body))
		n.mu.Lock()
		n.requests = append(n.requests, note)
		down := n.down
		n.mu.Unlock()
		if down != nil {
			down.ServeHTTP(w, r)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	n.url = proxy.URL
	return n
}

// fail lets an answer of a handler be the node's; nil ends that.
func (n *node) fail(h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = h
}

// seen returns the requests to a path since the last call.
func (n *node) seen(path string) (of []*http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.requests {
		if r.URL.Path == path {
			of = append(of, r)
		}
	}
	n.requests = nil
	return of
}

// awaitSeen is seen, and waits until there is one.
func (n *node) awaitSeen(path string) (of []*http.Request) {
	n.t.Helper()
	nodetest.Await(n.t, "a request to "+path, func() bool {
		of = n.seen(path)
		return len(of) > 0
	})
	return of
}

// post does what another client of the node does.
func (n *node) post(path, mail string) {
	n.t.Helper()
	resp, err := http.Post(n.real+path, "message/rfc822", strings.NewReader(mail))
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		n.t.Fatalf("%s: %s %s", path, resp.Status, text)
	}
}

// faults are the ways in which a node may fail, by name.
var faults = map[string]http.Handler{
	"slow":         http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { pause(r) }),
	"dripping":     http.HandlerFunc(drip),
	"no JSON":      says(http.StatusOK, "<html>It works!</html>"),
	"half":         says(http.StatusOK, `{"class":"spam","reasons":["x"`),
	"a list":       says(http.StatusOK, `["spam"]`),
	"no class":     says(http.StatusOK, `{"spam":true,"reasons":["x"],"findings":[]}`),
	"odd class":    says(http.StatusOK, `{"class":{"spam":1},"reasons":{"a":1},"findings":7}`),
	"nothing":      says(http.StatusOK, ""),
	"large":        says(http.StatusOK, `{"class":"spam","reasons":["`+strings.Repeat("x", 5<<20)+`"]}`),
	"its own 500":  says(http.StatusInternalServerError, `{"title":"Internal Server Error","status":500}`),
	"unauthorised": says(http.StatusUnauthorized, `{"detail":"no such token"}`),
	"elsewhere":    http.RedirectHandler("http://127.0.0.1:1/", http.StatusTemporaryRedirect),
}

// inTime is how long a mail may take while the node fails. It is a small part of the time that a slow node takes, and
// leaves room for a busy machine.
const inTime = time.Minute

// pause waits as long as a plugin may, and longer.
func pause(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(5 * inTime):
	}
}

// drip never lets a plugin wait for its time, two seconds in these tests, without a byte. No byte arrives near the end
// of that time: rspamd then reads it, and ends the request only with the whole scan.
func drip(w http.ResponseWriter, r *http.Request) {
	for range 240 {
		if _, err := io.WriteString(w, " "); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(1300 * time.Millisecond):
		}
	}
}

func says(code int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		io.WriteString(w, text)
	})
}

// mail is a letter about something, so that letters about different things have
// nothing in common.
func mail(what string) string {
	const words = "anchor basket copper desert engine feather guitar hollow insect jungle kitten ladder marble needle " +
		"oyster pepper quiver ribbon saddle tunnel"
	text := ""
	for i, w := range strings.Fields(words) {
		text += fmt.Sprintf("%s%s is %s%s of %d%s, ", what, w, w, what, i, what)
		if i%4 == 3 {
			text += "\n"
		}
	}
	return "Received: from mx.sender.example (mx.sender.example [192.0.2.7])\n\tby mx.example.org with ESMTP id 1; Mon, " +
		"1 Jan 2024 00:00:00 +0000\n" +
		"From: " + what + "@sender.example\nTo: bob@example.org\nSubject: " + what +
		"\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nMessage-ID: <" + what + "@sender.example>\n\n" + text + "\n"
}

// signed signs a mail by DKIM for sender.example, and returns it with the record of
// the key.
func signed(t *testing.T, mail string) (signed, record string) {
	t.Helper()
	// 1,024 bits fit into an answer without EDNS.
	private, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err = dkim.Sign(&b, strings.NewReader(strings.ReplaceAll(mail, "\n", "\r\n")), &dkim.SignOptions{
		Domain: "sender.example", Selector: "s", Signer: private, HeaderKeys: []string{"From", "To", "Subject", "Date"},
		HeaderCanonicalization: dkim.CanonicalizationRelaxed, BodyCanonicalization: dkim.CanonicalizationRelaxed,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(public)
}
