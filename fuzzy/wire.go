package fuzzy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
)

// A Command is the operation of a request. The values are the protocol's.
//
// Source: docs/specs/rspamd-fuzzy.md#commands.
type Command uint8

// The commands.
const (
	Check  Command = iota // look up a digest
	Write                 // add weight to a digest
	Delete                // forget a digest
	Stat                  // how many digests are stored
	Ping
	numCommands
)

// String returns the command's name, for example "check", or "invalid".
func (c Command) String() string {
	if c >= numCommands {
		return "invalid"
	}
	return [numCommands]string{"check", "write", "delete", "stat", "ping"}[c]
}

// Sizes of the protocol in bytes, docs/specs/rspamd-fuzzy.md#request and #replies.
const (
	DigestSize     = 64
	commandSize    = 76
	shinglesSize   = 8 * rspamd.Shingles
	replySize3     = 16 // to version 3
	replySize4     = 96
	replySizeLong  = 144
	maxExtraFlags  = 7
	maxRequestSize = 1024 // the most that rspamd's storage reads
)

// Bits of the version byte, docs/specs/rspamd-fuzzy.md#request.
const (
	versionMask = 0x0f
	longReply   = 0x10
)

// A Request is one command of a client.
type Request struct {
	Version  uint8 // 3, 4 or 5
	LongForm bool  // the client reads the 144-byte reply
	Command  Command
	Flag     uint8 // list to write to
	Value    int32
	Tag      uint32
	Digest   [DigestSize]byte
	Shingled bool // Shingles are the message's
	Shingles [rspamd.Shingles]uint64
}

// ParseRequest reads a plain request into r, extensions skipped. On an error,
// which wraps bulkhead.ErrMalformed, r is undefined.
//
// Source: docs/specs/rspamd-fuzzy.md#request and #extensions.
func ParseRequest(data []byte, r *Request) error {
	if len(data) < commandSize {
		return fmt.Errorf("%w: request of %d bytes, want at least %d", errShort, len(data), commandSize)
	}
	r.Version, r.LongForm = data[0]&versionMask, data[0]&longReply != 0
	if r.Version < 3 || r.Version > 5 {
		return fmt.Errorf("fuzzy: %w: version %d, want 3 to 5", bulkhead.ErrMalformed, r.Version)
	}
	r.Command = Command(data[1])
	if r.Command >= numCommands {
		return fmt.Errorf("fuzzy: %w: command %d, want 0 to %d", bulkhead.ErrMalformed, data[1], numCommands-1)
	}
	r.Shingled = data[2] != 0
	r.Flag = data[3]
	r.Value = int32(binary.LittleEndian.Uint32(data[4:]))
	r.Tag = binary.LittleEndian.Uint32(data[8:])
	copy(r.Digest[:], data[12:])
	rest := data[commandSize:]
	if r.Shingled {
		if len(rest) < shinglesSize {
			return fmt.Errorf("%w: shingles of %d bytes, want %d", errShort, len(rest), shinglesSize)
		}
		for i := range r.Shingles {
			r.Shingles[i] = binary.LittleEndian.Uint64(rest[8*i:])
		}
		rest = rest[shinglesSize:]
	}
	if r.Version == 3 && len(rest) > 0 {
		return fmt.Errorf("fuzzy: %w: %d bytes after a request of version 3", bulkhead.ErrMalformed, len(rest))
	}
	return skipExtensions(rest)
}

var errShort = fmt.Errorf("fuzzy: %w: too short", bulkhead.ErrMalformed)

// Types of extensions, docs/specs/rspamd-fuzzy.md#extensions.
const (
	extPadding = 0 // and nothing behind it: a From without a domain
	extDomain  = 'd'
	extIPv4    = '4'
	extIPv6    = '6'
	extUnknown = 0x80 // this and all above have a length byte
	extFacts   = 0x80 // about the sender, factsSize bytes: a further version would have another type
	factsSize  = 4
)

// skipExtensions checks the form of a command's extensions. Their contents are personal
// data and are not read.
func skipExtensions(rest []byte) error {
	for len(rest) > 0 {
		var n int
		switch t := rest[0]; {
		case t == extPadding && len(bytes.Trim(rest, "\x00")) == 0:
			return nil
		case t == extIPv4:
			n = 1 + 4
		case t == extIPv6:
			n = 1 + 16
		case t == extDomain, t >= extUnknown:
			if len(rest) < 2 {
				return fmt.Errorf("%w: extension %#x without its length", errShort, t)
			}
			if n = 2 + int(rest[1]); t == extFacts && n != 2+factsSize {
				return fmt.Errorf("fuzzy: %w: sender facts of %d bytes, want %d", bulkhead.ErrMalformed, n-2, factsSize)
			}
		default:
			return fmt.Errorf("fuzzy: %w: extension of unknown type %#x", bulkhead.ErrMalformed, t)
		}
		if n > len(rest) {
			return fmt.Errorf("%w: extension %#x of %d bytes, %d left", errShort, rest[0], n, len(rest))
		}
		rest = rest[n:]
	}
	return nil
}

