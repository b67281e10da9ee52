package policy_test

import (
	"bufio"
	"context"
	"fmt"
	"net"

	"github.com/bulkhead-mail/bulkhead/policy"
)

// once lets each recipient through once.
type once map[string]bool

func (o once) Limit(_ context.Context, attr func(name string) []byte) (action policy.Action, text string, err error) {
	to := string(attr("recipient"))
	if o[to] {
		return policy.Defer, to + " had mail already", nil
	}
	o[to] = true
	return policy.Dunno, "", nil
}

func Example() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := &policy.Server{Limiter: once{}}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()

	// The client's side, as in Postfix.
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	answers := bufio.NewReader(c)
	for range 2 {
		request, err := policy.AppendRequest(nil, "protocol_state", "RCPT", "recipient", "bob@example.com")
		if err != nil {
			fmt.Println(err)
			return
		}
		c.Write(request)
		line, _ := answers.ReadString('\n')
		fmt.Print(line)
		answers.ReadString('\n') // the empty line
	}
	c.Close()
	fmt.Println(s.Shutdown(context.Background()))
	fmt.Println(<-done)
	// Output:
	// action=DUNNO
	// action=450 4.7.1 bob@example.com had mail already
	// <nil>
	// door: server closed
}
