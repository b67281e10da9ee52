package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// asksZone returns a function that asks the DNS door of a node for addresses.
func asksZone(t *testing.T, n *Node) func(name string) []string {
	t.Helper()
	at := address(t, n, "dnsbl")
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, at)
	}}
	return func(name string) []string {
		t.Helper()
		got, err := r.LookupHost(t.Context(), name+".")
		var none *net.DNSError
		if err != nil && !(errors.As(err, &none) && none.IsNotFound) {
			t.Fatalf("%s: %v", name, err)
		}
		return got
	}
}

// TestLiveZone reports a message and finds its link and its attachment in the zones that answer from
// what the node lists; a revocation takes both off at once.
func TestLiveZone(t *testing.T) {
	cfg := parse(t, `[listen]
http = "127.0.0.1:0"
dnsbl = "127.0.0.1:0"
[[dnsbl.zone]]
name = "uri.live.example"
form = "domain"
live = true
[[dnsbl.zone]]
name = "file.live.example"
form = "hash"
live = true
code = "127.0.0.9"
`)
	dir := t.TempDir()
	n, _ := start(t, Options{Config: cfg, Dir: filepath.Join(dir, "data"), Socket: filepath.Join(dir, "s")})
	c := bySocket(filepath.Join(dir, "s"))
	ask := asksZone(t, n)

	attached := bytes.Repeat([]byte("invoice of the twelfth of may\x00"), 200)
	letter := "From: Shop <shop@shop.example>\r\nTo: ann@example.org\r\nSubject: your invoice\r\nMIME-Version: 1.0\r\n" +
		"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\n" +
		"Pay the invoice of the lamps that you ordered last week at http://pay.lamps-today.example/now today.\r\n" +
		"--x\r\nContent-Type: application/octet-stream; name=invoice.bin\r\nContent-Disposition: attachment; " +
		"filename=invoice.bin\r\nContent-Transfer-Encoding: base64\r\n\r\n" +
		base64.StdEncoding.EncodeToString(attached) + "\r\n--x--\r\n"
	sum := sha256.Sum256(attached)
	label := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
	file, link := label+".file.live.example", "lamps-today.example.uri.live.example"
	wants := func(when string, hit bool) {
		t.Helper()
		for name, code := range map[string]string{file: "127.0.0.9", link: "127.0.0.2"} {
			want := "[]"
			if hit {
				want = "[" + code + "]"
			}
			if got := fmt.Sprint(ask(name)); got != want {
				t.Errorf("%s: %s is %s, want %s", when, name, got, want)
			}
		}
		if got := ask("other.example.uri.live.example"); len(got) > 0 {
			t.Errorf("%s: a link that was never seen is %v", when, got)
		}
	}
	wants("before a report", false)
	if _, err := c.ReportMessage(t.Context(), []byte(letter), client.MessageOptions{Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	wants("after a report", true)
	if got := ask("test.uri.live.example"); len(got) != 1 {
		t.Errorf("the test entry is %v", got)
	}
	page, err := c.History(t.Context(), admin.HistoryQuery{Limit: 100})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("the history has %d entries, %v; want the report alone", len(page.Entries), err)
	}
	entry, err := c.HistoryEntry(t.Context(), page.Entries[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	texts := 0
	for _, sig := range entry.Signatures {
		if sig.Scheme() == bulkhead.Exact {
			texts++
			text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sig.Sum()) + ".file.live.example"
			if got := fmt.Sprint(ask(text)); got != "[127.0.0.9]" {
				t.Errorf("the reported text is %s", got)
			}
		}
	}
	if texts != 1 {
		t.Errorf("%d exact texts", texts)
	}
	if _, err := c.ReportMessage(t.Context(), []byte(letter),
		client.MessageOptions{Vote: bulkhead.Revocation}); err != nil {
		t.Fatal(err)
	}
	wants("after a revocation", false)
}

// TestLiveZoneSpares checks that the zone does not list what wanted mail has: a widely used domain, and a
// link that many received.
func TestLiveZoneSpares(t *testing.T) {
	cfg := parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\ndnsbl = \"127.0.0.1:0\"\n[[dnsbl.zone]]\nname = \"live.example\"\n"+
		"form = \"domain\"\nlive = true\n")
	dir := t.TempDir()
	n, _ := start(t, Options{Config: cfg, Dir: filepath.Join(dir, "data"), Socket: filepath.Join(dir, "s")})
	c := bySocket(filepath.Join(dir, "s"))
	ask := asksZone(t, n)
	letter := "From: a@shop.example\r\nSubject: news\r\n\r\nRead the news of the garden club of this town today at " +
		"http://club-news.example/x and at https://www.google.com/ and write to us about all of it.\r\n"
	for _, o := range []client.MessageOptions{{Count: 40}, {Vote: bulkhead.Spam}} {
		if _, err := c.ReportMessage(t.Context(), []byte(letter), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"club-news.example", "google.com", "www.google.com"} {
		if got := ask(name + ".live.example"); len(got) > 0 {
			t.Errorf("%s is listed: %v", name, got)
		}
	}
}

// TestLiveZoneConfig names the mistakes of live zones.
func TestLiveZoneConfig(t *testing.T) {
	const zone = "[[dnsbl.zone]]\nname = \"live.example\"\n"
	for text, want := range map[string]string{
		zone + "form = \"ip\"\nlive = true\n":                     "a live zone has the form domain or hash",
		zone + "form = \"domain\"\nlive = true\nlist = \"bad\"\n": "a live zone has no list",
		zone + "form = \"domain\"\n":                              "no list is called",
	} {
		if _, err := config.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	edge := parse(t, "[upstream]\nurl = \"http://127.0.0.1:1\"\n[listen]\nhttp = \"127.0.0.1:0\"\n"+zone+
		"form = \"domain\"\nlive = true\n")
	if err := CheckConfig(edge); err == nil || !strings.Contains(err.Error(), "an edge has no live zone") {
		t.Errorf("an edge: %v", err)
	}
}
