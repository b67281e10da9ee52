package logbook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
)

// A Kind is the kind of an entry.
type Kind uint8

// The kinds: a check, or the vote of a report.
const (
	Checked    Kind = iota
	Sighted         // bulkhead.Sighting
	CalledSpam      // bulkhead.Spam
	CalledHam       // bulkhead.Ham
	Withdrawn       // bulkhead.Revocation
	numKinds
)

// kindOf returns the kind of a vote.
func kindOf(v bulkhead.Vote) Kind { return Sighted + Kind(v) }

// Vote returns the vote of a kind; ok is false for a check.
func (k Kind) Vote() (v bulkhead.Vote, ok bool) {
	if k == Checked || k >= numKinds {
		return 0, false
	}
	return bulkhead.Vote(k - Sighted), true
}

// String returns "check" or the name of the vote.
func (k Kind) String() string {
	if v, ok := k.Vote(); ok {
		return v.String()
	}
	if k == Checked {
		return "check"
	}
	return "invalid"
}

// ParseKind returns the kind whose String is text. Its error wraps
// [bulkhead.ErrMalformed].
func ParseKind(text string) (Kind, error) {
	for k := range numKinds {
		if k.String() == text {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%w: %.40q, want check, sighting, spam, ham or revoke", bulkhead.ErrMalformed, text)
}

// A MessageID is the keyed hash of the Message-ID of a message; zero for none.
type MessageID [16]byte

// A Mailbox is the keyed hash of a mail address and the keyed hash of its local part.
type Mailbox struct{ Address, Local uint64 }

// A Key is the secret with which Message-IDs and addresses are hashed.
type Key [32]byte

// MessageID returns the hash of a Message-ID, with or without its angle brackets; zero for "".
func (k *Key) MessageID(text string) (id MessageID) {
	text = strings.Trim(text, " \t\r\n<>")
	if text != "" {
		copy(id[:], k.hash("", text))
	}
	return id
}

// Mailbox returns the hashes of a mail address, zero for "". Its case and the extension of its local
// part make no difference.
func (k *Key) Mailbox(address string) Mailbox {
	if address == "" {
		return Mailbox{}
	}
	address = bulkhead.Mailbox(address)
	local, _, _ := strings.Cut(address, "@")
	hash := func(text string) uint64 { return binary.LittleEndian.Uint64(k.hash("mailbox\x00", text)) }
	return Mailbox{Address: hash(address), Local: hash(local)}
}

func (k *Key) hash(purpose, text string) []byte {
	h := hmac.New(sha256.New, k[:])
	h.Write([]byte(purpose + text))
	return h.Sum(nil)
}

// An Entry is one check or vote.
type Entry struct {
	ID         uint64 // microseconds since 1970; later entries have larger ones
	Door       string // key of the door in the configuration
	Kind       Kind
	Class      bulkhead.Class // class of the answer to a check
	Confidence int            // confidence of the answer, 0 to 100
	White      bool           // a whitelist has the message
	Trap       bool           // the vote of a spam trap
	Waits      bool           // the vote counts and lists nothing before other voters agree
	Post       bool           // the message carries a List-Id: it is a mailing list's, or claims to be
	Reasons    []string       // the weightiest reasons of the answer
	Count      uint32         // recipients of the sighting, or of a sighting that followed the check; 0: none
	Listed     int            // signatures that the vote put on the blocklist
	Revoked    int            // signatures that the vote took off the blocklist
	Account    string         // of the reporter, "" for none
	User       string         // user for whom it reported
	Network    string         // network of a reporter on another machine without an account
	Space      string         // space of the message, see package recent
	From       string         // domain of the sender
	Domains    []string       // of links
	Message    MessageID
	Recipients []Mailbox // of a delivery, at most maxMailboxes
	Subject    string    // "" unless the book stores subjects

	packed []byte // signatures
}

// Time returns the time of e.
func (e *Entry) Time() time.Time { return timeOf(e.ID) }

// Signatures returns the signatures of the message.
func (e *Entry) Signatures() []bulkhead.Signature {
	sigs := make([]bulkhead.Signature, 0, 64)
	for packed := range packedOnes(e.packed) {
		sigs = append(sigs, bulkhead.MustSignature(codes[packed[0]], packed[2:]))
	}
	return sigs
}

// Limits of an entry. Longer values are cut.
const (
	MaxSignatures = 1024
	maxMailboxes  = 64
	maxReasons    = 4
	maxReason     = 240
	maxDomains    = 16
	maxName       = 255
	maxSubject    = 200
)

// codes holds the schemes by their numbers in the file. New schemes are appended.
var codes = [...]bulkhead.Scheme{
	0, bulkhead.Exact, bulkhead.Near, bulkhead.RazorE4, bulkhead.RazorE8, bulkhead.PyzorDigest, bulkhead.DCCIP,
	bulkhead.DCCEnvFrom,
	bulkhead.DCCFrom, bulkhead.DCCSubstitute, bulkhead.DCCMessageID, bulkhead.DCCReceived, bulkhead.DCCBody,
	bulkhead.DCCFuz1,
	bulkhead.DCCFuz2, bulkhead.RspamdText, bulkhead.RspamdShingle, bulkhead.Link, bulkhead.Sender, bulkhead.Network,
	bulkhead.Attachment, bulkhead.Contact, bulkhead.Markup, bulkhead.Claim, bulkhead.Image, bulkhead.Part, bulkhead.Sketch,
}

func codeOf(s bulkhead.Scheme) byte {
	if int(s) < len(codes) && codes[s] == s { // while the numbers are the same
		return byte(s)
	}
	return byte(max(0, slices.Index(codes[:], s)))
}

// pack encodes signatures in sequence: code, length, sum.
func pack(sigs []bulkhead.Signature) []byte {
	sigs = sigs[:min(len(sigs), MaxSignatures)]
	n := 0
	for i := range sigs {
		n += 2 + len(sigs[i].Sum())
	}
	b := make([]byte, 0, n)
	for i := range sigs {
		b = appendPacked(b, &sigs[i])
	}
	return b
}

func appendPacked(b []byte, s *bulkhead.Signature) []byte {
	if !s.Valid() {
		return b
	}
	sum := s.Sum()
	return append(append(b, codeOf(s.Scheme()), byte(len(sum))), sum...)
}

// packedOnes yields the packed form of each signature, up to the end of packed or to a mistake in
// it.
func packedOnes(packed []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(packed) >= 3 {
			end := 2 + int(packed[1])
			if !rightPacked(packed, end) || !yield(packed[:end:end]) {
				return
			}
			packed = packed[end:]
		}
	}
}

// rightPacked reports whether packed begins with a signature that is end bytes long.
func rightPacked(packed []byte, end int) bool {
	return end > 2 && end <= 2+bulkhead.MaxSignature && end <= len(packed) && packed[0] != 0 && int(packed[0]) < len(codes)
}

// has reports whether e has a signature, which is given in packed form.
func (e *Entry) has(one []byte) bool {
	if !bytes.Contains(e.packed, one) {
		return false
	}
	for p := range packedOnes(e.packed) {
		if bytes.Equal(p, one) {
			return true
		}
	}
	return false
}

// version begins an encoded entry.
const version = 1

const (
	whiteFlag = 1 << iota
	trapFlag
	recipientsFlag // the entry has recipients
	waitsFlag
	postFlag
	allFlags = 1<<iota - 1
)

// castagnoli is the table of the checksum.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns e without its ID, which is its key.
func (e *Entry) encode() []byte {
	b := make([]byte, 0, 256+len(e.packed))
	flags := byte(0)
	if e.White {
		flags |= whiteFlag
	}
	if e.Trap {
		flags |= trapFlag
	}
	if len(e.Recipients) > 0 {
		flags |= recipientsFlag
	}
	if e.Waits {
		flags |= waitsFlag
	}
	if e.Post {
		flags |= postFlag
	}
	b = append(b, version, flags, byte(e.Kind), byte(e.Class), byte(min(max(e.Confidence, 0), 100)))
	for _, n := range []int{int(e.Count), e.Listed, e.Revoked} {
		b = binary.AppendUvarint(b, uint64(max(n, 0)))
	}
	for _, s := range []string{e.Door, e.Account, e.User, e.Network, e.Space, e.From} {
		b = appendText(b, s, maxName)
	}
	b = appendText(b, e.Subject, maxSubject)
	b = appendTexts(b, e.Reasons, maxReasons, maxReason)
	b = appendTexts(b, e.Domains, maxDomains, maxName)
	b = append(b, e.Message[:]...)
	if to := e.Recipients[:min(len(e.Recipients), maxMailboxes)]; len(to) > 0 {
		b = binary.AppendUvarint(b, uint64(len(to)))
		for _, m := range to {
			b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, m.Address), m.Local)
		}
	}
	b = append(b, e.packed...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// cut returns at most the first limit bytes of text, in whole characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

func appendText(b []byte, s string, limit int) []byte {
	s = cut(s, limit)
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, all []string, most, limit int) []byte {
	all = all[:min(len(all), most)]
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = appendText(b, s, limit)
	}
	return b
}

