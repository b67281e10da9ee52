package milter_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/milter"
)

// A house that knows nothing and counts nothing.
type house struct{ bulkhead.Clearinghouse }

func ExampleServer() {
	s := &milter.Server{
		Clearinghouse: house{},
		Policies:      []milter.Policy{{Spam: milter.Reject}, {Domain: "example.net", Spam: milter.Quarantine}},
		Traps:         []string{"old-address@example.com"},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l, err := door.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("smtpd_milters = inet:" + strings.Split(l.Addr().String(), ":")[0])
	cancel() // a real one serves until the program is told to end
	fmt.Println(s.Serve(ctx, l))
	// Output:
	// smtpd_milters = inet:127.0.0.1
	// <nil>
}

func ExampleServer_SetPolicies() {
	s := &milter.Server{Clearinghouse: house{}}
	fmt.Println(s.SetPolicies([]milter.Policy{{Domain: "example.com", Spam: "bounce"}}))
	// Output: milter: policy "example.com": action "bounce" is none of none, header, quarantine, tempfail, reject
}