// Append appends the wire form of r, without extensions, to dst.
func (r *Request) Append(dst []byte) []byte {
	version, shingles := r.Version, byte(0)
	if r.LongForm {
		version |= longReply
	}
	if r.Shingled {
		shingles = rspamd.Shingles
	}
	dst = append(dst, version, byte(r.Command), shingles, r.Flag)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(r.Value))
	dst = binary.LittleEndian.AppendUint32(dst, r.Tag)
	dst = append(dst, r.Digest[:]...)
	if r.Shingled {
		for _, s := range r.Shingles {
			dst = binary.LittleEndian.AppendUint64(dst, s)
		}
	}
	return dst
}

// A FlagValue is the weight of a digest on one list.
type FlagValue struct {
	Value int32
	Flag  uint32
}

// A Reply is the answer to one request.
//
// Source: docs/specs/rspamd-fuzzy.md#replies.
type Reply struct {
	FlagValue         // the list with the largest weight; an error code in Value
	Tag       uint32  // of the request
	Prob      float32 // above 0.5: found, or accepted; shingles that agree / 32
	Digest    [DigestSize]byte
	Stored    bool        // Digest is a stored digest, and not a copy of the request's
	Time      uint32      // when it was first stored, seconds since 1970
	Extra     []FlagValue // further lists, at most 7, only in the long form
}

// Error codes in the Value of a reply whose Prob is 0.
const (
	CodeSkipped    = 401
	CodeRefused    = 403 // to old clients for any reason, to newer ones: over the rate limit
	CodeEncryption = 415 // encryption is required
	CodeInternal   = 500
	CodeForbidden  = 503
)

// OK reports whether the reply means found, or accepted.
func (r *Reply) OK() bool { return r.Prob > 0.5 }

// replySize is the size of the reply that the client of a request expects.
func (r *Request) replySize() int {
	switch {
	case r.LongForm || r.Version == 5:
		return replySizeLong
	case r.Version == 3:
		return replySize3
	}
	return replySize4
}

// AppendReply appends the wire form of reply, as the client of request q reads
// it, to dst.
func (q *Request) AppendReply(dst []byte, reply *Reply) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(reply.Value))
	dst = binary.LittleEndian.AppendUint32(dst, reply.Flag)
	dst = binary.LittleEndian.AppendUint32(dst, reply.Tag)
	dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(reply.Prob))
	size := q.replySize()
	if size == replySize3 {
		return dst
	}
	dst = append(dst, reply.Digest[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, reply.Time)
	stored := byte(0)
	if reply.Stored {
		stored = 1
	}
	if size == replySizeLong {
		extra := reply.Extra[:min(len(reply.Extra), maxExtraFlags)]
		dst = append(dst, byte(len(extra)), stored, 0, 0)
		for _, e := range extra {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(e.Value))
			dst = binary.LittleEndian.AppendUint32(dst, e.Flag)
		}
	} else {
		dst = append(dst, stored)
	}
	for len(dst)-start < size {
		dst = append(dst, 0)
	}
	return dst
}

// ParseReply reads a plain reply of 16, 96 or 144 bytes. Its error wraps
// bulkhead.ErrMalformed.
func ParseReply(data []byte) (Reply, error) {
	var r Reply
	if n := len(data); n != replySize3 && n != replySize4 && n != replySizeLong {
		return Reply{}, fmt.Errorf("fuzzy: %w: reply of %d bytes, want %d, %d or %d", bulkhead.ErrMalformed, n,
			replySize3, replySize4, replySizeLong)
	}
	r.Value = int32(binary.LittleEndian.Uint32(data))
	r.Flag = binary.LittleEndian.Uint32(data[4:])
	r.Tag = binary.LittleEndian.Uint32(data[8:])
	r.Prob = math.Float32frombits(binary.LittleEndian.Uint32(data[12:]))
	if len(data) == replySize3 {
		return r, nil
	}
	copy(r.Digest[:], data[16:])
	r.Time = binary.LittleEndian.Uint32(data[80:])
	if len(data) == replySize4 {
		r.Stored = data[84]&1 != 0
		return r, nil
	}
	n := int(data[84])
	if n > maxExtraFlags {
		return Reply{}, fmt.Errorf("fuzzy: %w: %d extra flags, want at most %d", bulkhead.ErrMalformed, n, maxExtraFlags)
	}
	r.Stored = data[85]&1 != 0
	for i := range n {
		at := data[88+8*i:]
		r.Extra = append(r.Extra, FlagValue{Value: int32(binary.LittleEndian.Uint32(at)),
			Flag: binary.LittleEndian.Uint32(at[4:])})
	}
	return r, nil
}

// Err returns the refusal in a reply, or nil if it answers the request. The error wraps
// one of the sentinels of package bulkhead.
func (r *Reply) Err() error {
	if r.OK() || r.Value == 0 {
		return nil
	}
	switch r.Value {
	case CodeSkipped, CodeForbidden:
		return fmt.Errorf("fuzzy: %w: the storage answered %d", bulkhead.ErrForbidden, r.Value)
	case CodeEncryption:
		return fmt.Errorf("fuzzy: %w: the storage requires encrypted requests", bulkhead.ErrUnauthorised)
	case CodeRefused:
		return fmt.Errorf("fuzzy: %w: the storage answered %d: rate limit or permission", bulkhead.ErrOverLimit, r.Value)
	}
	return fmt.Errorf("fuzzy: the storage answered code %d", r.Value)
}

// errNoAnswer marks requests that get no answer at all.
var errNoAnswer = errors.New("fuzzy: no answer")
