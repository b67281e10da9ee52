package pyzor

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"strconv"

	"github.com/bulkhead-mail/bulkhead"
)

// An Op is the operation of a request: docs/specs/pyzor.md#requests.
type Op string

// The operations.
const (
	OpPing      Op = "ping"
	OpPong      Op = "pong"
	OpCheck     Op = "check"
	OpReport    Op = "report"
	OpWhitelist Op = "whitelist"
	OpInfo      Op = "info"
)

// Ops returns all operations.
func Ops() []Op { return []Op{OpPing, OpPong, OpCheck, OpReport, OpWhitelist, OpInfo} }

const (
	protocol   = "2.1"
	anonymous  = "anonymous"
	maxDigests = 256 // of one request; some 150 fit into a datagram of 8 KiB
	digestSize = sha1.Size
)

// A Request is one datagram of a client. The byte slices of a parsed request share the
// datagram.
type Request struct {
	Op      []byte
	Digests [][]byte // as text
	Thread  []byte
	Version []byte // PV, empty if absent
	User    []byte // empty if absent
	Time    []byte
	Sig     []byte

	hasSig, hasPV, hasThread, hasOp bool
	authentic                       bool   // signed by the account it names
	handedOn                        bool   // answered by another goroutine
	signedHead, signedTail          []byte // the text around the line with Sig
}

// reset empties r but keeps its memory.
func (r *Request) reset() { *r = Request{Digests: r.Digests[:0]} }

// Parse reads a datagram into r. It reports false if it is not a Pyzor request: no Op or
// no Thread. Lines that are not headers are skipped. If a header occurs twice, the first
// counts. Names are case-insensitive. Source: docs/specs/pyzor.md#transport, #requests
// and #order-of-checks.
func (r *Request) Parse(data []byte) bool {
	r.reset()
	for start := 0; start < len(data); {
		end, next := len(data), len(data)
		if i := bytes.IndexByte(data[start:], '\n'); i >= 0 {
			end, next = start+i, start+i+1
		}
		if name, value, ok := cutHeader(data[start:end]); ok && r.field(name, value) {
			r.signedHead, r.signedTail = data[:start], data[next:]
		}
		start = next
	}
	return r.hasOp && r.hasThread
}

func cutHeader(line []byte) (name, value []byte, ok bool) {
	name, value, ok = bytes.Cut(line, []byte{':'})
	return name, bytes.Trim(value, " \t\r"), ok
}

// field sets one header and reports whether it is the signature.
func (r *Request) field(name, value []byte) (isSig bool) {
	switch {
	case is(name, "op"):
		if !r.hasOp {
			r.Op, r.hasOp = value, true
		}
	case is(name, "op-digest"):
		if len(r.Digests) < maxDigests {
			r.Digests = append(r.Digests, value)
		}
	case is(name, "thread"):
		if !r.hasThread {
			r.Thread, r.hasThread = value, true
		}
	case is(name, "pv"):
		if !r.hasPV {
			r.Version, r.hasPV = value, true
		}
	case is(name, "user"):
		if len(r.User) == 0 {
			r.User = value
		}
	case is(name, "time"):
		if len(r.Time) == 0 {
			r.Time = value
		}
	case is(name, "sig"):
		if !r.hasSig {
			r.Sig, r.hasSig = value, true
			return true
		}
	}
	return false
}

// is compares a header name with a lower-case one.
func is(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// signed returns the text that is signed: all lines but the signature's, without blanks
// at the ends.
func (r *Request) signed() []byte {
	head, tail := bytes.TrimSpace(r.signedHead), bytes.TrimSpace(r.signedTail)
	if len(tail) == 0 {
		return head
	}
	if len(head) == 0 {
		return tail
	}
	return append(append(append(make([]byte, 0, len(head)+len(tail)+1), head...), '\n'), tail...)
}

// accountKey returns K, the hash of name and key: docs/specs/pyzor.md#signatures.
func accountKey(user, key []byte) [2 * sha1.Size]byte {
	b := append(append(make([]byte, 0, len(user)+1+len(key)), user...), ':')
	b = append(b, bytes.ToLower(key)...)
	return hexSum(sha1.Sum(b))
}

// signatureOf returns S, the signature of a text at a time:
// docs/specs/pyzor.md#signatures.
func signatureOf(text, time []byte, key [2 * sha1.Size]byte) [2 * sha1.Size]byte {
	sum := sha1.Sum(text)
	b := append(make([]byte, 0, 128), sum[:]...)
	b = append(append(append(b, ':'), time...), ':')
	return hexSum(sha1.Sum(append(b, key[:]...)))
}

func hexSum(sum [sha1.Size]byte) (text [2 * sha1.Size]byte) {
	hex.Encode(text[:], sum[:])
	return text
}

// ParseDigest reads a digest: 40 hexadecimal characters, in any case.
func ParseDigest(text []byte) (bulkhead.Signature, bool) {
	var sum [digestSize]byte
	if len(text) != hex.EncodedLen(digestSize) {
		return bulkhead.Signature{}, false
	}
	if _, err := hex.Decode(sum[:], text); err != nil {
		return bulkhead.Signature{}, false
	}
	sig, err := bulkhead.NewSignature(bulkhead.PyzorDigest, sum[:])
	return sig, err == nil
}

// appendHead begins an answer: docs/specs/pyzor.md#replies. Clients depend on order and
// spelling.
func appendHead(b []byte, code int, diag string, thread []byte) []byte {
	b = append(b, "Code: "...)
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, "\nDiag: "...)
	b = append(b, diag...)
	b = append(b, "\nPV: "+protocol+"\nThread: "...)
	b = append(b, thread...)
	return append(b, '\n')
}

func appendInt(b []byte, name string, n int64) []byte {
	b = append(append(b, name...), ": "...)
	b = strconv.AppendInt(b, n, 10)
	return append(b, '\n')
}

// Append adds the datagram of a request to b, signed with key for the user it
// names. An empty User is sent as anonymous. Source: docs/specs/pyzor.md#requests and #signatures.
func (r *Request) Append(b []byte, key []byte) []byte {
	start := len(b)
	line := func(name string, value []byte) {
		b = append(append(append(append(b, name...), ": "...), value...), '\n')
	}
	user := r.User
	if len(user) == 0 {
		user = []byte(anonymous)
	}
	line("Op", r.Op)
	for _, d := range r.Digests {
		line("Op-Digest", d)
	}
	if op := Op(r.Op); op == OpReport || op == OpWhitelist {
		line("Op-Spec", []byte("20,3,60,3"))
	}
	line("Thread", r.Thread)
	line("PV", []byte(protocol))
	line("User", user)
	line("Time", r.Time)
	sig := signatureOf(b[start:len(b)-1], r.Time, accountKey(user, key))
	line("Sig", sig[:])
	return append(b, '\n')
}
