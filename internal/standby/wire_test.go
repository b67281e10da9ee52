package standby

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// TestEntries encodes random entries, and expects them back; a frame that is cut anywhere, or continues after
// another entry, is refused.
func TestEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.Uint64Range(0, 1<<40).Draw(t, "last")
		var want []store.Entry
		for i := range rapid.IntRange(0, 5).Draw(t, "entries") {
			data := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data")
			want = append(want, store.Entry{Index: last + 1 + uint64(i), Data: data})
		}
		frame := appendEntries(nil, want)
		got, err := parseEntries(frame, last)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%v, %v; want %v", got, err, want)
		}
		for i := range want {
			if got[i].Index != want[i].Index || !bytes.Equal(got[i].Data, want[i].Data) {
				t.Fatalf("entry %d is %v, want %v", i, got[i], want[i])
			}
		}
		if len(want) == 0 {
			return
		}
		if _, err := parseEntries(frame, last+1); err == nil {
			t.Fatal("entries that do not continue the journal are taken")
		}
		end := len(frame) - len(want[len(want)-1].Data) - 12
		if cut := rapid.IntRange(end+1, len(frame)-1).Draw(t, "cut"); cut > end {
			if _, err := parseEntries(frame[:cut], last); err == nil {
				t.Fatalf("%d of %d bytes are taken", cut, len(frame))
			}
		}
	})
}

// TestFileNames checks that no file outside of the data folder can be named.
func TestFileNames(t *testing.T) {
	frame := func(name string) []byte { return append(append([]byte{byte(len(name))}, name...), "content"...) }
	for _, name := range []string{"network.key", "mesh/peers.json", strings.Repeat("n", 255)} {
		f, err := parseFile(frame(name))
		if err != nil || f.Name != name || string(f.Content) != "content" {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "a/../../x", "a//b", "a/", "./a"} {
		if f, err := parseFile(frame(name)); err == nil {
			t.Errorf("%q is taken as %q", name, f.Name)
		}
	}
	for _, b := range [][]byte{nil, {5, 'a'}} {
		if _, err := parseFile(b); err == nil {
			t.Errorf("%v is taken", b)
		}
	}
}

// FuzzFrames parses the contents of all frames.
func FuzzFrames(f *testing.F) {
	f.Add(appendEntries(nil, []store.Entry{{Index: 1, Data: []byte("V")}}))
	f.Add(appendEntries(nil, []store.Entry{{Index: 1 << 50, Data: []byte("V")}, {Index: 1<<50 + 7}}))
	f.Add(append([]byte{11}, "network.keyx"...))
	f.Add([]byte(`{"version":1,"follow":true,"role":"second","term":3}`))
	f.Add([]byte("12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if entries, err := parseEntries(b, 0); err == nil && !bytes.Equal(appendEntries(nil, entries), b) {
			t.Errorf("entries %v from %x", entries, b)
		}
		if entries, err := parseHistory(b); err == nil && !bytes.Equal(appendEntries(nil, entries), b) {
			t.Errorf("history %v from %x", entries, b)
		}
		if file, err := parseFile(b); err == nil && !filepath.IsLocal(file.Name) {
			t.Errorf("a file %q", file.Name)
		}
		var h hello
		_ = json.Unmarshal(b, &h)
		_, _ = parseIndex(b)
		_, _ = ParseCode(codePrefix + string(b))
	})
}

// TestInvitation checks that an invitation admits one key, in time, and that its code survives being typed.
func TestInvitation(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	text, err := Invite(first, "first.example.com:8430", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	code, err := Join(second, " "+text+"\n")
	if err != nil {
		t.Fatal(err)
	}
	key, err := OpenKey(first)
	if err != nil {
		t.Fatal(err)
	}
	if code.Address != "first.example.com:8430" || code.Key != key.Public() {
		t.Errorf("code %+v", code)
	}
	s, err := LoadState(second)
	if err != nil || s.Role != Second || s.Peer != key.Public() || s.Token != code.Token {
		t.Errorf("state %+v, %v", s, err)
	}
	for i, want := range []bool{false, true, false} {
		token := code.Token
		if i == 0 {
			token = "another"
		}
		if got, err := redeem(first, token); got != want || err != nil && want {
			t.Errorf("use %d: %v, %v; want %v", i, got, err, want)
		}
	}
	if _, err := Invite(first, "first.example.com:8430", -time.Second); err != nil {
		t.Fatal(err)
	}
	if invited(first) {
		t.Error("an invitation outlives its time")
	}
	for _, bad := range []string{"", "standby1-", text[:len(text)-3], strings.ToLower(text), "standby1-e30"} {
		if c, err := ParseCode(bad); err == nil {
			t.Errorf("%q is taken as %+v", bad, c)
		}
	}
	if _, err := Invite(second, "second.example.com:8430", time.Hour); err == nil {
		t.Error("a second node invites")
	}
}

// TestState writes and reads random states.
func TestState(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		want := State{Role: rapid.SampledFrom([]Role{"", First, Second}).Draw(t, "role"),
			Term:    rapid.Uint64().Draw(t, "term"),
			Address: rapid.StringMatching(`[a-z.]*:[0-9]+`).Draw(t, "address"), Solo: rapid.Bool().Draw(t, "solo")}
		if err := want.Save(dir); err != nil {
			t.Fatal(err)
		}
		if got, err := LoadState(dir); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	})
	if err := (&State{Role: First}).Save(dir); err != nil || len(Inspect(dir)) != 0 {
		t.Errorf("a sound state: %v, %v", err, Inspect(dir))
	}
	for _, s := range []State{{Role: "third"}, {Peer: "00"}, {Peer: "zz"}} {
		if err := s.Save(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadState(dir); err == nil {
			t.Errorf("%+v is taken", s)
		}
		if len(Inspect(dir)) == 0 {
			t.Errorf("%+v is no fault", s)
		}
	}
}
