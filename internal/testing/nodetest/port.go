package nodetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// The ports that [FreePort] returns are below those that Linux gives to connections and to
// listeners without one of their own (net.ipv4.ip_local_port_range, by default from 32768): no
// other program gets a port by chance between its choice and the start of its server.
const (
	firstPort = 12000
	numPorts  = 32768 - firstPort
)

// given are the locks of the ports that this process has been given. Other processes are
// given them again when it has ended.
var given struct {
	sync.Mutex
	locks map[int]*os.File
}

// FreePort returns a loopback port that is free in TCP and UDP, and that no call returns
// again, in any process of this user, while this process runs.
func FreePort(t testing.TB) int {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("bulkhead-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		port := firstPort + rand.IntN(numPorts)
		if take(t, dir, port) && isFree(port) {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// take reports whether a port was free before; then this process has it.
func take(t testing.TB, dir string, port int) bool {
	t.Helper()
	given.Lock()
	defer given.Unlock()
	if given.locks[port] != nil {
		return false
	}
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return false
	}
	if given.locks == nil {
		given.locks = make(map[int]*os.File)
	}
	given.locks[port] = f
	return true
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return false
	}
	u.Close()
	return true
}
