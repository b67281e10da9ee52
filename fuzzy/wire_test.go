package fuzzy

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

func unhex(t testing.TB, parts ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Digests of docs/specs/rspamd-fuzzy.md#captured-exchanges.
const (
	digestShort = "111aa0dcdd90d9f2d88a2e688885db46243cd5a7c31b40bec52c77e83d968dcf8636aa9818240757f6d6325f72e5" +
		"db63b59ee08e868f4537fe18e2f32ccd8742"
	digestLong = "ee8cf192859e654c99dfd36943c4d44f77fcd23b754c2c9e84d3bf5caa3a954866a48bba5138bd574f91619b9383" +
		"1fc4db4cbf217f53d375ed7eb24fd589f315"
)

// TestCapturedCheck reads a check as rspamd 3.4 sends it, extensions included.
func TestCapturedCheck(t *testing.T) {
	data := unhex(t, "04000000 00000000 ff3ad660", digestShort, "640c 6d696c6c2e6578616d706c65 34 c000024d")
	var r Request
	if err := ParseRequest(data, &r); err != nil {
		t.Fatal(err)
	}
	want := Request{Version: 4, Tag: 0x60d63aff, Digest: [64]byte(unhex(t, digestShort))}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("ParseRequest = %+v, want %+v", r, want)
	}
	if got := r.Append(nil); !bytes.Equal(got, data[:commandSize]) {
		t.Errorf("Append = %x, want %x", got, data[:commandSize])
	}
}

// TestNewestRequests reads requests of rspamd 4.1 as its sources describe them, and writes them again.
//
// Source: docs/specs/rspamd-fuzzy.md#vectors-of-41.
func TestNewestRequests(t *testing.T) {
	digest := [64]byte(unhex(t, digestShort))
	facts := "640c 6d696c6c2e6578616d706c65 34 c000024d 8004 00005752"
	for name, tt := range map[string]struct {
		hex, extensions string
		want            Request
	}{
		"first check": {"14000000 00000000 ff3ad660" + digestShort, facts, Request{Version: 4,
			LongForm: true, Tag: 0x60d63aff, Digest: digest}},
		"later check": {"05000000 00000000 ff3ad660" + digestShort, facts, Request{
			Version: 5, Tag: 0x60d63aff, Digest: digest}},
		"write": {"1401000b 0a000000 ff3ad660" + digestShort, "", Request{Version: 4, LongForm: true,
			Command: Write, Flag: 11, Value: 10, Tag: 0x60d63aff, Digest: digest}},
		"ping": {"14040000 00d0dd01 ff3ad660" + strings.Repeat("00", 64), "", Request{Version: 4, LongForm: true,
			Command: Ping, Value: 0x01ddd000, Tag: 0x60d63aff}},
	} {
		data := unhex(t, tt.hex, tt.extensions)
		var r Request
		if err := ParseRequest(data, &r); err != nil || !reflect.DeepEqual(r, tt.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, r, err, tt.want)
		}
		if got := r.Append(nil); !bytes.Equal(got, unhex(t, tt.hex)) {
			t.Errorf("%s: written as %x", name, got)
		}
	}
}

// TestNewestReply writes and reads the long reply, with two further lists.
//
// Source: docs/specs/rspamd-fuzzy.md#vectors-of-41.
func TestNewestReply(t *testing.T) {
	data := unhex(t, "0a000000 01000000 ff3ad660 0000803f", digestShort, "00f15365 02010000",
		"05000000 02000000 02000000 0b000000", strings.Repeat("00", 40))
	want := Reply{FlagValue: FlagValue{10, 1}, Tag: 0x60d63aff, Prob: 1, Digest: [64]byte(unhex(t, digestShort)),
		Stored: true, Time: 0x6553f100, Extra: []FlagValue{{5, 2}, {2, 11}}}
	if r, err := ParseReply(data); err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("ParseReply = %+v, %v, want %+v", r, err, want)
	}
	for _, q := range []Request{{Version: 4, LongForm: true}, {Version: 5}} {
		if got := q.AppendReply(nil, &want); !bytes.Equal(got, data) {
			t.Errorf("AppendReply = %x, want %x", got, data)
		}
	}
}

// TestCapturedReply reads and writes a reply as rspamd 3.4 sends it.
func TestCapturedReply(t *testing.T) {
	data := unhex(t, "0a000000 01000000 6b917b87 0000483f", digestLong, "a99d016b 000000000000000000000000")
	r, err := ParseReply(data)
	if err != nil {
		t.Fatal(err)
	}
	if r.Value != 10 || r.Flag != 1 || r.Prob != 0.78125 || r.Time != 0x6b019da9 || !r.OK() || r.Stored {
		t.Errorf("ParseReply = %+v", r)
	}
	q := Request{Version: 4}
	if got := q.AppendReply(nil, &r); !bytes.Equal(got, data) {
		t.Errorf("AppendReply = %x, want %x", got, data)
	}
}

