package lists

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// converted returns the lines of a list that a data set of rbldnsd becomes.
func converted(t testing.TB, kind, text string) (lines string, c Conversion, err error) {
	t.Helper()
	c = Conversion{Kind: kind}
	var out bytes.Buffer
	err = c.Convert(strings.NewReader(text), &out)
	return out.String(), c, err
}

// TestConvert has the examples of rbldnsd's manual, and one of each other form.
func TestConvert(t *testing.T) {
	for _, tt := range []struct{ kind, text, want string }{
		{"ip4set", "127.0.0.0/24", "127.0.0.0/24\n"},
		{"ip4set", "127.0.0", "127.0.0.0/24\n"},
		{"ip4set", "127/24", "127.0.0.0/24\n"},
		{"ip4set", "127-127.0.0", "127.0.0.0/24\n"},
		{"ip4set", "127.0.0.0-127.0.0.255", "127.0.0.0/24\n"},
		{"ip4set", "127.0.0.0-255", "127.0.0.0/24\n"},
		{"ip4set", "127.16.0.0-127.31.255.255\n127.16-127.31\n127.16-31\n127.16/12", strings.Repeat("127.16.0.0/12\n", 4)},
		{"ip4set", "127.16.0-31", "127.16.0.0/19\n"},
		{"ip4set", "10.9.1.5-9", "10.9.1.5/32\n10.9.1.6/31\n10.9.1.8/31\n"},
		{"ip4set", "0-255", "0.0.0.0/0\n"},
		{"ip4trie", "$SOA 1w ns1.example.com admin.example.com 0 2h 2h 1w 1h\n$NS 1w ns1.example.com\n$TTL 35m\n" +
			":2:see $\n10.1",
			":127.0.0.2:see $\n10.1.0.0/16\n"},
		{"ip4set", "; one\n# two\n10.1.1.1 ; three\n10.1.1.2 # four", "10.1.1.1/32\n10.1.1.2/32\n"},
		{"ip4set", "$1 open relay\n10.1.1.1 :3:an $1 at $, for $$ 5\n10.1.1.2 only a text\n10.1.1.3:127.0.0.9",
			"10.1.1.1/32 :127.0.0.3:an open relay at $, for $$ 5\n10.1.1.2/32 ::only a text\n10.1.1.3/32 :127.0.0.9:\n"},
		{"ip4set", "10.1.0.0/16\n!10.1.2\n!10.1.3.4", "10.1.0.0/16\n"},
		{"ip6trie", "2001:21ab:c000/36\n2001:21ab:def7:4242 :127.0.1.3: odd\n2605:6001:42::/52\n::1 # localhost",
			"2001:21ab:c000::/36\n2001:21ab:def7:4242::/64 :127.0.1.3:odd\n2605:6001:42::/52\n::1/128\n"},
		{"dnset", ".Example.com\n*.example.net :4", "example.com\nexample.net :127.0.0.4:\n"},
		{"dnset", "example.com\nshop.example.net.", "example.com\nshop.example.net\n"},
	} {
		got, _, err := converted(t, tt.kind, tt.text)
		if err != nil || got != tt.want {
			t.Errorf("%s:\n%s\nis\n%s, %v, want\n%s", tt.kind, tt.text, got, err, tt.want)
		}
	}
}

func TestConvertRefuses(t *testing.T) {
	for _, tt := range []struct{ kind, text, want string }{
		{"ip4set", "10.1.1.1\n10.256", "line 2: \"10.256\""},
		{"ip4set", "10.1.2.3.4", "line 1"},
		{"ip4set", "10.5-4", "ends before"},
		{"ip4set", "10.1/8", "beyond its length"},
		{"ip4set", "10.1.1.1 :1:x", "127.0.0.1"},
		{"ip4set", "!10.1\n10.1.2.3", "line 2: 10.1.2.3/32 is listed inside 10.1.0.0/16"},
		{"ip4set", "$DATASET ip4set x @", "a file of its own"},
		{"ip6trie", "2001:db8::/200", "no IPv6"},
		{"dnset", "example.com\n.example.net", "two lists"},
		{"dnset", "!.example.com\n.a.b.example.com", "is listed inside example.com"},
		{"generic", "www A 127.0.0.1", "none of ip4set"},
	} {
		if _, _, err := converted(t, tt.kind, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %q: %v, want %q", tt.kind, tt.text, err, tt.want)
		}
	}
}

// TestCover: the networks of a range hold its addresses and no others.
func TestCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Uint32().Draw(t, "from")
		to := uint32(min(uint64(from)+uint64(rapid.Uint32Range(0, 5000).Draw(t, "more")), 1<<32-1))
		next := uint64(from)
		for _, p := range cover(addr4(from), addr4(to)) {
			if p.Masked() != p || p.Addr() != addr4(uint32(next)) {
				t.Fatalf("%v, want the network that begins with %v", p, addr4(uint32(next)))
			}
			next += 1 << (32 - p.Bits())
		}
		if next != uint64(to)+1 {
			t.Fatalf("ends before %d, want %d", next, uint64(to)+1)
		}
	})
}

func addr4(v uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

// TestExclude: what a source excludes is replaced in the allow list, and other lines stay.
func TestExclude(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	if err := os.WriteFile(path+AllowSuffix, []byte("good.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		entries []string
		want    []string
	}{
		{[]string{"192.0.2.7/32"}, []string{"192.0.2.7/32", "good.example"}},
		{[]string{"198.51.100.0/24", "192.0.2.8/32"}, []string{"192.0.2.8/32", "198.51.100.0/24", "good.example"}},
		{nil, []string{"good.example"}},
		{nil, []string{"good.example"}},
	} {
		if err := Exclude(path, tt.entries); err != nil {
			t.Fatal(err)
		}
		allow, err := readAllow(path + AllowSuffix)
		var got []string
		for e := range allow {
			got = append(got, e)
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("after %q: %q, %v, want %q", tt.entries, got, err, tt.want)
		}
	}
}

// FuzzConvert: every line that is written is one that a list reads, whatever the file holds.
func FuzzConvert(f *testing.F) {
	for _, text := range []string{"127.16-31 :3:x $\n!127.16.3", "$1 a\n:2:$1\n10.1.2.3 ; x", "2001:db8/33 :4\n::1",
		".a.b :5:$$$", "0-255", "*.\n!", ":\n::", "\xff\x00 :3"} {
		for kind := range Rbldnsd {
			f.Add(kind, text)
		}
	}
	f.Fuzz(func(t *testing.T, kind int, text string) {
		got, c, err := converted(t, Rbldnsd[uint(kind)%uint(len(Rbldnsd))], text)
		if err != nil {
			return
		}
		in := lines{list: &List{}, lead: true}
		if err := eachLine(strings.NewReader(got), func(_ int, line string) error {
			_, err := in.next(line)
			return err
		}); err != nil {
			t.Fatalf("%q became %q: %v", text, got, err)
		}
		for _, e := range c.Excluded {
			if _, err := ParseEntry(e); err != nil {
				t.Fatalf("%q excludes %q: %v", text, e, err)
			}
		}
	})
}
