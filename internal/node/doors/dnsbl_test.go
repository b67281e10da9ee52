package doors

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/dnsbl"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
)

// TestZones serves rbldnsd's forms of lists, and asks for them over UDP and TCP as the resolvers of mail servers do.
func TestZones(t *testing.T) {
	dir := t.TempDir()
	list := func(name string, o lists.Options, text string) {
		t.Helper()
		source := filepath.Join(dir, name+".txt")
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Capacity = 1000
		if _, err := lists.Build(t.Context(), filepath.Join(dir, name), []string{source}, o); err != nil {
			t.Fatal(err)
		}
	}
	list("relays", lists.Options{}, ":4:open relay, see https://lists.example/?$\n192.0.2.7\n192.0.2.8 :127.0.0.5:own\n")
	list("homes", lists.Options{Reason: "home networks"}, "192.0.2.0/24\n198.51.100.0/24\n")
	md5sum, sha1sum := md5.Sum([]byte("ann@example.com")), sha1.Sum([]byte("bob@example.com"))
	sha256sum := sha256.Sum256([]byte("eve@example.com"))
	b32 := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sha256sum[:]))
	list("md5", lists.Options{Hash: lists.MD5}, hex.EncodeToString(md5sum[:])+" :8:$\n")
	list("sha1", lists.Options{Hash: lists.SHA1}, strings.ToUpper(hex.EncodeToString(sha1sum[:]))+"\n")
	list("sha256", lists.Options{Hash: lists.SHA256}, b32+"\n")

	text := ""
	for _, name := range []string{"relays", "homes", "md5", "sha1", "sha256"} {
		text += "[[lists.list]]\nname = \"" + name + "\"\npath = \"" + filepath.Join(dir, name) + "\"\n"
	}
	cfg, err := config.Parse([]byte(text + `
[[dnsbl.zone]]
name = "all.example"
form = "ip"
lists = ["relays", "homes :10:dial-up $$ $"]
[[dnsbl.zone]]
name = "one.example"
form = "ip"
list = "homes"
code = "127.0.0.9"
text = "$ is at home"
[[dnsbl.zone]]
name = "email.example"
form = "hash"
lists = ["md5 :6:", "sha1 :7:", "sha256"]
`))
	if err != nil {
		t.Fatal(err)
	}
	var files []lists.File
	for _, f := range cfg.Lists.Files {
		files = append(files, lists.File{Name: f.Name, Path: f.Path})
	}
	set, err := lists.OpenSet(lists.SetOptions{Files: files, Watch: -1})
	if err != nil {
		t.Fatal(err)
	}
	zones, err := zonesOf(cfg, set.Handle, nil)
	if err != nil {
		t.Fatal(err)
	}
	front := &dnsbl.Server{Zones: zones}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go front.ServePacket(pc)
	go front.Serve(l)
	defer front.Shutdown(context.Background())

	for _, network := range []string{"udp", "tcp"} {
		r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			to := pc.LocalAddr()
			if network == "tcp" {
				to = l.Addr()
			}
			return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, to.String())
		}}
		for _, tt := range []struct{ name, codes, texts string }{
			{"7.2.0.192.all.example.", "127.0.0.10 127.0.0.4",
				"dial-up $ 192.0.2.7|open relay, see https://lists.example/?192.0.2.7"},
			{"8.2.0.192.all.example.", "127.0.0.10 127.0.0.5", "dial-up $ 192.0.2.8|own"},
			{"1.100.51.198.all.example.", "127.0.0.10", "dial-up $ 198.51.100.1"},
			{"1.113.0.203.all.example.", "", ""},
			{"7.2.0.192.one.example.", "127.0.0.9", "192.0.2.7 is at home"},
			{hex.EncodeToString(md5sum[:]) + ".email.example.", "127.0.0.8", hex.EncodeToString(md5sum[:])},
			{hex.EncodeToString(sha1sum[:]) + ".email.example.", "127.0.0.7", "*"},
			{strings.ToUpper(b32) + ".email.example.", "127.0.0.2", "*"},
			{hex.EncodeToString(sha1sum[4:]) + ".email.example.", "", ""},
		} {
			codes, _ := r.LookupHost(t.Context(), tt.name)
			texts, _ := r.LookupTXT(t.Context(), tt.name)
			slices.Sort(codes)
			slices.Sort(texts)
			if got := strings.Join(codes, " "); got != tt.codes {
				t.Errorf("%s: %s has codes %q, want %q", network, tt.name, got, tt.codes)
			}
			if got := strings.Join(texts, "|"); got != tt.texts && !(tt.texts == "*" && len(texts) == 1) {
				t.Errorf("%s: %s has texts %q, want %q", network, tt.name, got, tt.texts)
			}
		}
	}
}
