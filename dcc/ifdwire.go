package dcc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// ifdOptions are the options of a request to dccifd.
//
// Source: docs/specs/dcc.md#dccifd-request.
type ifdOptions struct {
	header, cksums, body bool
	spam, query          bool
	log                  bool
	greyOff, greyQuery   bool
	noReject             bool
	skip                 int // Received headers to pass over
}

// An ifdRecipient is one line of the envelope.
type ifdRecipient struct {
	address string
	user    string // local user, "" if the caller named none
}

// An ifdRequest is the part of a request before the message.
type ifdRequest struct {
	options    ifdOptions
	client     netip.Addr // the zero Addr: to be found in the message
	clientName string
	helo       string
	sender     string
	recipients []ifdRecipient
}

// Limits of the part before the message.
const (
	maxIfdLine       = 4096
	maxIfdRecipients = maxTargets
)

// readIfdRequest reads everything before the message, whose first byte is the next to be
// read from r. Its error wraps bulkhead.ErrMalformed if the request breaks a rule; the
// connection is then closed without a reply.
//
// Source: docs/specs/dcc.md#dccifd-request.
func readIfdRequest(r *bufio.Reader) (*ifdRequest, error) {
	var lines [4]string
	for i := range lines {
		var err error
		if lines[i], err = readIfdLine(r); err != nil {
			return nil, err
		}
	}
	q := new(ifdRequest)
	if err := q.options.parse(lines[0]); err != nil {
		return nil, err
	}
	addr, name, _ := strings.Cut(lines[1], "\r")
	q.clientName = name
	if addr = strings.TrimSpace(addr); addr != "" {
		a, err := netip.ParseAddr(addr)
		if err != nil {
			return nil, malformed("client address %.80q", addr)
		}
		if a = a.Unmap().WithZone(""); !a.IsUnspecified() {
			q.client = a
		}
	}
	q.helo, q.sender = lines[2], lines[3]
	for {
		line, err := readIfdLine(r)
		if err != nil {
			return nil, err
		}
		if line == "" {
			return q, nil
		}
		if len(q.recipients) == maxIfdRecipients {
			return nil, malformed("more than %d recipients", maxIfdRecipients)
		}
		address, user, _ := strings.Cut(line, "\r")
		q.recipients = append(q.recipients, ifdRecipient{address, user})
	}
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("dcc: %w: "+format, append([]any{bulkhead.ErrMalformed}, args...)...)
}

// readIfdLine reads a line without its end and trailing CRs. The buffer of r has at
// least maxIfdLine bytes.
func readIfdLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case len(line) > maxIfdLine, errors.Is(err, bufio.ErrBufferFull):
		return "", malformed("line of more than %d bytes", maxIfdLine)
	case errors.Is(err, io.EOF):
		return "", malformed("request ends after %d bytes of a line", len(line))
	case err != nil:
		return "", fmt.Errorf("dcc: %w", err)
	}
	return strings.TrimRight(string(line[:len(line)-1]), "\r"), nil
}

func (o *ifdOptions) parse(line string) error {
	for word := range strings.FieldsSeq(line) {
		switch strings.ToLower(word) {
		case "header":
			o.header = true
		case "cksums":
			o.cksums = true
		case "body":
			o.body = true
		case "spam":
			o.spam = true
		case "query":
			o.query = true
		case "log":
			o.log = true
		case "grey-off", "no-grey":
			o.greyOff = true
		case "grey-query":
			o.greyQuery = true
		case "no-reject":
			o.noReject = true
		case "rcvd-next", "rcvd-nxt":
			o.skip++
		default:
			return malformed("option %.40q", word)
		}
	}
	if o.query {
		o.spam = false // the caller wants nothing counted
	}
	return nil
}
