package nodetest

import (
	"net"
	"runtime"
	"sync"
	"testing"
)

// TestPartition cuts a wire while clients connect again and again. The wire has no connection from then on until it is
// whole again.
func TestPartition(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the system accepts, and no server answers
	w := NewWire(t, l.Addr().String())
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if c, err := net.Dial("tcp", w.Address()); err == nil {
					c.Close()
				}
			}
		})
	}
	conns := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.conns)
	}
	for range 20 {
		Await(t, "a connection", func() bool { return conns() > 0 })
		w.Partition(true)
		for range 1000 {
			if n := conns(); n > 0 {
				t.Fatalf("%d ends of connections outlive the cut", n)
			}
			runtime.Gosched()
		}
		w.Partition(false)
	}
	close(stop)
	w.Partition(true)
	clients.Wait()
}
