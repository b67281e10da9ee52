package fuzzy

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestReplyBytes: docs/specs/rspamd-fuzzy.md#replies, byte by byte.
func TestReplyBytes(t *testing.T) {
	var extra []FlagValue
	for i := range 9 {
		extra = append(extra, FlagValue{Value: int32(-i), Flag: uint32(100 + i)})
	}
	reply := Reply{FlagValue: FlagValue{Value: -2, Flag: 0x01020304}, Tag: 0x0a0b0c0d, Prob: 1, Digest: digestOf(1),
		Stored: true, Time: 0x11223344, Extra: extra}
	digest := hex.EncodeToString(reply.Digest[:])
	head := "feffffff 04030201 0d0c0b0a 0000803f"
	long := head + digest + "44332211 07 01 0000"
	for i := range 7 {
		long += fmt.Sprintf("%02x%s %02x000000", byte(-i), strings.Repeat(map[bool]string{true: "ff", false: "00"}[i > 0], 3),
			100+i)
	}
	for _, tt := range []struct {
		q    Request
		want string
	}{
		{Request{Version: 3}, head},
		{Request{Version: 4}, head + digest + "44332211 01" + strings.Repeat("00", 11)},
		{Request{Version: 4, LongForm: true}, long},
		{Request{Version: 5}, long},
	} {
		want := unhex(t, tt.want)
		got := tt.q.AppendReply([]byte("kept"), &reply)
		if string(got[:4]) != "kept" || !bytes.Equal(got[4:], want) {
			t.Errorf("version %d: %x, want %x", tt.q.Version, got, want)
		}
		back, err := ParseReply(want)
		if err != nil || back.FlagValue != reply.FlagValue || back.Tag != reply.Tag || back.Prob != 1 {
			t.Errorf("version %d: read back as %+v, %v", tt.q.Version, back, err)
		}
		if len(want) == replySizeLong && fmt.Sprint(back.Extra) != fmt.Sprint(extra[:7]) {
			t.Errorf("version %d: extra lists %v, want %v", tt.q.Version, back.Extra, extra[:7])
		}
		for _, n := range []int{len(want) - 1, len(want) + 1} {
			if _, err := ParseReply(append(want, 0)[:n]); !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("a reply of %d bytes: %v", n, err)
			}
		}
	}
	tooMany := unhex(t, long)
	tooMany[84] = 8
	if _, err := ParseReply(tooMany); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("eight extra lists: %v", err)
	}
	for flags, want := range map[byte]bool{0: false, 1: true, 2: false, 3: true} {
		data := make([]byte, replySize4)
		data[84] = flags
		if r, err := ParseReply(data); err != nil || r.Stored != want {
			t.Errorf("flags %d: stored %v, %v, want %v", flags, r.Stored, err, want)
		}
	}
	if (&Reply{Prob: 0.5}).OK() || !(&Reply{Prob: math.Nextafter32(0.5, 1)}).OK() {
		t.Error("found is above one half")
	}
}

// TestRequestBytes: docs/specs/rspamd-fuzzy.md#request, byte by byte.
func TestRequestBytes(t *testing.T) {
	r := Request{Version: 4, LongForm: true, Command: Write, Flag: 7, Value: -2, Tag: 0x01020304,
		Digest: digestOf(1), Shingled: true}
	for i := range r.Shingles {
		r.Shingles[i] = uint64(i)<<56 | 1
	}
	want := unhex(t, "14 01 20 07 feffffff 04030201", hex.EncodeToString(r.Digest[:]))
	for i := range 32 {
		want = append(want, 1, 0, 0, 0, 0, 0, 0, byte(i))
	}
	if got := r.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	var back Request
	for name, tail := range map[string]string{"nothing": "", "IPv4": "34 c0000201",
		"IPv6": "36" + strings.Repeat("00", 16), "domain": "64 02 6161",
		"empty domain": "64 00", "others": "81 00 ff 01 00"} {
		if err := ParseRequest(append(bytes.Clone(want), unhex(t, tail)...), &back); err != nil || back != r {
			t.Errorf("%s behind it: %+v, %v", name, back, err)
		}
	}
	for name, tail := range map[string]string{"IPv4": "34 c00002", "IPv6": "36" + strings.Repeat("00", 15),
		"domain": "64 02 61", "domain's length": "64", "other": "80 01", "other's length": "ff",
		"unknown": "7f 00", "below": "33 00"} {
		if err := ParseRequest(append(bytes.Clone(want), unhex(t, tail)...), &back); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s cut behind it: %v", name, err)
		}
	}
	if err := ParseRequest(want[:len(want)-1], &back); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("shingles cut: %v", err)
	}
	for c, name := range map[Command]string{Check: "check", Write: "write", Delete: "delete", Stat: "stat",
		Ping: "ping", 5: "invalid", 255: "invalid"} {
		if c.String() != name {
			t.Errorf("command %d is called %q, want %q", c, c, name)
		}
	}
}
