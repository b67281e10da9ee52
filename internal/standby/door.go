package standby

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

const (
	// maxConnections is the number of connections of the other node that a node of a pair serves at once.
	maxConnections = 8
	// maxStrangers is the number of connections that have not shown yet that they are the other node's.
	maxStrangers = 32
	// logStrangers is the time between two lines of the log about connections of strangers.
	logStrangers = time.Minute
)

// A Side is a [Leader] or a [Follower].
type Side interface {
	admits(public string) bool
	// answer calls admit once the other side is known to be the other node of the pair.
	answer(ctx context.Context, conn *tls.Conn, admit func() error) error
}

// A Door answers the other node of a pair on a listener. Strangers who connect cannot keep that node out: of the
// address with the most connections of strangers, the oldest gives way.
type Door struct {
	key  *Key
	side func() Side
	log  *slog.Logger

	refused   atomic.Uint64
	mu        sync.Mutex
	strangers []net.Conn // the oldest first
	admitted  int
	logged    time.Time // when the log had a line about strangers
}

// NewDoor returns a door. side returns the part that this node has at present.
func NewDoor(key *Key, side func() Side, log *slog.Logger) *Door {
	return &Door{key: key, side: side, log: log}
}

// Refused returns the number of connections that were closed because they were not the other node's, or did not
// keep to the protocol.
func (d *Door) Refused() uint64 { return d.refused.Load() }

// Serve answers until ctx ends, and closes the listener.
func (d *Door) Serve(ctx context.Context, listener net.Listener) error {
	var open sync.WaitGroup
	defer open.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	settings := d.key.config(func(public string) bool { return d.side().admits(public) })
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			d.log.Warn("connection for the standby not accepted", "err", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
			continue
		}
		d.enter(conn)
		open.Go(func() { d.serve(ctx, conn, settings) })
	}
}

// serve serves one connection.
func (d *Door) serve(ctx context.Context, conn net.Conn, settings *tls.Config) {
	defer conn.Close()
	end := context.AfterFunc(ctx, func() { conn.Close() })
	defer end()
	known := false
	secure := tls.Server(conn, settings)
	short, done := context.WithTimeout(ctx, dialTimeout)
	err := secure.HandshakeContext(short)
	done()
	if err == nil {
		err = d.side().answer(ctx, secure, func() error {
			known = d.admit(conn)
			if !known {
				return fmt.Errorf("standby: %w: %d connections", bulkhead.ErrOverLimit, maxConnections)
			}
			return nil
		})
	}
	d.leave(conn, known)
	if err == nil || ctx.Err() != nil || known && errors.Is(err, io.EOF) {
		return
	}
	if !known || errors.Is(err, bulkhead.ErrMalformed) {
		d.refused.Add(1)
	}
	if known || d.mayLog() {
		d.log.Info("connection of the standby has ended", "from", conn.RemoteAddr().String(), "known", known, "err", err,
			"refused_so_far", d.refused.Load())
	}
}

// mayLog reports whether a stranger's connection is logged, so that strangers do not fill the log.
func (d *Door) mayLog() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.logged) < logStrangers {
		return false
	}
	d.logged = time.Now()
	return true
}

// enter notes a new connection. Without a place, another one of a stranger is closed.
func (d *Door) enter(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strangers = append(d.strangers, conn)
	if len(d.strangers) <= maxStrangers {
		return
	}
	of := make(map[string]int)
	most := ""
	for _, c := range d.strangers {
		host := hostOf(c)
		if of[host]++; of[host] > of[most] {
			most = host
		}
	}
	i := slices.IndexFunc(d.strangers, func(c net.Conn) bool { return hostOf(c) == most })
	d.strangers[i].Close() // its goroutine notices
	d.strangers = slices.Delete(d.strangers, i, i+1)
}

// admit gives a connection of the other node one of its places. It returns false if there is none.
func (d *Door) admit(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.admitted >= maxConnections {
		return false
	}
	d.admitted++
	d.strangers = slices.DeleteFunc(d.strangers, func(c net.Conn) bool { return c == conn })
	return true
}

// leave gives the place of a connection back.
func (d *Door) leave(conn net.Conn, admitted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if admitted {
		d.admitted--
		return
	}
	d.strangers = slices.DeleteFunc(d.strangers, func(c net.Conn) bool { return c == conn })
}

// hostOf returns the address of the other side, or its network of IPv6: one host may have all of it.
func hostOf(c net.Conn) string {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	bits := 32
	if at.Addr().Unmap().Is6() {
		bits = 64
	}
	host, _ := at.Addr().Unmap().Prefix(bits)
	return host.String()
}
