package verify

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// emptyBody is the hash of an empty body in relaxed form.
const emptyBody = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

// manyNames returns a message with a worthless signature of n names, the right hash of its body,
// and 2n other fields.
func manyNames(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=shop.example; s=s1; bh=%s; b=AAAA; h=From%s\r\n",
		emptyBody, strings.Repeat(":x", n-1))
	b.WriteString("From: ann@shop.example\r\n")
	b.WriteString(strings.Repeat("y:\r\n", 2*n))
	return b.String() + "\r\n"
}

// longFolds returns a message with n worthless signatures of a field of folds lines.
func longFolds(n, folds int) string {
	signature := "DKIM-Signature: v=1; a=rsa-sha256; c=simple/relaxed; d=shop.example; s=s1; bh=" + emptyBody +
		"; b=AAAA; h=From:x\r\n"
	return strings.Repeat(signature, n) + "From: ann@shop.example\r\nx: y\r\n" + strings.Repeat(" y\r\n", folds) + "\r\n"
}

// work returns the bytes that were worked on until the signatures of a message only needed keys.
func work(t *testing.T, message string) int {
	t.Helper()
	m, err := readSigned(t.Context(), []byte(message), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range m.signatures {
		if _, _, err := m.read(i); err != nil {
			t.Fatal(err)
		}
	}
	return m.work
}

// TestLinear checks that the work on hostile messages is a small multiple of their size, at the
// largest sizes that the limits let through as well.
func TestLinear(t *testing.T) {
	for _, tt := range []struct {
		name        string
		small, four string
		most        int // bytes of work for each byte
	}{
		{"many names", manyNames(maxNames / 4), manyNames(maxNames), 5},
		{"many fields", strings.Repeat("z:\r\n", maxFields/4) + longFolds(1, 10),
			strings.Repeat("z:\r\n", maxFields-3) + longFolds(1, 10), 5},
		{"long folds", longFolds(maxSignatures, 5_000), longFolds(maxSignatures, 20_000), maxSignatures + 3},
		{"largest folds", longFolds(maxSignatures, 60_000), longFolds(maxSignatures, 240_000), maxSignatures + 3},
	} {
		for _, message := range []string{tt.small, tt.four} {
			if n := work(t, message); n < len(message)-2 || n > tt.most*len(message) {
				t.Errorf("%s: %d bytes of work for %d", tt.name, n, len(message))
			}
		}
	}
	// The body is hashed once for all signatures of a form.
	body := strings.Repeat("word and word\r\n", 10_000)
	hash := func(m *signed) int {
		m.hashBody(true)
		m.hashBody(false)
		m.hashBody(true)
		m.hashBody(false)
		return m.work
	}
	m, err := readSigned(t.Context(), []byte(letter+body), time.Now())
	if n := hash(m); err != nil || n > 2*len(letter+body)+step {
		t.Errorf("%d bytes of work for a body of %d in two forms, %v", n, len(body), err)
	}
}

// TestLimits checks that what exceeds a limit is not verified and is counted, and that what just
// does not exceed it is verified.
func TestLimits(t *testing.T) {
	shop := newSigner("shop.example")
	dns := nodetest.ServeDNS(t, map[string][]string{shop.name(): {shop.record(t, "")}})
	plain := shop.sign(t, letter)
	filled := func(size int) string {
		base := shop.sign(t, letter)
		end := strings.Index(base, "\r\n\r\n") + 2
		return "X-Fill: " + strings.Repeat("x", size-end-len("X-Fill: \r\n\r\n")) + "\r\n" + base
	}
	fields := func(n int) string { return strings.Repeat("X:\r\n", n-4) + plain }
	names := func(n int) string {
		return shop.sign(t, letter, slices.Repeat([]string{"X"}, n-2)...)
	}
	for _, tt := range []struct {
		name, message string
		want          bool
		counts        [3]int64 // surplus, headers, signatures
	}{
		{"largest header", filled(maxHeader), true, [3]int64{}},
		{"larger header", filled(maxHeader + 1), false, [3]int64{0, 1, 0}},
		{"most fields", fields(maxFields), true, [3]int64{}},
		{"too many fields", fields(maxFields + 1), false, [3]int64{0, 1, 0}},
		{"most names", names(maxNames), true, [3]int64{}},
		{"too many names", names(maxNames + 1), false, [3]int64{0, 0, 1}},
		{"a long signature", tag(t, plain, "z="+strings.Repeat("x", maxSignature)+";"), false, [3]int64{0, 0, 1}},
		{"the eighth", strings.Repeat("DKIM-Signature: v=1\r\n", maxSignatures-1) + plain, true, [3]int64{}},
		{"the ninth", strings.Repeat("DKIM-Signature: v=1\r\n", maxSignatures) + plain, false, [3]int64{1, 0, 0}},
	} {
		v := patient(Options{Resolver: dns.Address})
		got, _ := v.Verify(t.Context(), []byte(tt.message), netip.Addr{}, "")
		counts := [3]int64{v.Stats.Surplus.Load(), v.Stats.Headers.Load(), v.Stats.Signatures.Load()}
		if (len(got) == 1) != tt.want || counts != tt.counts {
			t.Errorf("%s: verified %q, want %v; counted %d, want %d", tt.name, got, tt.want, counts, tt.counts)
		}
	}
}

// TestSigners checks that of nine signatures the eight from the top are verified and all count.
func TestSigners(t *testing.T) {
	records := make(map[string][]string)
	message, want := letter, []string(nil)
	for i := range maxSignatures + 1 {
		s := newSigner(fmt.Sprintf("d%d.example", i))
		records[s.name()] = []string{s.record(t, "")}
		message = s.sign(t, message)
		if i > 0 {
			want = append(want, s.domain)
		}
	}
	slices.Reverse(want)
	v := patient(Options{Resolver: nodetest.ServeDNS(t, records).Address})
	if got, _ := v.Verify(t.Context(), []byte(message), netip.Addr{}, ""); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// endingContext ends when it has been looked at some times.
type endingContext struct {
	context.Context
	mu    sync.Mutex
	looks int
}

func (c *endingContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestEnds checks that work ends at the first look that finds the context ended, wherever that
// is, and that looks are no further apart than a step, or one field.
func TestEnds(t *testing.T) {
	message := []byte(longFolds(2, 100_000) + strings.Repeat("a  b\r\n", 100_000))
	message = bytes.ReplaceAll(message, []byte("c=simple/relaxed"), []byte("c=simple/simple"))
	sum := sha256.Sum256([]byte(strings.Repeat("a  b\r\n", 100_000)))
	message = bytes.ReplaceAll(message, []byte(emptyBody), []byte(base64.StdEncoding.EncodeToString(sum[:])))
	ended := 0
	for looks := 0; ; looks++ {
		ctx := &endingContext{Context: t.Context(), looks: looks}
		m, err := readSigned(ctx, message, time.Now())
		for n := 0; err == nil && n < len(m.signatures); n++ {
			_, _, err = m.read(m.signatures[n])
		}
		if err == nil {
			break
		}
		if err != context.Canceled || ctx.looks != -1 {
			t.Fatalf("%d looks: %v, and %d more looks", looks, err, -1-ctx.looks)
		}
		ended++
		if most := looks*(step+401_000) + step + 401_000; m.work > most {
			t.Fatalf("%d looks: %d bytes of work, want %d at most", looks, m.work, most)
		}
	}
	if ended < 15 {
		t.Errorf("looked at the context %d times", ended)
	}
	v := New(Options{Resolver: "127.0.0.1:1"})
	late := &endingContext{Context: t.Context(), looks: 3}
	var got []string
	if m := v.read(late, message); m != nil {
		got = v.checkDKIM(late, t.Context(), m)
	}
	if got != nil || v.Stats.Late.Load() != 1 {
		t.Errorf("verified %q, counted %d late", got, v.Stats.Late.Load())
	}
}

// oracle returns whether the library holds the first signature of a message valid, whatever the
// domain of its key.
func oracle(raw []byte, record string) bool {
	got, err := dkim.VerifyWithOptions(bytes.NewReader(raw), &dkim.VerifyOptions{
		LookupTXT: func(string) ([]string, error) { return []string{record}, nil }, MaxVerifications: 1,
	})
	return (err == nil || err == dkim.ErrTooManySignatures) && len(got) == 1 && got[0].Err == nil &&
		hostName(hostOf(got[0].Domain))
}

// ours returns what [oracle] does, by this package.
func ours(raw []byte, record string) bool {
	m, err := readSigned(context.Background(), raw, time.Now())
	if err != nil || len(m.signatures) == 0 {
		return false
	}
	s, digest, err := m.read(m.signatures[0])
	return err == nil && s.validBy(record, digest)
}

var testKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		panic(err)
	}
	return key
})

