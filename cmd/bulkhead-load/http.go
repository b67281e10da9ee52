package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/loadgen"
)

type httpOptions struct {
	loadgen.Options
	address, op, token string
	known              uint64
}

func newHTTPCommand() *cobra.Command {
	var o httpOptions
	cmd := &cobra.Command{
		Use:   "http",
		Short: "POST /v1/check or /v1/report with one ready signature",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.op != "check" && o.op != "report" {
				return fmt.Errorf("--op %q, want check or report", o.op)
			}
			return measure(cmd, "http "+o.op, o.Options, o.connect)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.address, "address", "127.0.0.1:8420", "loopback host:port of the node")
	f.StringVar(&o.op, "op", "check", "check or report")
	f.StringVar(&o.token, "token", "", "bearer token; empty: ask anonymously")
	loadFlags(cmd, &o.Options, 64)
	f.Uint64Var(&o.known, "signatures", 1_000_000, "distinct signatures that requests are drawn from; 0: each request has a new one")
	return cmd
}

// connect returns a client whose requests differ in nothing but the
// signature, so that they are built by writing 40 hex digits.
func (o *httpOptions) connect(i int) (loadgen.Client, error) {
	const place = "0000000000000000000000000000000000000000"
	body := `{"signatures":["pyzor/digest:` + place + `"]}`
	var b strings.Builder
	fmt.Fprintf(&b, "POST /v1/%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", o.op, o.address, len(body))
	if o.token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", o.token)
	}
	request := []byte(b.String() + "\r\n" + body)
	digits := request[len(request)-len(`"]}`)-len(place):][:len(place)]
	rng := rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))
	return loadgen.NewHTTPClient(o.address, 30*time.Second, func() []byte {
		n := rng.Uint64()
		if o.known > 0 {
			n %= o.known
		}
		var sum [20]byte
		// Spread by a multiplication, so that equal numbers give equal sums.
		binary.BigEndian.PutUint64(sum[:], n*0x9e3779b97f4a7c15)
		binary.BigEndian.PutUint64(sum[8:], n)
		hex.Encode(digits, sum[:])
		return request
	})
}
