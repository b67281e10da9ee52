//go:build interop

package mta

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestCountedWhileStopping has a client finish its request after the node received the signal to
// stop: what was answered as counted must be counted when the node runs again.
func TestCountedWhileStopping(t *testing.T) {
	n := newNode(t, `
[[ratelimit]]
name = "rcpts"
key = "{sender}"
unique = "{recipient}"
limit = 10
period = "24h"
`)
	n.start(t)
	c, err := net.Dial("tcp", n.http)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(nodetest.Patience))
	body := `{"attributes":{"sender":"ann@example.org","recipient":"bob@example.com"}}`
	fmt.Fprintf(c,
		"POST /v1/ratelimits HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
			"Expect: 100-continue\r\n\r\n",
		n.http, len(body))
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusContinue {
		t.Fatalf("the node does not wait for the body: %+v, %v", resp, err)
	}
	fmt.Fprint(c, body[:10])
	stopped := make(chan error, 1)
	go func() { stopped <- n.process.Stop() }()
	nodetest.Await(t, "doors shut", func() bool {
		c, err := net.Dial("tcp", n.policy)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	fmt.Fprint(c, body[10:])
	if resp, err = http.ReadResponse(r, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("answer while the node stops: %+v, %v", resp, err)
	}
	resp.Body.Close()
	c.Close()
	if err := <-stopped; err != nil {
		t.Errorf("the node ended with %v", err)
	}
	n.start(t)
	if out := n.bulkhead(t, "", "ratelimit", "show", "ann@example.org", "--server", "http://"+n.http, "--data",
		n.dir+"/data"); strings.Contains(out, "nothing is counted") {
		t.Errorf("what was counted while the node stopped is lost: %s", out)
	}
}