// resign gives the first signature of a message, whose key is not known here, the hash of the
// body that it has now and a value by testKey. The rest of it stays as it came.
func resign(raw []byte) []byte {
	replace := func(raw []byte, field int, tag, value string) []byte {
		m, _ := readSigned(context.Background(), raw, time.Now())
		old := m.fields[field]
		name, tags, _ := bytes.Cut(old, []byte(":"))
		parts := bytes.Split(tags, []byte(";"))
		for i, part := range parts {
			if key, _, ok := bytes.Cut(part, []byte("=")); ok && string(bytes.TrimSpace(key)) == tag {
				parts[i] = slices.Concat(key, []byte("="), []byte(value))
				if i == len(parts)-1 {
					parts[i] = append(parts[i], "\r\n"...)
				}
			}
		}
		return bytes.Replace(raw, old, slices.Concat(name, []byte(":"), bytes.Join(parts, []byte(";"))), 1)
	}
	m, err := readSigned(context.Background(), raw, time.Now())
	if err != nil || len(m.signatures) == 0 {
		return nil
	}
	i := m.signatures[0]
	s, err := m.parse(i)
	if err != nil || s.kind != "rsa" {
		return nil
	}
	sum, _ := m.hashBody(s.relaxedBody)
	raw = replace(raw, i, "bh", base64.StdEncoding.EncodeToString(sum))
	m, _ = readSigned(context.Background(), raw, time.Now())
	_, digest, err := m.read(i)
	if err != nil {
		return nil
	}
	value, err := rsa.SignPKCS1v15(nil, testKey(), crypto.SHA256, digest)
	if err != nil {
		return nil
	}
	return replace(raw, i, "b", base64.StdEncoding.EncodeToString(value))
}

