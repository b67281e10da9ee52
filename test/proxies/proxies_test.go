//go:build interop

package proxies

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// startNode starts a node with an HTTP door, and returns its address.
func startNode(t *testing.T, settings string) string {
	t.Helper()
	dir, address := t.TempDir(), nodetest.Address(t)
	file := filepath.Join(dir, "node.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "[listen]\nhttp = %q\n%s", address, settings), 0o600); err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, dir, nodetest.Binary(t), "serve", "--config", file, "--data", filepath.Join(dir, "data"))
	nodetest.AwaitTCP(t, address)
	return address
}

// A proxy is a program, with its arguments and what its configuration file holds. FILE,
// DIR, HERE and NODE stand for that file, its folder, and the addresses of the proxy and
// the node.
type proxy struct {
	name   string
	args   []string
	config string
}

var (
	nginx = proxy{"nginx", []string{"-p", "DIR", "-c", "FILE", "-e", "stderr"}, `
daemon off;
user root;
pid DIR/pid;
events {}
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	server {
		listen HERE;
		location / {
			proxy_pass http://NODE;
			SETTINGS
		}
	}
}
`}
	caddy = proxy{"caddy", []string{"run", "--adapter", "caddyfile", "--config", "FILE"}, `
{
	admin off
	storage file_system DIR
	auto_https off
}
http://HERE, http://* {
	bind 127.0.0.1
	reverse_proxy NODE
}
`}
	// The section defaults is Debian's.
	haproxy = proxy{"haproxy", []string{"-db", "-f", "FILE"}, `
defaults
	mode http
	option httplog
	option dontlognull
	timeout connect 5000
	timeout client 50000
	timeout server 50000
	SETTINGS
frontend front
	bind HERE
	default_backend back
backend back
	server node NODE
`}
)

// with returns the proxy with further settings.
func (p proxy) with(settings string) proxy {
	p.config = strings.Replace(p.config, "SETTINGS", settings, 1)
	return p
}

// start runs a proxy before a node, and returns its address.
func (p proxy) start(t *testing.T, node string) string {
	t.Helper()
	program := nodetest.Program(t, p.name)
	dir, here := t.TempDir(), nodetest.Address(t)
	_, port, _ := strings.Cut(here, ":")
	r := strings.NewReplacer("http://*", "http://:"+port, "FILE", filepath.Join(dir, "config"), "DIR", dir, "HERE", here,
		"NODE", node, "SETTINGS", "")
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(r.Replace(p.config)), 0o600); err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, arg := range p.args {
		args = append(args, r.Replace(arg))
	}
	nodetest.Run(t, dir, program, args...)
	nodetest.AwaitTCP(t, here)
	return here
}

// whoami asks at an address who asks, for a host.
func whoami(t *testing.T, address, host string, header ...string) (v admin.Viewer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address+"/v1/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	return v
}

// TestProxies: whoever comes through a proxy of this machine is not local, whichever host
// they name and whatever they claim. A trusted proxy names its client, which gives no rights.
func TestProxies(t *testing.T) {
	node := startNode(t, "")
	trusting := startNode(t, "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n")
	if v := whoami(t, node, node); !v.Local || !v.Report {
		t.Fatalf("without a proxy: %+v", v)
	}
	public, local := "mail.example.org", "localhost"
	for _, tt := range []struct {
		what  string
		proxy proxy
		hosts []string
	}{
		{"nginx", nginx, []string{public, local}},
		{"nginx that passes the host on", nginx.with("proxy_set_header Host $host;"), []string{public, local}},
		{"nginx of HTTP 1.1 with the usual fields",
			nginx.with("proxy_http_version 1.1; proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr;"),
			[]string{public, local}},
		{"caddy", caddy, []string{public, local}},
		// It adds nothing, and passes Host on: only that shows who does not lie.
		{"haproxy", haproxy, []string{public}},
		{"haproxy that names its clients", haproxy.with("option forwardfor"), []string{public, local}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			address := tt.proxy.start(t, node)
			for _, host := range tt.hosts {
				for _, header := range [][]string{nil, {"X-Forwarded-For", "127.0.0.1"}, {"X-Real-IP", "127.0.0.1"},
					{"Forwarded", "for=127.0.0.1"}} {
					if v := whoami(t, address, host, header...); v.Local || v.Report || v.Admin {
						t.Errorf("host %s, %v: %+v", host, header, v)
					}
				}
			}
		})
	}
	t.Run("haproxy that says nothing is noticed", func(t *testing.T) {
		node := startNode(t, "")
		c := admin.New("http://"+node, "")
		relayed := func() *string {
			t.Helper()
			state, err := c.Node(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return state.Relayed
		}
		address := haproxy.start(t, node)
		if host := relayed(); host != nil {
			t.Errorf("before anybody came through it: %q", *host)
		}
		whoami(t, address, public)
		if host := relayed(); host == nil || *host != public {
			t.Errorf("relayed for %v, want %s", host, public)
		}
	})
	t.Run("behind haproxy that says nothing, with local clients off", func(t *testing.T) {
		node := startNode(t, "[http]\nanonymous_check = \"none\"\nanonymous_report = \"none\"\n")
		address := haproxy.start(t, node)
		for _, host := range []string{public, local} {
			if v := whoami(t, address, host); v.Check || v.Report || v.Admin {
				t.Errorf("host %s: %+v", host, v)
			}
		}
	})
	for _, tt := range []struct {
		what  string
		proxy proxy
	}{
		{"nginx", nginx.with("proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")},
		{"caddy", caddy},
		{"haproxy", haproxy.with("option forwardfor")},
	} {
		t.Run("trusted "+tt.what, func(t *testing.T) {
			address := tt.proxy.start(t, trusting)
			if v := whoami(t, address, public); v.Local || v.Report {
				t.Errorf("a client on this machine, behind the proxy: %+v", v)
			}
		})
	}
	t.Run("trusted nginx that names nobody", func(t *testing.T) {
		if v := whoami(t, nginx.start(t, trusting), public); v.Local {
			t.Errorf("a client whom it does not name: %+v", v)
		}
	})
}
