package milter_test

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/milter"
)

// house knows nothing and counts nothing.
type house struct{ bulkhead.Clearinghouse }

func ExampleServer() {
	s := &milter.Server{
		Clearinghouse: house{},
		Policies:      []milter.Policy{{Spam: milter.Reject}, {Domain: "example.net", Spam: milter.Quarantine}},
		Traps:         []string{"old-address@example.com"},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("smtpd_milters = inet:" + strings.Split(l.Addr().String(), ":")[0])
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	// A real server runs until the program is asked to end.
	fmt.Println(s.Shutdown(context.Background()))
	fmt.Println(<-done)
	// Output:
	// smtpd_milters = inet:127.0.0.1
	// <nil>
	// door: server closed
}

func ExampleServer_SetPolicies() {
	s := &milter.Server{Clearinghouse: house{}}
	fmt.Println(s.SetPolicies([]milter.Policy{{Domain: "example.com", Spam: "bounce"}}))
	// Output: milter: policy "example.com": action "bounce", want none, header, quarantine, tempfail or reject
}