// FuzzOracle checks that a message verifies if and only if the library verifies it: with any
// header, body and forms, signed by the library and by this package, and changed.
func FuzzOracle(f *testing.F) {
	s := signer{"shop.example", "s1", testKey()}
	record := s.record(f, "")
	f.Add("From: ann@shop.example\r\nSubject:  a\r\n b \r\nsubject: c\r\n", " a  b\r\n\r\nc \t\r\n\r\n", byte(0), 3)
	f.Add("From:ann@shop.example\r\n", "a\rb \rc\n\nd\r", byte(1), 0)
	f.Add("From : ann@shop.example\n To: x\n", "", byte(2), 30)
	f.Add("X\r\n y\r\nFrom: <ann@shop.example>\r\n", " \r\n\t\r\n", byte(3), 9)
	f.Fuzz(func(t *testing.T, header, body string, form byte, change int) {
		for i := range header {
			if header[i] >= 0x80 { // folding of case, which the library leaves to Unicode
				t.Skip()
			}
		}
		if strings.Contains(strings.ToLower(header), signatureName) || len(header) > 1<<15 {
			t.Skip()
		}
		message := header + "\r\n" + body
		forms := []dkim.Canonicalization{dkim.CanonicalizationSimple, dkim.CanonicalizationRelaxed}
		var out bytes.Buffer
		if dkim.Sign(&out, strings.NewReader(message), &dkim.SignOptions{
			Domain: s.domain, Selector: s.selector, Signer: s.key, HeaderKeys: []string{"From", "Subject", "Subject", "X", ""},
			HeaderCanonicalization: forms[form&1], BodyCanonicalization: forms[form>>1&1],
		}) != nil {
			t.Skip()
		}
		signed := out.Bytes()
		if want := oracle(signed, record); ours(signed, record) != want {
			t.Fatalf("the library verifies %v:\n%q", want, signed)
		}
		if again := resign(signed); again != nil && !oracle(again, record) {
			t.Fatalf("not verified by the library:\n%q", again)
		}
		if change >= 0 && change < len(signed) {
			signed[change] ^= 1 << (form >> 2 & 7)
			if signed[change] < 0x80 {
				if want := oracle(signed, record); want && !ours(signed, record) {
					t.Fatalf("changed, the library verifies it:\n%q", signed)
				}
			}
		}
	})
}

// TestCorpus checks that the library verifies signatures of real mail whose values are replaced by
// ones of a known key: their forms, header fields and folds are hashed as it hashes them.
func TestCorpus(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(sharedtest.Unpack(t, "phishing-pot-2023-2024"), "*.eml"))
	if err != nil {
		t.Fatal(err)
	}
	record := signer{"shop.example", "s1", testKey()}.record(t, "")
	signed := 0
	for _, name := range names {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		raw := bytes.ReplaceAll(bytes.ReplaceAll(file, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
		again := resign(raw)
		if again == nil {
			continue
		}
		signed++
		if !oracle(again, record) || !ours(again, record) {
			t.Errorf("the library verifies %v, this package %v: %.2000q", oracle(again, record), ours(again, record), again)
		}
	}
	if signed < 100 {
		t.Errorf("%d mails with signatures", signed)
	}
	t.Logf("%d mails with signatures", signed)
}
