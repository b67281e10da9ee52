//go:build interop

package mesh

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A proxy carries TCP connections to an address, and can be cut.
type proxy struct {
	l     net.Listener
	to    string
	cut   atomic.Bool
	delay atomic.Int64 // longest time that bytes take on the way, nanoseconds
	mu    sync.Mutex
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to, conns: make(map[net.Conn]bool)}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.sever()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.l.Addr().String() }

// partition ends all connections and lets none through until it is healed.
func (p *proxy) partition(cut bool) {
	p.cut.Store(cut)
	if cut {
		p.sever()
	}
}

// sever ends the connections that there are.
func (p *proxy) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

func (p *proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		var d net.Conn
		if !p.cut.Load() {
			d, err = net.Dial("tcp", p.to)
		}
		if d == nil || err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[d] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pump(d, c) })
		p.wg.Go(func() { p.pump(c, d) })
	}
}

func (p *proxy) pump(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if d := p.delay.Load(); d > 0 && n > 0 {
			<-time.After(time.Duration(rand.Int64N(d)))
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
