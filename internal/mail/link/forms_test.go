package link

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNumbersOfIPv4: an address has one form, however its one to four numbers are
// written; numbers that are too large for their place are refused.
func TestNumbersOfIPv4(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 6))
	write := func(n uint64) string {
		zeros := strings.Repeat("0", rng.IntN(3))
		switch rng.IntN(4) {
		case 0:
			return "0" + zeros + strconv.FormatUint(n, 8)
		case 1:
			return "0x" + zeros + strconv.FormatUint(n, 16)
		case 2:
			return "0X" + zeros + strings.ToUpper(strconv.FormatUint(n, 16))
		}
		return strconv.FormatUint(n, 10)
	}
	for range 5000 {
		ip := rng.Uint32() >> (8 * rng.IntN(4))
		parts := 1 + rng.IntN(4)
		var text []string
		for i := range parts - 1 {
			text = append(text, write(uint64(byte(ip>>(24-8*i)))))
		}
		rest := uint64(1) << (8 * (5 - parts)) // one more than the last number may be
		text = append(text, write(uint64(ip)%rest))
		host := strings.Join(text, ".") + strings.Repeat(".", rng.IntN(2))
		want := netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}).String()
		if l, ok := Parse("http://" + host + "/"); !ok || l.Host != want || l.Domain != want {
			t.Fatalf("%s: host %q, domain %q, %v; want %s", host, l.Host, l.Domain, ok, want)
		}
		large := slices.Clone(text)
		if at := rng.IntN(parts); at == parts-1 {
			large[at] = write(rest + rng.Uint64N(2)*rng.Uint64N(1<<40))
		} else {
			large[at] = write(256 + rng.Uint64N(2)*rng.Uint64N(1<<40))
		}
		if l, ok := Parse("http://" + strings.Join(large, ".") + "/"); ok {
			t.Fatalf("%q is taken for %s", large, l.Host)
		}
		if l, ok := Parse("http://" + strings.Join(append(text, "1", "1", "1", "1"), ".") + "/"); ok {
			t.Fatalf("%d numbers are taken for %s", len(text)+4, l.Host)
		}
	}
	for host, want := range map[string]string{"0x": "0.0.0.0", "0": "0.0.0.0", "1.0x": "1.0.0.0", "00": "0.0.0.0"} {
		if l, _ := Parse("http://" + host + "/"); l.Host != want {
			t.Errorf("%s is %q, want %s", host, l.Host, want)
		}
	}
	for _, host := range []string{"1.08", "0x1.0xg.1.", "1.2.3.0xffffffffffffffffff",
		"1.2.3.99999999999999999999999", "1..2", "0x-1", "1.-2"} {
		if l, ok := Parse("http://" + host + "/"); ok && isAddress(l.Host) {
			t.Errorf("%s is taken for the address %s", host, l.Host)
		}
	}
}

// TestPorts: every port there is, and none that is not.
func TestPorts(t *testing.T) {
	usual := map[string]int{"http": 80, "https": 443, "ftp": 21}
	for scheme, own := range usual {
		for _, port := range []int{0, 1, 21, 22, 79, 80, 81, 442, 443, 444, 9999, 65535} {
			want := fmt.Sprint(port)
			if port == own {
				want = ""
			}
			if l, ok := Parse(fmt.Sprintf("%s://h.example:%d/", scheme, port)); !ok || l.Port != want {
				t.Errorf("%s, port %d: %q, %v; want %q", scheme, port, l.Port, ok, want)
			}
		}
	}
	for _, bad := range []string{"65536", "-1", "+1", "1x", "x", " 1", "99999999999999999999"} {
		for _, host := range []string{"h.example", "[2001:db8::1]"} {
			if l, ok := Parse("http://" + host + ":" + bad + "/"); ok && l.Host == host {
				t.Errorf("%s: port %s is taken for %q", host, bad, l.Port)
			}
		}
	}
	if l, ok := Parse("http://[2001:db8::1]80/"); ok {
		t.Errorf("a port without a colon: %+v", l)
	}
}