func TestReplySizes(t *testing.T) {
	reply := Reply{FlagValue: FlagValue{Value: 7, Flag: 1}, Prob: 1, Stored: true, Extra: []FlagValue{{5, 2}, {-4, 3}}}
	for _, tt := range []struct {
		q    Request
		size int
	}{{Request{Version: 3}, 16}, {Request{Version: 4}, 96}, {Request{Version: 4, LongForm: true}, 144},
		{Request{Version: 5}, 144}} {
		data := tt.q.AppendReply(nil, &reply)
		if len(data) != tt.size {
			t.Errorf("version %d long %v: %d bytes, want %d", tt.q.Version, tt.q.LongForm, len(data), tt.size)
		}
		got, err := ParseReply(data)
		if err != nil || got.Value != 7 || (tt.size == 144) != (len(got.Extra) == 2) || (tt.size > 16) != got.Stored {
			t.Errorf("version %d long %v: %+v, %v", tt.q.Version, tt.q.LongForm, got, err)
		}
	}
}

func TestParseRequestRefuses(t *testing.T) {
	good := (&Request{Version: 4}).Append(nil)
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for name, data := range map[string][]byte{
		"empty":               nil,
		"one byte short":      good[:commandSize-1],
		"version 2":           change(0, 2),
		"version 6":           change(0, 6),
		"command 5":           change(1, 5),
		"shingles missing":    change(2, 32),
		"extension type":      append(bytes.Clone(good), 'x', 0),
		"extension cut":       append(bytes.Clone(good), '4', 1, 2, 3),
		"domain cut":          append(bytes.Clone(good), 'd', 3, 'a', 'b'),
		"no length":           append(bytes.Clone(good), 0x81),
		"tail of version 3":   append(change(0, 3), '4', 1, 2, 3, 4),
		"unknown length runs": append(bytes.Clone(good), 0x81, 255),
		"facts of 3 bytes":    append(bytes.Clone(good), 0x80, 3, 0, 0, 1),
		"facts of 5 bytes":    append(bytes.Clone(good), 0x80, 5, 0, 0, 0, 0, 1),
	} {
		var r Request
		if err := ParseRequest(data, &r); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: error %v, want one that wraps ErrMalformed", name, err)
		}
	}
	var r Request
	for name, tail := range map[string][]byte{
		"facts": {0x80, 4, 0, 0, 0, 1}, "unknown": {0x99, 2, 1, 2, '6', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'd',
			0},
	} {
		if err := ParseRequest(append(bytes.Clone(good), tail...), &r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReplyErr(t *testing.T) {
	for value, want := range map[int32]error{403: bulkhead.ErrOverLimit, 503: bulkhead.ErrForbidden,
		415: bulkhead.ErrUnauthorised, 401: bulkhead.ErrForbidden} {
		r := Reply{FlagValue: FlagValue{Value: value}}
		if err := r.Err(); !errors.Is(err, want) {
			t.Errorf("code %d: %v, want one that wraps %v", value, err, want)
		}
	}
	if r := (Reply{FlagValue: FlagValue{Value: 500}}); r.Err() == nil {
		t.Error("code 500 is no error")
	}
	for _, r := range []Reply{{}, {Prob: 1, FlagValue: FlagValue{Value: 403}}} {
		if err := r.Err(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// FuzzParseRequest: what parses prints as the same command, and never panics.
func FuzzParseRequest(f *testing.F) {
	f.Add((&Request{Version: 4, Command: Write, Value: -3, Flag: 2}).Append(nil))
	f.Add((&Request{Version: 5, LongForm: true, Shingled: true, Shingles: [32]uint64{1, 2}}).Append(nil))
	f.Add(append((&Request{Version: 4}).Append(nil), 'd', 1, 'x', '4', 1, 2, 3, 4, 0x80, 4, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again Request
		if ParseRequest(data, &r) != nil {
			return
		}
		printed := r.Append(nil)
		if err := ParseRequest(printed, &again); err != nil {
			t.Fatalf("%x printed as %x: %v", data, printed, err)
		}
		if !r.Shingled {
			again.Shingles = r.Shingles
		}
		if !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v printed and read is %+v", r, again)
		}
	})
}

// FuzzParseReply: what parses has a form that parses the same.
func FuzzParseReply(f *testing.F) {
	r := Reply{FlagValue: FlagValue{Value: 1, Flag: 2}, Prob: 1, Extra: []FlagValue{{1, 2}}}
	for _, q := range []Request{{Version: 3}, {Version: 4}, {Version: 5}} {
		f.Add(q.AppendReply(nil, &r))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseReply(data)
		if err != nil || r.Prob != r.Prob {
			return
		}
		q := Request{Version: 3}
		switch len(data) {
		case replySize4:
			q.Version = 4
		case replySizeLong:
			q.Version = 5
		}
		again, err := ParseReply(q.AppendReply(nil, &r))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v printed and read is %+v, %v", r, again, err)
		}
	})
}

// TestPaddedRequest: for a From without a domain rspamd 3.4 sends an empty
// extension and zeroes.
func TestPaddedRequest(t *testing.T) {
	q := Request{Version: 4, Command: Check, Tag: 7, Digest: [DigestSize]byte{1, 2}}
	padded := append(q.Append(nil), 'd', 0, 0, 0, 0, 0)
	var r Request
	if err := ParseRequest(padded, &r); err != nil || r != q {
		t.Errorf("%+v, %v, want %+v", r, err, q)
	}
	if err := ParseRequest(append(padded, 1), &r); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("bytes behind the padding: %v", err)
	}
}
