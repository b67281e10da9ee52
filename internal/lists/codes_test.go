package lists

import (
	"context"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCodes compares the codes and texts of built and extended lists with a plain map, for entries and for hashes of
// them, as read from the files.
func TestCodes(t *testing.T) {
	dir := t.TempDir()
	made := 0
	rapid.Check(t, func(r *rapid.T) {
		made++
		path, source := filepath.Join(dir, fmt.Sprint(made, ".list")), filepath.Join(dir, fmt.Sprint(made, ".txt"))
		hash := rapid.SampledFrom([]string{NoHash, NoHash, MD5, SHA1, SHA256}).Draw(r, "hash")
		structure := rapid.SampledFrom([]Structure{TwoPart, Bits, Fuse}).Draw(r, "structure")
		oracle := make(map[string]Value) // of the entries, with what they inherit
		var all Value
		value := rapid.Custom(func(r *rapid.T) Value {
			v := Value{Text: rapid.SampledFrom([]string{"", "spam", "see http://example.net/?$ # 5", "$$ :x"}).Draw(r, "text")}
			if n := rapid.IntRange(1, 4).Draw(r, "code"); n > 1 {
				v.Code = netip.AddrFrom4([4]byte{127, 0, 0, byte(n)})
			}
			return v
		})
		names := []string{"a.example", "ann@b.example", "192.0.2.7", "2001:db8::/32", "::1", "//c.example/x", "d.example",
			"e.example"}
		// text draws a file and adds its entries to the oracle.
		text := func(lead bool) string {
			var b strings.Builder
			inherited := all
			for range rapid.IntRange(1, 12).Draw(r, "lines") {
				v := value.Draw(r, "value")
				if rapid.IntRange(0, 3).Draw(r, "alone") == 0 && v.Code.IsValid() {
					fmt.Fprintln(&b, v)
					if inherited = v; lead {
						all = v
					}
					lead = false
					continue
				}
				lead = false
				name := rapid.SampledFrom(names).Draw(r, "name")
				line := strings.TrimSpace(name + " " + v.String())
				if v == (Value{}) && rapid.Bool().Draw(r, "comment") {
					line += " # a comment: :9:"
				}
				fmt.Fprintln(&b, line)
				oracle[name] = v.Or(inherited).Or(all)
			}
			return b.String()
		}
		put(t, source, text(true))
		o := Options{Hash: hash, Structure: structure}
		if structure != Fuse {
			o.Capacity = 100
		}
		_, err := Build(context.Background(), path, []string{source}, o)
		if empty := len(oracle) == 0 && o.Capacity == 0; empty != (err != nil) {
			r.Fatalf("%v, of a text with %d entries", err, len(oracle))
		} else if empty {
			return
		}
		if structure != Fuse && rapid.Bool().Draw(r, "add") {
			put(t, source, text(false))
			if _, err := Add(context.Background(), path, 1<<20, []string{source}, false, Options{}); err != nil {
				r.Fatal(err)
			}
		}
		set, err := OpenSet(SetOptions{Files: []File{{"l", path}}, Watch: -1})
		if err != nil {
			r.Fatal(err)
		}
		h := set.Handle("l")
		l := h.List()
		if l.Value() != all {
			r.Fatalf("the list's value is %v, want %v", l.Value(), all)
		}
		own := 0
		for _, name := range names {
			e, err := ParseEntry(name)
			if err != nil {
				r.Fatal(err)
			}
			want, listed := oracle[name]
			if want != all && listed {
				own++
			}
			m, ok := l.Find(e)
			if ok != listed || m.Value != want {
				r.Fatalf("%s: %v, %+v; want %v, %+v", name, ok, m.Value, listed, want)
			}
			var v Value
			switch {
			case e.Kind == Domain:
				v.Code, v.Text, ok = h.FindDomain(name)
			case hash != NoHash:
				v.Code, v.Text, ok = h.FindDigest(digest(hash, e.Text))
			case e.Kind == Network:
				v.Code, v.Text, ok = h.FindAddr(netip.MustParsePrefix(e.Text).Addr())
			default:
				continue
			}
			if v.Code.IsValid() && v.Code == all.Code || v.Text != "" && v.Text == all.Text {
				r.Fatalf("the handle has %+v as %s's own, and it is the list's", v, name)
			}
			if ok != listed || v.Or(all) != want && listed {
				r.Fatalf("the handle has %s: %v, %+v; want %v, %+v", name, ok, v, listed, want)
			}
		}
		if l.Valued() != own {
			r.Fatalf("%d entries have their own value, want %d", l.Valued(), own)
		}
	})
}

// TestCodesOfNetworks: of several networks around an address, the smallest has the answer's code.
func TestCodesOfNetworks(t *testing.T) {
	path, _ := build(t, Options{}, "192.0.2.0/24 :3:", "192.0.2.128/25 :4:", "192.0.2.200", "10.0.0.0/8 :5:")
	set, err := OpenSet(SetOptions{Files: []File{{"l", path}}, Watch: -1})
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{"192.0.2.7": "127.0.0.3", "192.0.2.130": "127.0.0.4",
		"192.0.2.200": "invalid IP", "10.1.2.3": "127.0.0.5"} {
		if code, _, ok := set.Handle("l").FindAddr(netip.MustParseAddr(addr)); !ok || code.String() != want {
			t.Errorf("%s: %v, %v, want %s", addr, code, ok, want)
		}
	}
	if code, _, ok := set.Handle("l").FindAddr(netip.MustParseAddr("192.0.3.1")); ok || code.IsValid() {
		t.Errorf("an address outside has %v", code)
	}
}

// TestValues: wrong values are errors that name the line, and nothing is written.
func TestValues(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"a.example :1:x", "127.0.0.1"},
		{"a.example :0:x", "127.0.0.0"},
		{":256:x", `"256"`},
		{"a.example :127.255.255.2:x", "clients read as errors"},
		{"a.example :10.0.0.2:x", "127.0.0.0/8"},
		{"a.example :::1:x", ""},
		{"a.example :", "neither a code"},
		{"a.example :::", ""},
		{"a.example :2:" + strings.Repeat("x", 256), "256 bytes"},
		{"a.example :2:a\x01b", "control characters"},
		{"a.example :2:\xff", "UTF-8"},
		{"a.example text without a code", "white space"},
		{"$TTL 300", "[[dnsbl.zone]]"},
		{"nodots! :2:x", "nodots!"},
	} {
		dir := t.TempDir()
		source, path := filepath.Join(dir, "t.txt"), filepath.Join(dir, "t.list")
		put(t, source, "good.example :3:\n"+tt.line+"\n")
		_, err := Build(context.Background(), path, []string{source}, Options{})
		if tt.want == "" {
			if err != nil {
				t.Errorf("%q: %v", tt.line, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v, want %q", tt.line, err, tt.want)
		}
		if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
			t.Errorf("%q: %q are written", tt.line, left)
		}
	}
}