// errDamaged is the error of an entry that cannot be read.
var errDamaged = errors.New("logbook: damaged entry")

// decode decodes the form that encode returns. The signatures of the entry refer to data.
func decode(id uint64, data []byte) (Entry, error) {
	if len(data) < 4 {
		return Entry{}, errDamaged
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return Entry{}, errDamaged
	}
	return decodeBody(id, body)
}

// decodeBody is decode without the checksum.
func decodeBody(id uint64, body []byte) (Entry, error) {
	e := Entry{ID: id}
	if len(body) < 5 || body[0] != version {
		return e, errDamaged
	}
	e.White, e.Trap = body[1]&whiteFlag != 0, body[1]&trapFlag != 0
	e.Waits, e.Post = body[1]&waitsFlag != 0, body[1]&postFlag != 0
	e.Kind, e.Class, e.Confidence = Kind(body[2]), bulkhead.Class(body[3]), int(body[4])
	if body[1]&^byte(allFlags) != 0 || e.Kind >= numKinds ||
		e.Class >= bulkhead.NumClasses || e.Confidence > 100 {
		return e, errDamaged
	}
	r := reader{rest: body[5:]}
	e.Count, e.Listed, e.Revoked = uint32(r.number(bulkhead.Many)), int(r.number(MaxSignatures)),
		int(r.number(MaxSignatures))
	for _, s := range []*string{&e.Door, &e.Account, &e.User, &e.Network, &e.Space, &e.From} {
		*s = r.text(maxName)
	}
	e.Subject = r.text(maxSubject)
	e.Reasons = r.texts(maxReasons, maxReason)
	e.Domains = r.texts(maxDomains, maxName)
	copy(e.Message[:], r.bytes(len(e.Message)))
	if body[1]&recipientsFlag != 0 {
		e.Recipients = r.mailboxes()
	}
	e.packed = r.rest
	if r.bad || !wholePacked(e.packed) {
		return e, errDamaged
	}
	return e, nil
}

// wholePacked reports whether packed is a sequence of complete signatures.
func wholePacked(packed []byte) bool {
	for n := 0; len(packed) > 0; n++ {
		if len(packed) < 3 || n == MaxSignatures || !rightPacked(packed, 2+int(packed[1])) {
			return false
		}
		packed = packed[2+int(packed[1]):]
	}
	return true
}

// A reader reads fields from the front of an entry. It is bad after a mistake.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number(limit uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > limit {
		r.rest, r.bad = nil, true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.rest, r.bad = nil, true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) mailboxes() []Mailbox {
	var all []Mailbox
	for range r.number(maxMailboxes) {
		if b := r.bytes(16); b != nil {
			all = append(all, Mailbox{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])})
		}
	}
	return all
}

func (r *reader) text(limit uint64) string {
	return string(r.bytes(int(r.number(limit))))
}

func (r *reader) texts(most, limit uint64) []string {
	n := r.number(most)
	var all []string
	for range n {
		all = append(all, r.text(limit))
	}
	return all
}
