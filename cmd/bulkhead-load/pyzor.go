package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

type pyzorLoad struct {
	datagrams
	op    string
	known uint64
}

func newPyzorCommand() *cobra.Command {
	var o pyzorLoad
	cmd := &cobra.Command{
		Use:   "pyzor",
		Short: "Anonymous pings, checks or reports of one digest over UDP; of pyzord too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.op != "ping" && o.op != "check" && o.op != "report" {
				return fmt.Errorf("--op %q, want ping, check or report", o.op)
			}
			seed := uint64(time.Now().UnixNano())
			o.request = func(dst []byte, tag uint32, n uint64) []byte { return o.appendRequest(dst, tag, n, seed) }
			o.answer = pyzorAnswer
			return o.run(cmd.Context(), cmd.OutOrStdout(), "pyzor "+o.op)
		},
	}
	o.flags(cmd, "127.0.0.1:24441")
	f := cmd.Flags()
	f.StringVar(&o.op, "op", "check", "ping, check or report")
	f.Uint64Var(&o.known, "digests", 1_000_000, "distinct digests that requests are drawn from; 0: each request has a new one")
	return cmd
}

// appendRequest appends a request of the Python client; see docs/specs/pyzor.md#requests.
// Nobody verifies the signature of an anonymous one, so it is always the same.
func (o *pyzorLoad) appendRequest(dst []byte, tag uint32, n, seed uint64) []byte {
	dst = append(append(append(dst, "Op: "...), o.op...), '\n')
	if o.op != "ping" {
		if o.known > 0 {
			n, seed = n%o.known, 0
		}
		var sum [20]byte
		binary.BigEndian.PutUint64(sum[:], (n+seed)*0x9e3779b97f4a7c15)
		binary.BigEndian.PutUint64(sum[8:], n)
		dst = append(dst, "Op-Digest: "...)
		dst = append(hex.AppendEncode(dst, sum[:]), '\n')
	}
	if o.op == "report" {
		dst = append(dst, "Op-Spec: 20,3,60,3\n"...)
	}
	dst = append(dst, "Thread: "...)
	dst = strconv.AppendUint(dst, uint64(tag), 10)
	return append(dst, "\nPV: 2.1\nUser: anonymous\nTime: 1795267704\nSig: 7fa1f17065bd4909e241fc636207d73d5cea4248\n\n"...)
}

func pyzorAnswer(data []byte) (tag uint32, err error) {
	_, rest, ok := bytes.Cut(data, []byte("\nThread: "))
	if !ok {
		return 0, fmt.Errorf("answer %.80q", data)
	}
	number, _, _ := bytes.Cut(rest, []byte{'\n'})
	n, err := strconv.ParseUint(string(number), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("answer %.80q: %w", data, err)
	}
	if !bytes.HasPrefix(data, []byte("Code: 200\n")) {
		return uint32(n), fmt.Errorf("answer %.120q", data)
	}
	return uint32(n), nil
}
