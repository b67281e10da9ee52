package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// bySocket returns a client of the node whose socket is at path.
func bySocket(path string) *admin.Client {
	return &admin.Client{Client: client.Client{Server: "http://localhost", HTTP: &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}}}}}
}

// TestSocket asks a node through its socket as the node's own user, and as another user of the machine
// if the test can run a program as one.
func TestSocket(t *testing.T) {
	if path := os.Getenv("BULKHEAD_TEST_SOCKET"); path != "" {
		askAsStranger(t, path)
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux is asked for the process at the other end")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "node.sock")
	n, stop := start(t, Options{Config: httpDoor(t), Dir: filepath.Join(dir, "data"), Socket: socket})
	c := bySocket(socket)
	if users, err := c.Users(t.Context()); err != nil || len(users) != 1 {
		t.Fatalf("accounts without a token: %v, %v", users, err)
	}
	if _, err := c.AddUser(t.Context(), admin.NewUser{Name: "ann", Role: "reporter"}); err != nil {
		t.Fatal(err)
	}
	if link, err := c.NewLoginLink(t.Context()); err != nil || !strings.HasPrefix(link.Path, "/login") {
		t.Errorf("a link: %v, %v", link, err)
	}
	// Over TCP the same user is a stranger.
	tcp := admin.New(address(t, n, "http"), "")
	if _, err := tcp.Users(t.Context()); err == nil {
		t.Error("over TCP, accounts are listed without a token")
	}
	if os.Geteuid() == 0 {
		runAsStranger(t, dir, socket)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket of a node that has stopped is left")
	}
}

// runAsStranger runs this test as another user, who may reach the socket.
func runAsStranger(t *testing.T, dir, socket string) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "test")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestSocket$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "BULKHEAD_TEST_SOCKET="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "asked as 4711") {
		t.Errorf("as user 4711: %v\n%s", err, out)
	}
}

func askAsStranger(t *testing.T, path string) {
	c := bySocket(path)
	mail := []byte("Subject: cheap watches for you\n\nBuy the cheapest watches of the whole town from us today.\n")
	if _, err := c.CheckMessage(t.Context(), mail, client.MessageOptions{}); err != nil {
		t.Errorf("check: %v", err)
	}
	if _, err := c.ReportMessage(t.Context(), mail, client.MessageOptions{User: "ann"}); err != nil {
		t.Errorf("report: %v", err)
	}
	if users, err := c.Users(t.Context()); err == nil {
		t.Errorf("the accounts are shown: %v", users)
	}
	if link, err := c.NewLoginLink(t.Context()); err == nil {
		t.Errorf("a link is given: %v", link)
	}
	if v, err := c.Whoami(t.Context()); err != nil || v.Admin || !v.Local || v.Account != "" {
		t.Errorf("whoami: %+v, %v", v, err)
	}
	fmt.Println("asked as", os.Geteuid())
}