// TestLengths: the limits, and what is just within them.
func TestLengths(t *testing.T) {
	label := strings.Repeat("a", 61) + "."
	longest := "b" + strings.Repeat(label, 4) + "com"
	longest = strings.Repeat("c", maxHost-len(longest)) + longest
	if name, ok := Name(longest); !ok || name != longest {
		t.Errorf("a name of %d bytes: %q, %v", len(longest), name, ok)
	}
	if name, ok := Name(longest + "."); !ok || name != longest {
		t.Errorf("a name of %d bytes and a dot: %q, %v", len(longest), name, ok)
	}
	if name, ok := Name("a" + longest); ok {
		t.Errorf("a name of %d bytes: %q", len(longest)+1, name)
	}
	head := "http://h.example"
	for _, n := range []int{MaxURL - 1, MaxURL, MaxURL + 1, 10 * MaxURL} {
		text := head + "/" + strings.Repeat("x", n-len(head)-1)
		if l, ok := Parse(text); !ok || len(l.Path) != min(n, MaxURL)-len(head) {
			t.Errorf("a link of %d bytes: %d of path, %v", n, len(l.Path), ok)
		}
	}
	for _, n := range []int{maxFirst - 1, maxFirst, maxFirst + 1} {
		l, _ := Parse(head + "/" + strings.Repeat("x", n) + "/y")
		if want := "h.example/" + strings.Repeat("x", min(n, maxFirst)); l.Place() != want {
			t.Errorf("a first part of %d bytes: place of %d, want %d", n, len(l.Place()), len(want))
		}
	}
}

// TestPercent: a path keeps its meaning, by the standard library's reading of it, and
// has one way to write each byte.
func TestPercent(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 3))
	needless := regexp.MustCompile(`%(2[DdEe]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])`)
	lower := regexp.MustCompile(`%([a-f].|.[a-f])`)
	const alphabet = "%%%%0123456789abcdefABCDEFxyz-_~=&"
	for range 20_000 {
		text := make([]byte, rng.IntN(12))
		for i := range text {
			text[i] = alphabet[rng.IntN(len(alphabet))]
		}
		for _, part := range []string{"/", "/?"} {
			l, ok := Parse("http://h.example" + part + string(text))
			if !ok {
				t.Fatalf("%q is no link", text)
			}
			got := strings.TrimPrefix(l.Path, part)
			if needless.MatchString(got) || lower.MatchString(got) || unescape(got) != got {
				t.Errorf("%q: %q is not the one way to write it", text, got)
			}
			want, err := url.PathUnescape(string(text))
			if err != nil {
				continue // the standard library refuses it, browsers do not
			}
			if back, err := url.PathUnescape(got); err != nil || back != want {
				t.Errorf("%q: %q means %q, %v; want %q", text, got, back, err, want)
			}
			if decode(string(text)) != want {
				t.Errorf("%q decodes as %q, want %q", text, decode(string(text)), want)
			}
		}
	}
	for text, want := range map[string]string{"%": "%", "%4": "%4", "%g1": "%g1", "%1g": "%1g", "a%41%": "aA%",
		"%%41": "%A", "%2f%2F": "//"} {
		if got := decode(text); got != want {
			t.Errorf("%q decodes as %q, want %q", text, got, want)
		}
	}
}