// TestCodesFile: a list built without codes loses its file, a changed file is read by a running node, and a damaged one
// leaves the list as it was.
func TestCodesFile(t *testing.T) {
	path, _ := build(t, Options{}, ":4:default", "a.example", "b.example :5:own", "c.example :6",
		"d.example ::only", "e.example :4:default")
	file, err := os.ReadFile(path + CodesSuffix)
	want := ":127.0.0.4:default\nb.example :127.0.0.5:own\nc.example :127.0.0.6:\nd.example ::only\n"
	if err != nil || string(file) != want {
		t.Fatalf("%q, %v, want %q", file, err, want)
	}
	set, err := OpenSet(SetOptions{Files: []File{{"l", path}}, Watch: -1})
	if err != nil {
		t.Fatal(err)
	}
	h := set.Handle("l")
	put(t, path+CodesSuffix, ":6:other\na.example :7:changed\n")
	if err := set.Reload(); err != nil {
		t.Fatal(err)
	}
	a, text, _ := h.FindDomain("a.example")
	all, _ := h.Default()
	if a.String() != "127.0.0.7" || text != "changed" || all.String() != "127.0.0.6" {
		t.Errorf("after a change: %v %q, default %v", a, text, all)
	}
	put(t, path+CodesSuffix, "a.example :300:\n")
	if err := set.Reload(); err == nil || !strings.Contains(err.Error(), CodesSuffix+": line 1") {
		t.Errorf("damaged codes: %v", err)
	}
	if a, _, ok := h.FindDomain("a.example"); !ok || a.String() != "127.0.0.7" {
		t.Errorf("after damage: %v, %v", a, ok)
	}
	source := filepath.Join(t.TempDir(), "t.txt")
	put(t, source, "a.example\n")
	if _, err := Build(context.Background(), path, []string{source}, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + CodesSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the codes of the former list: %v", err)
	}
	big := strings.Repeat("#", 1<<16-2) + "\n"
	put(t, path+CodesSuffix, strings.Repeat(big, (maxCodesLen+2*maxLine)/len(big)))
	if _, err := Open(path, 1<<20); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a file of codes that is too long: %v", err)
	}
}

