package verify

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

const letter = "From: Ann <ann@shop.example>\r\nTo: bob@example.com\r\nSubject: chairs\r\n\r\n" +
	"Half price until Monday.\r\n"

// A signer is a key and its record.
type signer struct {
	domain, selector string
	key              crypto.Signer
}

func newSigner(domain string) signer {
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	return signer{domain, "s1", key}
}

func (s signer) name() string { return "TXT " + s.selector + "._domainkey." + s.domain }

// record returns the record of the key, with the tags in extra.
func (s signer) record(t testing.TB, extra string) string {
	t.Helper()
	kind, public := "ed25519", []byte(nil)
	switch k := s.key.Public().(type) {
	case ed25519.PublicKey:
		public = k
	case *rsa.PublicKey:
		var err error
		if public, err = x509.MarshalPKIXPublicKey(k); err != nil {
			t.Fatal(err)
		}
		kind = "rsa"
	}
	return fmt.Sprintf("v=DKIM1; k=%s; %sp=%s", kind, extra, base64.StdEncoding.EncodeToString(public))
}

func (s signer) sign(t testing.TB, message string, fields ...string) string {
	t.Helper()
	var out bytes.Buffer
	err := dkim.Sign(&out, strings.NewReader(message), &dkim.SignOptions{
		Domain: s.domain, Selector: s.selector, Signer: s.key, HeaderKeys: append([]string{"From", "Subject"}, fields...),
		HeaderCanonicalization: dkim.CanonicalizationRelaxed, BodyCanonicalization: dkim.CanonicalizationRelaxed,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// tag adds a tag to the first signature of a message.
func tag(t testing.TB, message, tag string) string {
	t.Helper()
	changed := strings.Replace(message, "DKIM-Signature: ", "DKIM-Signature: "+tag+" ", 1)
	if changed == message {
		t.Fatalf("no signature in %q", message)
	}
	return changed
}

var client = netip.MustParseAddr("198.51.100.7")

// patient returns a verifier whose time for DNS answers suffices on a busy machine.
func patient(o Options) *Verifier {
	v := New(o)
	v.wait = await.Patience
	return v
}

func TestDKIM(t *testing.T) {
	shop, other, strange, trial := newSigner("shop.example"), newSigner("mail.example"),
		newSigner("strange.example"), newSigner("trial.example")
	revoked, long := newSigner("revoked.example"), newSigner("long.example")
	dns := nodetest.ServeDNS(t, map[string][]string{
		shop.name():    {shop.record(t, "")},
		other.name():   {other.record(t, "")},
		trial.name():   {trial.record(t, "t=s:y; ")},
		revoked.name(): {"v=DKIM1; k=ed25519; p="},
		long.name():    {long.record(t, "n="+strings.Repeat("x", maxKey)+"; ")},
	})
	several := strange.sign(t, shop.sign(t, other.sign(t, letter)))
	for _, tt := range []struct {
		name, message string
		want          []string
	}{
		{"none", letter, nil},
		{"one", shop.sign(t, letter), []string{"shop.example"}},
		{"two of one domain", shop.sign(t, shop.sign(t, letter)), []string{"shop.example"}},
		{"of several", several, []string{"shop.example", "mail.example"}},
		{"behind a field that nobody signed", "X-Spam: no\r\n" + shop.sign(t, letter), []string{"shop.example"}},
		{"body changed", shop.sign(t, letter) + "More.\r\n", nil},
		{"Subject changed", strings.Replace(shop.sign(t, letter), "chairs", "tables", 1), nil},
		{"From changed", strings.Replace(shop.sign(t, letter), "ann@", "eve@", 1), nil},
		{"one of two broken",
			"DKIM-Signature: v=1; a=rsa-sha256; d=shop.example; s=s1; h=From; bh=AA; b=AA\r\n" + other.sign(t, letter),
			[]string{"mail.example"}},
		{"a part of the body", tag(t, shop.sign(t, letter), "l=5;"), nil},
		{"expired", tag(t, shop.sign(t, letter), "x=1000000000;"), nil},
		{"From not signed", strings.Replace(shop.sign(t, letter), "h=From:", "h=", 1), nil},
		{"no key", strange.sign(t, letter), nil},
		{"a key that is tried out", trial.sign(t, letter), nil},
		{"a revoked key", revoked.sign(t, letter), nil},
		{"a record too long", long.sign(t, letter), nil},
		{"no message", "\r\n", nil},
		{"nothing", "", nil},
		{"a field without an end", "DKIM-Signature: v=1", nil},
	} {
		got, _ := patient(Options{Resolver: dns.Address}).Verify(t.Context(), []byte(tt.message), netip.Addr{}, "")
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}

	// The sixth signature is not tried, whatever is above it.
	v := patient(Options{Resolver: dns.Address})
	deep := shop.sign(t, letter)
	for range maxSignatures {
		deep = strange.sign(t, deep)
	}
	if got, _ := v.Verify(t.Context(), []byte(deep), netip.Addr{}, ""); len(got) > 0 {
		t.Errorf("signature %d: %q, want it not tried", maxSignatures+1, got)
	}
}

// TestShortKeys: RSA keys of less than 1024 bits verify nothing.
func TestShortKeys(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	for bits, want := range map[int]bool{512: false, 768: false, 1024: true} {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		s := signer{"shop.example", "s1", key}
		dns := nodetest.ServeDNS(t, map[string][]string{s.name(): {s.record(t, "")}})
		got, _ := patient(Options{Resolver: dns.Address}).Verify(t.Context(), []byte(s.sign(t, letter)), netip.Addr{}, "")
		if (len(got) == 1) != want {
			t.Errorf("%d bits: %q, want verified: %v", bits, got, want)
		}
	}
}

func TestSPF(t *testing.T) {
	dns := nodetest.ServeDNS(t, map[string][]string{
		"TXT shop.example":    {"unrelated", "v=spf1 ip4:198.51.100.0/24 -all"},
		"TXT mx.example":      {"v=spf1 mx -all"},
		"MX mx.example":       {"a.mx.example"},
		"A a.mx.example":      {"198.51.100.7", "2001:db8::7"},
		"TXT include.example": {"v=spf1 include:shop.example ~all"},
		"TXT all.example":     {"v=spf1 +all"},
		"TXT inall.example":   {"v=spf1 include:all.example -all"},
		"TXT soft.example":    {"v=spf1 ~all"},
		"TXT twice.example":   {"v=spf1 ip4:198.51.100.7 -all", "v=spf1 +all"},
		"TXT loop.example":    {"v=spf1 include:loop.example -all"},
		"TXT net.example":     {"v=spf1 ip4:127.0.0.0/8 ip4:10.0.0.0/8 -all"},
	})
	v := patient(Options{Resolver: dns.Address})
	for _, tt := range []struct{ client, sender, want string }{
		{"198.51.100.7", "ann@shop.example", "shop.example"},
		{"198.51.100.7", "Ann@SHOP.example", "shop.example"},
		{"::ffff:198.51.100.7", "ann@shop.example", "shop.example"},
		{"198.51.100.7", "\"ann@evil.example\"@shop.example", ""}, // the library would look at another domain
		{"192.0.2.1", "ann@shop.example", ""},
		{"198.51.100.7", "ann@mx.example", "mx.example"},
		{"2001:db8::7", "ann@mx.example", "mx.example"},
		{"2001:db8::8", "ann@mx.example", ""},
		{"198.51.100.7", "ann@include.example", "include.example"},
		{"198.51.100.7", "ann@all.example", ""},
		{"198.51.100.7", "ann@inall.example", ""},
		{"198.51.100.7", "ann@soft.example", ""},
		{"198.51.100.7", "ann@twice.example", ""},
		{"198.51.100.7", "ann@loop.example", ""},
		{"198.51.100.7", "ann@none.example", ""},
		{"198.51.100.7", "ann@sub.shop.example", ""},
		{"198.51.100.7", "", ""},
		{"198.51.100.7", "ann", ""},
		{"198.51.100.7", "ann@localhost", ""},
		{"198.51.100.7", "ann@shop..example", ""},
		{"127.0.0.1", "ann@net.example", ""},
		{"10.1.2.3", "ann@net.example", ""},
	} {
		if _, got := v.Verify(t.Context(), []byte(letter), netip.MustParseAddr(tt.client), tt.sender); got != tt.want {
			t.Errorf("%s from %s: %q, want %q", tt.sender, tt.client, got, tt.want)
		}
	}
	if _, got := v.Verify(t.Context(), []byte(letter), netip.Addr{}, "ann@shop.example"); got != "" {
		t.Errorf("from an unknown client: %q", got)
	}
}

// TestDNSFails checks that without answers nothing is verified, in bounded time.
func TestDNSFails(t *testing.T) {
	shop := newSigner("shop.example")
	dns := nodetest.ServeDNS(t, map[string][]string{shop.name(): {shop.record(t, "")},
		"TXT shop.example": {"v=spf1 ip4:198.51.100.7 -all"}})
	message := []byte(shop.sign(t, letter))
	dns.Silent.Store(true)
	v := patient(Options{Resolver: dns.Address})
	// of which half is left, two seconds: a busy machine takes some of it
	ctx, cancel := context.WithTimeout(t.Context(), 2*maxTime)
	defer cancel()
	start := time.Now()
	if d, s := v.Verify(ctx, message, client, "ann@shop.example"); len(d) > 0 || s != "" {
		t.Errorf("of a DNS that is silent: %q, %q", d, s)
	}
	if ctx.Err() != nil {
		t.Errorf("after %v nothing is left of the time for the message", time.Since(start))
	}
	start = time.Now()
	if d, s := New(Options{Resolver: "127.0.0.1:1"}).Verify(t.Context(), message, client,
		"ann@shop.example"); len(d) > 0 || s != "" || time.Since(start) > 2*maxTime {
		t.Errorf("without a DNS: %q, %q after %v", d, s, time.Since(start))
	}
	if d, s := New(Options{Resolver: dns.Address}).Verify(canceled(t), message, client,
		"ann@shop.example"); len(d) > 0 || s != "" {
		t.Errorf("without time: %q, %q", d, s)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestCache checks that an answer is not asked for again until it is old by the given clock,
// and neither is a name that does not exist.
func TestCache(t *testing.T) {
	shop := newSigner("shop.example")
	dns := nodetest.ServeDNS(t, map[string][]string{shop.name(): {shop.record(t, "")}})
	now := time.Now()
	v := patient(Options{Resolver: dns.Address, Now: func() time.Time { return now }})
	message := []byte(shop.sign(t, letter))
	ask := func() int64 {
		t.Helper()
		before := dns.Asked.Load()
		if d, _ := v.Verify(t.Context(), message, client, "ann@none.example"); len(d) != 1 {
			t.Fatalf("%q", d)
		}
		return dns.Asked.Load() - before
	}
	if n := ask(); n != 2 {
		t.Errorf("%d questions at first, want 2", n)
	}
	if n := ask(); n != 0 {
		t.Errorf("%d questions again, want none", n)
	}
	now = now.Add(keepNothing)
	if n := ask(); n != 1 {
		t.Errorf("%d questions after a minute, want that for the name that was not there", n)
	}
	now = now.Add(keepAnswer)
	if n := ask(); n != 2 {
		t.Errorf("%d questions when all is old, want 2", n)
	}
	for i := range 3 * maxAnswers {
		v.dns.put(question{'T', fmt.Sprint(i)}, []string(nil), nil)
	}
	if n := len(v.dns.young) + len(v.dns.old); n > 2*maxAnswers {
		t.Errorf("%d answers are kept, want %d at most", n, 2*maxAnswers)
	}
}

// TestQuestions checks the limit of queries for one message, however its sender's record
// branches.
func TestQuestions(t *testing.T) {
	records := map[string][]string{"TXT wide.example": {"v=spf1 mx:m0.example mx:m1.example mx:m2.example " +
		"mx:m3.example mx:m4.example mx:m5.example mx:m6.example mx:m7.example -all"}}
	for i := range 8 {
		for k := range 10 {
			host := fmt.Sprintf("h%d-%d.example", i, k)
			records[fmt.Sprintf("MX m%d.example", i)] = append(records[fmt.Sprintf("MX m%d.example", i)], host)
			records["A "+host] = []string{"192.0.2.1"}
		}
	}
	dns := nodetest.ServeDNS(t, records)
	if _, got := patient(Options{Resolver: dns.Address}).Verify(t.Context(), []byte(letter), client,
		"x@wide.example"); got != "" {
		t.Errorf("verified %q", got)
	}
	if n := dns.Asked.Load(); n > maxQuestions {
		t.Errorf("%d questions, want %d at most", n, maxQuestions)
	}
	// With eight signatures, the same record and the keys take no more together.
	v, begun := patient(Options{Resolver: dns.Address}), dns.Asked.Load()
	signed := letter
	for i := range maxSignatures {
		signed = newSigner(fmt.Sprintf("s%d.example", i)).sign(t, signed)
	}
	v.Verify(t.Context(), []byte(signed), client, "x@wide.example")
	if n := dns.Asked.Load() - begun; n > maxQuestions || n < maxSignatures {
		t.Errorf("%d questions for eight signatures and a record, want %d to %d", n, maxSignatures, maxQuestions)
	}
}

// failing is a log that fails a test.
type failing struct{ t *testing.T }

func (f failing) Write(line []byte) (int, error) {
	f.t.Errorf("%s", line)
	return len(line), nil
}

// FuzzVerify checks that a message that no domain can have signed verifies no domain, and that
// nothing panics.
func FuzzVerify(f *testing.F) {
	shop := newSigner("shop.example")
	f.Add([]byte(shop.sign(f, letter)), "v=DKIM1; k=ed25519; p=AAAA",
		"v=spf1 a mx ptr exists:%{i}.x.example include:x.example redirect=y.example", "ann@shop.example")
	f.Add([]byte("DKIM-Signature: v=1; a=rsa-sha256; d=x.example; s=y; h=From; bh=; b=\r\n x\r\n\r\n"), "t=y",
		"v=spf1 a:%{l1r+-}.example/33//129 ~all", "@")
	f.Fuzz(func(t *testing.T, raw []byte, key, record, sender string) {
		v := New(Options{Resolver: "127.0.0.1:1", Log: slog.New(slog.NewTextHandler(failing{t}, nil))})
		v.dns.put(question{'T', "y._domainkey.x.example"}, []string{key}, nil)
		v.dns.put(question{'T', "s1._domainkey.shop.example"}, []string{key}, nil)
		v.dns.put(question{'T', "shop.example"}, []string{record}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		got, spf := v.Verify(ctx, raw, client, sender)
		for _, d := range append(got, spf) {
			if d != "" && !hostName(d) {
				t.Errorf("verified %q", d)
			}
		}
	})
}