// TestFindEdges: where links begin and end in text.
func TestFindEdges(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"www.a.b", "http://www.a.b"},
		{"www.ab", ""},
		{"see the a[.]bc", ""}, // shorter than any other link
		{"httpstat.us:200 httpbin.org/https", "//httpstat.us"},
		{"[He has left the house.]Then nothing.", ""},
		{"ab[.]cd", "http://ab.cd"},
		{"a.b/c[.]d", "http://c.d"},
		{"http://x", "http://x"},
		{"https://example。com/x", "https://example。com/x"},
		{"https://%65xample%2ecom/x", "https://%65xample%2ecom/x"},
		{"a sentence. http://1. Another:one. www.another.", "http://1 http://www.another"},
		{"http://a.b", "http://a.b"},
		{"HTTP://A.B", "http://A.B"},
		{"httpx://a.b/", ""},
		{"hxxpx://a.b/", ""},
		{"htxp://a.b/", "http://a.b/"},
		{"www.a.b\x7fwww.c.d\x00www.e.f<www.g.h>www.i.j\"www.k.l",
			"http://www.a.b http://www.c.d http://www.e.f http://www.g.h http://www.i.j http://www.k.l"},
		{"www.a.b/x.,;:!?)]}'*_|", "http://www.a.b/x"},
		{"www.a.b/x-", "http://www.a.b/x-"},
		{"x/www.a.b y=www.c.d z\\www.e.f -www.g.h (www.i.j :www.k.l", "http://www.i.j http://www.k.l"},
		{"see(example[.]com/x)", "http://example.com/x"},
		{"ann[at]example[.]com", ""},
		{"[.]example.com", ""},
		{"é[.]example", "http://é.example"},
		{"hxxp[://]a[.]b", "http://a.b"},
		{"hxxp://a[.b/", "http://a.b/"},
	} {
		var got []string
		Find([]byte(tt.text), func(url string) bool { got = append(got, url); return true })
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestFindAnywhere: a link is found wherever it stands in a text without white space,
// and none twice.
func TestFindAnywhere(t *testing.T) {
	const link = "http://a.example/x"
	for _, size := range []int{MaxURL, 2 * MaxURL, 2*MaxURL + 1, 5 * MaxURL} {
		for at := 0; at+len(link) <= size; at += 61 {
			text := strings.Repeat(",", at) + link + strings.Repeat(",", size-at-len(link))
			var got []string
			Find([]byte(text), func(url string) bool { got = append(got, url); return true })
			if len(got) != 1 || got[0] != link {
				t.Fatalf("at %d of %d: %q", at, size, got)
			}
		}
	}
}

// TestTargets: which parameters of a link are links, and what belongs to them.
func TestTargets(t *testing.T) {
	for text, want := range map[string]string{
		"http://a.example/amp/https://b.example/y?z=1":        "http://b.example/y?z=1",
		"http://a.example/amp/https://b.example/y":            "http://b.example/y",
		"http://a.example/?u=https%3A//b.example/y%3Fz&sa=1":  "http://b.example/y?z",
		"http://a.example/?u=https://b.example/y;sa=1":        "http://b.example/y",
		"http://a.example/?u=//b.example:8080/y/../x%23f&c=d": "http://b.example:8080/x",
	} {
		if all := All(text); len(all) != 2 || all[1].URL() != want {
			t.Errorf("%s: %+v, want %s", text, all, want)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"http://a.example/?u=//x.yz", "a.example/ x.yz/"},
		{"http://a.example/?u=//x.y", "a.example/"},
		{"http://a.example/?u=HTTP%3a//b.example", "a.example/ b.example/"},
		{"http://a.example/?u=see+http://b.example", "a.example/"},
		{"http://a.example/?http://b.example", "a.example/"},
		{"http://a.example/?u=ftp://b.example/x", "a.example/"},
		{"http://a.example/HTTPS:/b.example", "a.example/HTTPS: b.example/"},
		{"http://a.example/xhttp://b.example", "a.example/xhttp: b.example/"},
		{"http://a.example/ttp://b.example", "a.example/ttp:"},
		{"http://a.example/x:/http:/b.example", "a.example/x: b.example/"},
		{"http://a.example/b.example", "a.example/b.example"},
	} {
		var got []string
		for _, l := range All(tt.text) {
			got = append(got, l.Place())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
}
