package policy

import (
	"bytes"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
)

// The limits of a request. Postfix sends about 25 attributes in 700 bytes; its
// own limit for the value of one is 2048 bytes by default.
const (
	MaxRequest    = 16 << 10 // bytes, the empty line at the end included
	MaxAttributes = 64
)

// requestType is the only type of request there is.
// Source: docs/protocols/policy.md#request.
const requestType = "smtpd_access_policy"

// A Request is one parsed request. It refers to the bytes it was parsed from and can be
// reused, so that a busy connection allocates nothing.
type Request struct {
	attributes []attribute
}

type attribute struct{ name, value []byte }

// ParseRequest reads a request without the empty line at its end into r. A line is
// "name=value" and ends in a line feed; a value may contain any byte but NUL and line
// feed. If an attribute occurs twice, the first counts. Errors wrap
// [bulkhead.ErrMalformed] or [bulkhead.ErrOverLimit], and leave r empty.
func (r *Request) ParseRequest(data []byte) error {
	r.attributes = r.attributes[:0]
	if err := r.parse(data); err != nil {
		r.attributes = r.attributes[:0]
		return err
	}
	return nil
}

func (r *Request) parse(data []byte) error {
	if len(data) > MaxRequest {
		return fmt.Errorf("policy: %w: request of %d bytes, limit %d", bulkhead.ErrOverLimit, len(data), MaxRequest)
	}
	for n := 1; len(data) > 0; n++ {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return fmt.Errorf("policy: %w: line %d has no end", bulkhead.ErrMalformed, n)
		}
		line := data[:end]
		data = data[end+1:]
		equals := bytes.IndexByte(line, '=')
		if equals <= 0 {
			return fmt.Errorf("policy: %w: line %d is not name=value: %.40q", bulkhead.ErrMalformed, n, line)
		}
		if bytes.IndexByte(line, 0) >= 0 {
			return fmt.Errorf("policy: %w: line %d has a NUL byte", bulkhead.ErrMalformed, n)
		}
		if n > MaxAttributes {
			return fmt.Errorf("policy: %w: more than %d attributes", bulkhead.ErrOverLimit, MaxAttributes)
		}
		r.attributes = append(r.attributes, attribute{line[:equals], line[equals+1:]})
	}
	if kind := r.Get("request"); string(kind) != requestType {
		return fmt.Errorf("policy: %w: request type %.40q, want %q", bulkhead.ErrMalformed, kind, requestType)
	}
	return nil
}

// Get returns the value of an attribute, nil if the request does not have it. It is
// valid for as long as the parsed bytes are.
func (r *Request) Get(name string) []byte {
	for i := range r.attributes {
		if a := &r.attributes[i]; string(a.name) == name {
			return a.value
		}
	}
	return nil
}

// AppendRequest appends a request of name and value pairs, with the empty line at its
// end: the client's side of the protocol. It fails, and returns dst unchanged, if a name
// is empty or contains "=", if anything contains a line feed or NUL, or if a limit is
// exceeded.
func AppendRequest(dst []byte, pairs ...string) ([]byte, error) {
	start := len(dst)
	out := append(dst, "request="+requestType+"\n"...)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := []byte(pairs[i]), []byte(pairs[i+1])
		if len(name) == 0 || bytes.IndexByte(name, '=') >= 0 ||
			bytes.ContainsAny(name, "\n\x00") || bytes.ContainsAny(value, "\n\x00") {
			return dst, fmt.Errorf("policy: %w: attribute %.40q with value %.40q", bulkhead.ErrMalformed, name, value)
		}
		out = append(append(append(append(out, name...), '='), value...), '\n')
	}
	out = append(out, '\n')
	if len(pairs)%2 != 0 || len(pairs)/2+1 > MaxAttributes || len(out)-start > MaxRequest {
		return dst, fmt.Errorf("policy: %w: request of %d names and values and %d bytes", bulkhead.ErrOverLimit, len(pairs),
			len(out)-start)
	}
	return out, nil
}
