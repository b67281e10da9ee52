package door_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/bulkhead-mail/bulkhead/door"
)

// A server that says hello, and is shut down.
func ExampleStreamServer() {
	s := &door.StreamServer{
		MaxConns: 100, ConnRate: door.Rate{PerSecond: 10, Burst: 20},
		Handler: func(_ context.Context, c *door.Conn) { fmt.Fprintln(c, "hello") },
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()

	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	line, _ := bufio.NewReader(c).ReadString('\n')
	fmt.Print(line)
	fmt.Println(s.Shutdown(context.Background()))
	fmt.Println(<-served)
	// Output:
	// hello
	// <nil>
	// door: server closed
}

func ExampleLimiter() {
	limiter := door.NewLimiter(door.Rate{PerSecond: 1e-3, Burst: 2}, door.Loopback())
	stranger, local := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("127.0.0.1")
	for range 3 {
		fmt.Println(limiter.Allow(stranger, 1), limiter.Allow(local, 1))
	}
	// Output:
	// true true
	// true true
	// false true
}
