package verify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// TestHostName checks that a host name has two or more labels of letters, digits, hyphens and
// underscores, of at most 63 bytes each and 253 in all.
func TestHostName(t *testing.T) {
	long := strings.Repeat("a", 63)
	most := long + "." + long + "." + long + "." + strings.Repeat("a", 61)
	for name, want := range map[string]bool{
		"shop.example": true, "a.b": true, "x-1_y.example": true, "09.az": true, long + ".example": true, most: true,
		"": false, "example": false, ".": false, "a..b": false, ".example": false, "example.": false,
		long + "a.example": false, most + "a": false,
		"Shop.example": false, "shop.example/": false, "shop example.org": false, "sh`p.example": false,
		"sh{p.example": false, "sh:p.example": false, "büro.example": false,
	} {
		if got := hostName(name); got != want {
			t.Errorf("hostName(%.80q) = %v, %d bytes", name, got, len(name))
		}
	}
}

// TestOnTrial checks that the flag y is found among the flags of the tag t, wherever that is.
func TestOnTrial(t *testing.T) {
	for record, want := range map[string]bool{
		"v=DKIM1; t=y; p=abc": true, "t=y": true, " t = s : y ": true, "p=abc;t=y": true, "t=s;t=y": true,
		"": false, "v=DKIM1; p=abc": false, "t=s": false, "t=": false, "t": false, "t=yes": false, "x=y": false,
		"p=t=y": false, "t=Y": false,
	} {
		if got := onTrial(record); got != want {
			t.Errorf("onTrial(%q) = %v", record, got)
		}
	}
}

// TestCacheGenerations checks that an answer outlives one change of the cache's halves but
// not two, and is kept as long as its kind.
func TestCacheGenerations(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := newCache(nil, func() time.Time { return now })
	missing := &net.DNSError{Err: "no such host", IsNotFound: true}
	for i, tt := range []struct {
		err  error
		keep time.Duration
	}{{nil, keepAnswer}, {missing, keepNothing}, {fmt.Errorf("wrapped: %w", missing), keepNothing},
		{errors.New("no route"), keepFailure}, {&net.DNSError{IsTimeout: true}, keepFailure}} {
		q := question{'T', fmt.Sprint("kept ", i)}
		begin := now
		c.put(q, i, tt.err)
		now = begin.Add(tt.keep - 1)
		if a, ok := c.get(q); !ok || a.value != i || !errors.Is(a.err, tt.err) {
			t.Errorf("%v: %+v, %v just before it is old", tt.err, a, ok)
		}
		now = begin.Add(tt.keep)
		if _, ok := c.get(q); ok {
			t.Errorf("%v: answered from the cache when it is old", tt.err)
		}
	}
	fill := func(of string) {
		for i := range maxAnswers {
			c.put(question{'A', fmt.Sprint(of, i)}, i, nil)
		}
	}
	q := question{'T', "once"}
	c = newCache(nil, func() time.Time { return now })
	c.put(q, "x", nil)
	if len(c.young) != 1 || len(c.old) != 0 {
		t.Fatalf("%d young, %d old", len(c.young), len(c.old))
	}
	fill("a")
	if a, ok := c.get(q); !ok || a.value != "x" {
		t.Errorf("after one generation: %+v, %v", a, ok)
	}
	fill("b")
	if _, ok := c.get(q); ok {
		t.Error("kept for two generations")
	}
}

// TestAsk checks that a name of 253 bytes is looked up as it is, with a final dot except for
// addresses; that a longer name, or one query too many, is not; and that a long answer is not
// cached.
func TestAsk(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := &questions{cache: newCache(nil, func() time.Time { return now }), wait: t.Context(), left: 4}
	var asked []string
	size := 1
	lookUp := func(_ context.Context, name string) (string, error) {
		asked = append(asked, name)
		return "answer of " + name, nil
	}
	do := func(kind byte, name string) (string, error) {
		return ask(s, kind, name, lookUp, func(string) int { return size })
	}
	most := strings.Repeat("a.", 126) + "a"
	for _, tt := range []struct {
		kind       byte
		name, want string
	}{{'T', "Shop.Example.", "shop.example."}, {'T', "shop.example", ""}, {'P', "192.0.2.1", "192.0.2.1"},
		{'T', most, most + "."}} {
		asked = nil
		if got, err := do(tt.kind, tt.name); err != nil || !strings.HasPrefix(got, "answer of ") {
			t.Errorf("%.40q: %.60q, %v", tt.name, got, err)
		}
		if got := strings.Join(asked, " "); got != tt.want {
			t.Errorf("%.40q: asked for %.60q, want %.60q", tt.name, got, tt.want)
		}
	}
	asked = nil
	if got, err := do('T', "a"+most); err != errEnough || got != "" || asked != nil {
		t.Errorf("a name of 254 bytes: %q, %v, asked %q", got, err, asked)
	}
	if got, err := do('T', "one.too.many"); err != errEnough || got != "" || asked != nil {
		t.Errorf("one question too many: %q, %v, asked %q", got, err, asked)
	}
	s.left = 4
	for size = maxAnswer; size <= maxAnswer+1; size++ {
		asked = nil
		name := fmt.Sprint("size", size, ".example")
		do('T', name)
		do('T', name)
		if got, want := len(asked), size-maxAnswer+1; got != want {
			t.Errorf("an answer of %d bytes: asked %d times in two, want %d", size, got, want)
		}
	}
}

// TestNewDefaults checks that without options the clock and resolver are the machine's, and
// that nothing is logged.
func TestNewDefaults(t *testing.T) {
	v := New(Options{})
	if v.log == nil || v.dns == nil || v.dns.from == nil || v.dns.from.Dial != nil {
		t.Fatalf("%+v", v)
	}
	if d := time.Since(v.dns.now()); d < 0 || d > time.Hour {
		t.Errorf("the clock is %v off", d)
	}
	if New(Options{Resolver: "127.0.0.1:1"}).dns.from.Dial == nil {
		t.Error("the resolver that is given is not asked")
	}
}
