//go:build interop

package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// A node is a running bulkhead.
type node struct {
	t         *testing.T
	url, dir  string
	api, root *admin.Client // without a token, and its administrator's
}

// startNode starts a node that has nothing but the door of its pages, and what more the
// configuration says.
func startNode(t *testing.T, config string) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir()}
	address := nodetest.Address(t)
	n.url = "http://" + address
	text := fmt.Sprintf("[node]\nname = \"mx.example.com\"\n[listen]\nhttp = %q\n%s", address, config)
	file := filepath.Join(n.dir, "bulkhead.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, n.dir, nodetest.Binary(t), "serve", "--config", file, "--data", n.data())
	nodetest.AwaitTCP(t, address)
	token, err := os.ReadFile(filepath.Join(n.data(), "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	n.api = admin.New(n.url, "")
	n.root = admin.New(n.url, strings.TrimSpace(string(token)))
	return n
}

func (n *node) data() string { return filepath.Join(n.dir, "data") }

// link is a log-in link of the administrator, as the command prints it.
func (n *node) link() string {
	n.t.Helper()
	return strings.TrimSpace(nodetest.Output(n.t, "", nodetest.Binary(n.t), "login", "--server", n.url,
		"--data", n.data()))
}

// user makes an account and returns its token.
func (n *node) user(name, role string) string {
	n.t.Helper()
	token, err := n.root.AddUser(context.Background(), admin.NewUser{Name: name, Role: role})
	if err != nil {
		n.t.Fatal(err)
	}
	return token.Token
}

// letter is a made-up message of a sender.
func letter(sender int, text string) []byte {
	return fmt.Appendf(nil,
		"From: Shop %[1]d <shop%[1]d@example.com>\r\nTo: you@example.net\r\nSubject: Offer\r\n"+
			"Message-ID: <%[1]d@example.com>\r\nDate: Sun, 1 Nov 2026 10:00:00 +0000\r\n"+
			"\r\n%[2]s\r\n", sender, text)
}

// offer is a text long enough to be known by.
const offer = "Dear customer, the garden chairs that you looked at last week are cheaper now. Order before Friday, " +
	"and the cushions " +
	"come for nothing, in green, blue or grey. See https://shop.example.org/chairs?c=17 for all colours and sizes, or " +
	"call us any day."

// full starts a node of which every page has something to show.
func full(t *testing.T) *node {
	t.Helper()
	list := filepath.Join(t.TempDir(), "bad.list")
	nodetest.Output(t, "shop.example.org\n203.0.113.7\n", nodetest.Binary(t), "list", "build", "--name", "bad", list, "-")
	n := startNode(t, fmt.Sprintf(`
[mesh]
mode = "hub"
listen = %q
[[lists.list]]
name = "bad"
path = %q
[[ratelimit]]
name = "recipients"
key = "{sasl_username}"
unique = "{recipient}"
limit = 10
period = "1h"
action = "reject"
`, nodetest.Address(t), list))
	ctx := context.Background()
	ann := &admin.Client{Client: client.Client{Server: n.url, Token: n.user("ann", "trusted")}}
	n.user("bob", "reporter")
	for i := range 3 {
		if _, err := ann.ReportMessage(ctx, letter(i, offer), client.MessageOptions{Vote: bulkhead.Spam}); err != nil {
			t.Fatal(err)
		}
		if _, err := n.api.CheckMessage(ctx, letter(i, offer), client.MessageOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		if _, err := n.root.ApplyRateLimits(ctx,
			map[string]string{"protocol_state": "RCPT", "sasl_username": "carol@example.com",
				"recipient": fmt.Sprintf("r%d@example.net", i)}); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.root.AddPeer(ctx, admin.NewPeer{Key: key, Name: "mx2.example.org", Weight: 0.5}); err != nil {
		t.Fatal(err)
	}
	return n
}