// TestCodesBounded: a table that is full is an error, also when bad lines are skipped.
func TestCodesBounded(t *testing.T) {
	full := table{size: maxCodesLen - 40}
	if err := full.set("a.example", Value{Text: "x"}); err != nil {
		t.Error(err)
	}
	if err := full.set("b.example", Value{Text: "y"}); !errors.Is(err, errFull) {
		t.Errorf("beyond the limit: %v", err)
	}
	if err := full.set("a.example", Value{Text: "z"}); err != nil || full.own["a.example"].Text != "z" {
		t.Errorf("in place of an entry: %v", err)
	}
}

// TestMergeCodes: the first list's values count, and lists with different values of their own are not merged.
func TestMergeCodes(t *testing.T) {
	first, l := build(t, Options{Capacity: 100}, ":3:", "a.example", "b.example :4:b")
	second, _ := build(t, Options{Like: l}, ":3:", "a.example :5:", "b.example :6:", "c.example :7:c")
	third, _ := build(t, Options{Like: l}, ":8:", "d.example")
	path := filepath.Join(t.TempDir(), "m.list")
	if _, err := Merge(path, 1<<20, []string{first, second}, nil); err != nil {
		t.Fatal(err)
	}
	m, err := Open(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a.example": ":127.0.0.3:", "b.example": ":127.0.0.4:b",
		"c.example": ":127.0.0.7:c"} {
		if found, ok := m.Find(Entry{Domain, name}); !ok || found.Value.String() != want {
			t.Errorf("%s: %v %q, want %q", name, ok, found.Value, want)
		}
	}
	if _, err := Merge(path, 1<<20, []string{first, third}, nil); err == nil ||
		!strings.Contains(err.Error(), "[[dnsbl.zone]]") {
		t.Errorf("lists of different codes: %v", err)
	}
}

// TestBase32: lists of SHA-256 are published in hexadecimal or Base32, and are the same list.
func TestBase32(t *testing.T) {
	sum := digest(SHA256, "ann@example.com")
	b, err := hex.DecodeString(sum)
	if err != nil {
		t.Fatal(err)
	}
	label := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)
	for _, line := range []string{sum, strings.ToUpper(sum), label, strings.ToLower(label), "ann@example.com"} {
		_, l := build(t, Options{Hash: SHA256}, line+" :3:$")
		m, ok := l.Find(Entry{Digest, sum})
		if !ok || m.Value.String() != ":127.0.0.3:$" {
			t.Errorf("%q: %v %q", line, ok, m.Value)
		}
	}
}

// FuzzLines: what a text file gives is read again from the file of codes, and every value is one that may be sent.
func FuzzLines(f *testing.F) {
	for _, s := range []string{":127.0.0.2:Blocked, see http://example.net/?$\n192.0.2.0/24\n192.0.2.7 :3:own\n",
		"::1 ::text\n::2\n", "a.example :2\na.example\n", ": :0", "\xef\xbb\xbf:4:x # y\nb.example\t:127.0.1.3:$$ # z\n",
		"0123456789abcdef0123456789abcdef :5:\n", "$SOA 3000\n", ":2:\n:3:\nx.example\n"} {
		f.Add(s, s[0]&1 == 0)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string, hashes bool) {
		l := &List{}
		if hashes {
			l.meta.Hash = MD5
		}
		in := lines{list: l, lead: true}
		if err := eachLine(strings.NewReader(text), func(_ int, line string) error {
			_, err := in.next(line)
			return err
		}); err != nil {
			return
		}
		for element, v := range l.values.own {
			if v == (Value{}) || len(v.Text) > maxText || v.Code.IsValid() && !codes.Contains(v.Code) {
				t.Errorf("%q has %+v", element, v)
			}
		}
		path := filepath.Join(dir, fmt.Sprint(rand.Uint64()))
		defer os.Remove(path + CodesSuffix)
		if err := l.writeCodes(path); err != nil {
			t.Fatal(err)
		}
		again := &List{meta: l.meta}
		if err := again.readCodes(path); err != nil {
			t.Fatal(err)
		}
		if again.values.all != l.values.all || fmt.Sprint(again.values.own) != fmt.Sprint(l.values.own) {
			t.Errorf("%+v, read again %+v", l.values, again.values)
		}
	})
}
