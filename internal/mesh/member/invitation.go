package member

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// An Invitation is the content of the line with which a node joins a network. The line is a secret
// until it has been used: the first node that presents it, and is accepted, is in the network. Its
// form is in docs/specs/invitation.md.
type Invitation struct {
	Network uint64    // ID of the network's secret
	Inviter string    // key of the inviter, which decides
	Name    string    // the inviter's own name
	Group   string    // group that the joining node becomes a member of; "" for none
	Hubs    []string  // addresses of the inviter: "host:port"
	Expires time.Time // whole seconds

	Secret [SecretBytes]byte
}

const (
	invitationPrefix  = "bulkhead-invite-"
	invitationVersion = "1"
	SecretBytes       = 16
	sumBytes          = 4
	maxLine           = 4096
	maxHubs           = 8
	maxHub            = 255 // bytes
)

// ErrInvitation reports that a line is no invitation. It wraps [bulkhead.ErrMalformed].
var ErrInvitation = fmt.Errorf("%w: mesh: not an invitation", bulkhead.ErrMalformed)

// newInvitationSecret returns a new random secret for an invitation.
func newInvitationSecret() (s [SecretBytes]byte) {
	rand.Read(s[:])
	return s
}

// ID is the public identifier of an invitation. It does not reveal the secret.
func (v *Invitation) ID() string {
	sum := sha256.Sum256(append([]byte("bulkhead invitation id\x00"), v.Secret[:]...))
	return hex.EncodeToString(sum[:8])
}

// NetworkName returns the fingerprint of the network in its printed form.
func (v *Invitation) NetworkName() string { return wire.NetworkName(v.Network) }

// Line returns the invitation as one line of text.
func (v *Invitation) Line() (string, error) {
	key, err := wire.ParsePublic(v.Inviter)
	if err != nil {
		return "", err
	}
	if err := v.check(); err != nil {
		return "", err
	}
	var b []byte
	b = append(b, key[:]...)
	b = append(b, v.Secret[:]...)
	b = binary.LittleEndian.AppendUint64(b, v.Network)
	b = binary.AppendUvarint(b, uint64(v.Expires.Unix()))
	b = wire.AppendBytes(b, []byte(v.Name))
	b = wire.AppendBytes(b, []byte(v.Group))
	b = binary.AppendUvarint(b, uint64(len(v.Hubs)))
	for _, h := range v.Hubs {
		b = wire.AppendBytes(b, []byte(h))
	}
	sum := lineSum(b)
	return invitationPrefix + invitationVersion + "-" + base64.RawURLEncoding.EncodeToString(append(b, sum[:]...)), nil
}

func lineSum(b []byte) (sum [sumBytes]byte) {
	all := sha256.Sum256(append([]byte("bulkhead invitation\x00"), b...))
	copy(sum[:], all[:])
	return sum
}

// check returns an error for values that a line must not contain.
func (v *Invitation) check() error {
	for what, text := range map[string]string{"name": v.Name, "group": v.Group} {
		if len(text) > wire.MaxName || !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool {
			return !unicode.IsPrint(c)
		}) {
			return fmt.Errorf("%w: %s %.80q: want up to %d bytes of printable text", ErrInvitation, what, text, wire.MaxName)
		}
	}
	if len(v.Hubs) == 0 || len(v.Hubs) > maxHubs {
		return fmt.Errorf("%w: %d hubs, want 1 to %d", ErrInvitation, len(v.Hubs), maxHubs)
	}
	for _, h := range v.Hubs {
		host, port, err := net.SplitHostPort(h)
		if err != nil || host == "" || port == "" || port == "0" || len(h) > maxHub ||
			strings.ContainsFunc(h, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(",/@", c) }) {
			return fmt.Errorf("%w: hub %.80q is not host:port", ErrInvitation, h)
		}
	}
	if s := v.Expires.Unix(); s < 0 || s > 1<<40 {
		return fmt.Errorf("%w: expires at second %d", ErrInvitation, s)
	}
	return nil
}

// ParseInvitation reads a line, ignoring spaces and line breaks. Its errors wrap [ErrInvitation].
// They distinguish a line that is something else, a line of a later version of the program, and a
// mistyped line.
func ParseInvitation(line string) (*Invitation, error) {
	if len(line) > maxLine {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrInvitation, len(line), maxLine)
	}
	line = strings.Join(strings.Fields(line), "")
	rest, ok := strings.CutPrefix(line, invitationPrefix)
	if !ok {
		return nil, fmt.Errorf("%w: want a line that begins with %q, as \"bulkhead invite\" prints it", ErrInvitation,
			invitationPrefix)
	}
	version, rest, ok := strings.Cut(rest, "-")
	if !ok || version == "" {
		return nil, fmt.Errorf("%w: the line is cut off", ErrInvitation)
	}
	if version != invitationVersion {
		return nil, fmt.Errorf("%w: version %.20q, this program reads %s: upgrade it", ErrInvitation, version,
			invitationVersion)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil || len(raw) < sumBytes {
		return nil, fmt.Errorf("%w: the line is mistyped or cut off", ErrInvitation)
	}
	body := raw[:len(raw)-sumBytes]
	if sum := lineSum(body); !bytes.Equal(sum[:], raw[len(body):]) {
		return nil, fmt.Errorf("%w: the line is mistyped or cut off: its checksum is wrong", ErrInvitation)
	}
	v := new(Invitation)
	if err := v.parse(body); err != nil {
		return nil, err
	}
	return v, nil
}

var errShort = errors.New("ends early")

// parse reads the bytes before the checksum. Every value has only one valid encoding.
func (v *Invitation) parse(b []byte) error {
	var key wire.Public
	fixed := len(key) + len(v.Secret) + 8
	if len(b) < fixed {
		return fmt.Errorf("%w: %w", ErrInvitation, errShort)
	}
	copy(key[:], b)
	copy(v.Secret[:], b[len(key):])
	v.Inviter, v.Network = key.ID(), binary.LittleEndian.Uint64(b[fixed-8:])
	r := lineReader{b: b[fixed:]}
	expires := r.number()
	v.Name, v.Group = r.text(), r.text()
	n := r.number()
	for i := uint64(0); i < n && r.err == nil; i++ {
		if i == maxHubs {
			return fmt.Errorf("%w: %d hubs, want 1 to %d", ErrInvitation, n, maxHubs)
		}
		v.Hubs = append(v.Hubs, r.text())
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return fmt.Errorf("%w: %w", ErrInvitation, r.err)
	}
	v.Expires = time.Unix(int64(min(expires, 1<<41)), 0).UTC()
	return v.check()
}

// A lineReader reads numbers and texts; after the first error every read returns zero.
type lineReader struct {
	b   []byte
	err error
}

func (r *lineReader) number() uint64 {
	x, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 { // not the shortest form
		r.b, r.err = nil, errShort
		return 0
	}
	r.b = r.b[n:]
	return x
}

func (r *lineReader) text() string {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errShort
		return ""
	}
	text := string(r.b[:n])
	r.b = r.b[n:]
	return text
}
