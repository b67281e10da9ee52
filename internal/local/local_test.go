package local

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

func TestAdministers(t *testing.T) {
	const own, group = 990, 991
	for _, tt := range []struct {
		uid, gid uint32
		member   bool
		want     bool
	}{
		{0, 0, false, true},
		{own, own, false, true},
		{1000, 1000, false, false},
		{1000, 1000, true, true},
		{1000, group, true, true},
		{Overflow, Overflow, true, false},
	} {
		got := Administers(tt.uid, tt.gid, own, func(uid, gid uint32) bool {
			return tt.member && uid == tt.uid && gid == tt.gid
		})
		if got != tt.want {
			t.Errorf("user %d, group %d, member %v: %v, want %v", tt.uid, tt.gid, tt.member, got, tt.want)
		}
	}
	// A node of the overflow user does not know its own user from strangers.
	if Administers(Overflow, Overflow, Overflow, func(_, _ uint32) bool { return true }) {
		t.Error("the overflow user administers a node")
	}
}

// TestDial connects to sockets in folders of several modes, and to what is none.
func TestDial(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux is asked for the process at the other end")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, Name)
	if _, err := Dial(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	accepted := make(chan uint32, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			uid, _, err := PeerOf(c.(*net.UnixConn))
			if err != nil {
				uid = Overflow
			}
			accepted <- uid
			c.Close()
		}
	}()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if uid := <-accepted; uid != uint32(os.Geteuid()) {
		t.Errorf("the client is user %d, want %d", uid, os.Geteuid())
	}
	for _, mode := range []os.FileMode{0o777, 0o775, 0o702} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Dial(t.Context(), path); !errors.Is(err, ErrStranger) {
			t.Errorf("a socket in a folder of mode %v: %v", mode, err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Dial(t.Context(), path); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a stale socket: %v", err)
	}
}

// TestImpostor checks that a socket of another user is refused in a folder of this user, and
// accepted in the folder of that user. It runs this test as another user, which takes root.
func TestImpostor(t *testing.T) {
	if dir := os.Getenv("BULKHEAD_TEST_LISTEN"); dir != "" {
		l, err := net.Listen("unix", filepath.Join(dir, Name))
		if err != nil {
			t.Fatal(err)
		}
		for {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can run a server as another user")
	}
	const stranger = 4711
	theirs, roots := t.TempDir(), t.TempDir()
	for dir := filepath.Dir(theirs); dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(theirs, stranger, stranger), os.Chown(roots, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "test")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(program, self, 0o755), os.Chmod(program, 0o755),
		os.Chmod(filepath.Dir(program), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{theirs, roots} {
		cmd := exec.Command(program, "-test.run=^TestImpostor$")
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "BULKHEAD_TEST_LISTEN="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		await.True(t, "user "+strconv.Itoa(stranger)+" listens", func() bool {
			c, err := net.Dial("unix", filepath.Join(dir, Name)) // a socket that is bound may not listen yet
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	if err := os.Chown(roots, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), filepath.Join(roots, Name)); !errors.Is(err, ErrStranger) {
		t.Errorf("a stranger's server in root's folder: %v", err)
	}
	c, err := Dial(t.Context(), filepath.Join(theirs, Name))
	if err != nil {
		t.Fatalf("a user's own server: %v", err)
	}
	c.Close()
	if IsMine(theirs) || !IsMine(roots) {
		t.Error("IsMine confuses owners")
	}
}
