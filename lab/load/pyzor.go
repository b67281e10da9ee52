package load

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// A Pyzor makes anonymous requests of the Pyzor protocol.
type Pyzor struct {
	Datagrams
	Op    string
	Known uint64
}

// Prepare sets the requests and answers of o.Op: ping, check or report. It must come before Run or Measure.
func (o *Pyzor) Prepare() error {
	if o.Op != "ping" && o.Op != "check" && o.Op != "report" {
		return fmt.Errorf("operation %q, want ping, check or report", o.Op)
	}
	seed := uint64(time.Now().UnixNano())
	o.Request = func(dst []byte, tag uint32, n uint64) []byte { return o.AppendRequest(dst, tag, n, seed) }
	o.Answer = PyzorAnswer
	return nil
}

// AppendRequest appends a request of the Python client; see docs/specs/pyzor.md#requests. The
// signature of an anonymous request is not verified, so it is always the same.
func (o *Pyzor) AppendRequest(dst []byte, tag uint32, n, seed uint64) []byte {
	dst = append(append(append(dst, "Op: "...), o.Op...), '\n')
	if o.Op != "ping" {
		if o.Known > 0 {
			n, seed = n%o.Known, 0
		}
		var sum [20]byte
		binary.BigEndian.PutUint64(sum[:], (n+seed)*0x9e3779b97f4a7c15)
		binary.BigEndian.PutUint64(sum[8:], n)
		dst = append(dst, "Op-Digest: "...)
		dst = append(hex.AppendEncode(dst, sum[:]), '\n')
	}
	if o.Op == "report" {
		dst = append(dst, "Op-Spec: 20,3,60,3\n"...)
	}
	dst = append(dst, "Thread: "...)
	dst = strconv.AppendUint(dst, uint64(tag), 10)
	return append(dst, "\nPV: 2.1\nUser: anonymous\nTime: 1795267704\n"+
		"Sig: 7fa1f17065bd4909e241fc636207d73d5cea4248\n\n"...)
}

// PyzorAnswer returns the tag of an answer, and an error if it is a refusal.
func PyzorAnswer(data []byte) (tag uint32, err error) {
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
