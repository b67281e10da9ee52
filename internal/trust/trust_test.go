package trust

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestWeight compares Of with the formula of the package comment, computed by hand.
func TestWeight(t *testing.T) {
	p := DefaultPolicy()
	// proven returns an account with confirmations on the given number of days, by a full weight
	// and from all networks that count.
	proven := func(days uint32, a Account) Account {
		a.Role, a.Weight, a.Days, a.Networks, a.RaisedBy = Member, 0.05, days, []uint32{1, 2, 3}, 1
		return a
	}
	from := func(networks int, by float64) Account {
		a := proven(20, Account{})
		a.Networks, a.RaisedBy = a.Networks[:networks], by
		return a
	}
	for _, tt := range []struct {
		name string
		a    Account
		want float64
	}{
		{"fresh", Account{Role: Member, Weight: 0.05}, 0.05},
		{"half way", proven(20, Account{}), 0.425},
		{"three quarters", proven(60, Account{}), 0.6125},
		{"confirmed often, on one day", proven(1, Account{Confirmed: 1e6}), 0.05 + 0.75/21},
		{"of two networks", from(2, 1), 0.05 + 0.35/2},
		{"of one network", from(1, 1), 0.05 + 0.15/2},
		{"by somebody small", from(3, 0.2), 0.05 + 0.15/2},
		{"by nobody", from(0, 0), 0.05},
		{"one revoked", proven(20, Account{Reverted: 1}), 0.425 * math.Exp2(-1.0/3)},
		{"forgiven", proven(60, Account{Reverted: 2}), 0.6125},
		{"start above the ceiling", Account{Role: Member, Weight: 1, Days: 1000}, 1},
		{"given, and revoked", Account{Role: Member, Weight: 1, From: netip.MustParseAddr("127.0.0.1"), Reverted: 9}, 1},
		{"not given, and revoked", Account{Role: Member, Weight: 1, From: netip.MustParseAddr("192.0.2.1"), Reverted: 2},
			0.25},
		{"trusted", Account{Role: Trusted, Weight: 0.7, Reverted: 9}, 0.7},
		{"closed", Account{Role: Admin, Weight: 1, Closed: true}, 0},
	} {
		if got := p.Of(&tt.a); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: weight %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestWeightIsMonotone checks that confirmations never lower a weight, that reversals never raise
// it, and that it stays in 0..1 whatever the counts.
func TestWeightIsMonotone(t *testing.T) {
	p := DefaultPolicy()
	counts := []uint32{0, 1, 2, 10, 49, 50, 51, 1000, math.MaxUint32}
	for _, c := range counts {
		for _, r := range counts {
			a := Account{Role: Member, Weight: 0.05, Days: c, Reverted: r, Networks: []uint32{1, 2}, RaisedBy: 0.9}
			w := p.Of(&a)
			if !(w >= 0 && w <= 1) {
				t.Fatalf("confirmed %d, reverted %d: weight %v", c, r, w)
			}
			if c < math.MaxUint32 {
				up := a
				up.Days++
				if p.Of(&up) < w {
					t.Errorf("confirmed %d, reverted %d: one more confirmation lowers %v to %v", c, r, w, p.Of(&up))
				}
			}
			if r < math.MaxUint32 {
				down := a
				down.Reverted++
				if p.Of(&down) > w {
					t.Errorf("confirmed %d, reverted %d: one more reversal raises %v to %v", c, r, w, p.Of(&down))
				}
			}
		}
	}
}

func TestStanding(t *testing.T) {
	p := DefaultPolicy()
	p.Anonymous = 0.01
	b := NewBook(p)
	remote := netip.MustParseAddr("198.51.100.77")
	for _, a := range []Account{
		{Name: "self", Role: Member, Weight: 0.05, From: remote},
		{Name: "proven", Role: Member, Weight: 0.05, From: remote, Days: 30, Networks: []uint32{1, 2, 3}, RaisedBy: 1},
		{Name: "local", Role: Member, Weight: 1, From: netip.MustParseAddr("127.0.0.1")},
		{Name: "once", Role: Member, Weight: 0.05, From: remote, Confirmed: 9, Days: 2},
		{Name: "alice1", Role: Trusted, Weight: 1, Person: "alice"},
		{Name: "child", Role: Trusted, Weight: 1, Parent: "vouched"},
		{Name: "orphan", Role: Trusted, Weight: 1, Parent: "nobody"},
		{Name: "made", Role: Member, Weight: 0.8},
		{Name: "given", Role: Member, Weight: 0.81},
		{Name: "bought", Role: Member, Weight: 1, From: remote},
		{Name: "vouched", Role: Trusted, Weight: 0.9},
		{Name: "gone", Role: Trusted, Weight: 0.9, Closed: true},
		{Name: "reader", Role: Anonymous},
	} {
		if err := b.Put(a); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		r    bulkhead.Reporter
		want Standing
		err  error
	}{
		{bulkhead.Reporter{}, Standing{Weight: 1, Voice: "person:local", Root: true}, nil},
		{bulkhead.Reporter{Addr: netip.MustParseAddr("::1")}, Standing{Weight: 1, Voice: "person:local", Root: true}, nil},
		{bulkhead.Reporter{Addr: netip.MustParseAddr("::ffff:127.0.0.9")}, Standing{Weight: 1, Voice: "person:local",
			Root: true}, nil},
		{bulkhead.Reporter{Addr: remote}, Standing{Weight: 0.01, Voice: "address:198.51.100.77",
			Voucher: "198.51.100.0/24"}, nil},
		{bulkhead.Reporter{Addr: netip.MustParseAddr("2001:db8:1:2::3")},
			Standing{Weight: 0.01, Voice: "address:2001:db8:1:2::3", Voucher: "2001:db8::/32#1"}, nil},
		{bulkhead.Reporter{Account: "self"}, Standing{Weight: 0.05, Voice: "account:self", Voucher: "198.51.100.0/24",
			Known: true}, nil},
		{bulkhead.Reporter{Account: "proven"}, Standing{Weight: 0.5, Voice: "account:proven", Known: true}, nil},
		{bulkhead.Reporter{Account: "once"}, Standing{Weight: 0.05, Voice: "account:once", Voucher: "198.51.100.0/24",
			Known: true}, nil},
		{bulkhead.Reporter{Account: "made"}, Standing{Weight: 0.8, Voice: "account:made", Known: true}, nil},
		{bulkhead.Reporter{Account: "given"}, Standing{Weight: 0.81, Voice: "account:given", Known: true, Root: true}, nil},
		{bulkhead.Reporter{Account: "bought"}, Standing{Weight: 1, Voice: "account:bought", Voucher: "198.51.100.0/24",
			Known: true}, nil},
		{bulkhead.Reporter{Account: "local"}, Standing{Weight: 1, Voice: "person:local", Known: true, Root: true}, nil},
		{bulkhead.Reporter{Account: "vouched"}, Standing{Weight: 0.9, Voice: "account:vouched", Confirms: true,
			Known: true, Root: true}, nil},
		{bulkhead.Reporter{Account: "alice1"}, Standing{Weight: 1, Voice: "person:alice", Confirms: true, Known: true,
			Root: true}, nil},
		{bulkhead.Reporter{Account: "child"}, Standing{Weight: 0.9, Voice: "account:child", Confirms: true, Known: true,
			Root: true}, nil},
		{bulkhead.Reporter{Account: "orphan"}, Standing{Weight: 0, Voice: "account:orphan", Confirms: true, Known: true,
			Root: true}, nil},
		{bulkhead.Reporter{User: "alice"}, Standing{Weight: 1, Voice: "person:alice", Root: true}, nil},
		{bulkhead.Reporter{Account: "vouched", User: "alice"}, Standing{Weight: 0.9, Voice: "person:vouched=alice",
			Confirms: true, Known: true, Root: true}, nil},
		{bulkhead.Reporter{User: "Ann+Shops@Example.com"}, Standing{Weight: 1, Voice: "person:ann@example.com", Root: true},
			nil},
		{bulkhead.Reporter{Account: "vouched", User: "Ann+1@example.com"}, Standing{Weight: 0.9,
			Voice: "person:vouched=ann@example.com", Confirms: true, Known: true, Root: true}, nil},
		{bulkhead.Reporter{Account: "self", User: "alice"}, Standing{}, bulkhead.ErrForbidden},
		{bulkhead.Reporter{Account: "given", User: "alice"}, Standing{}, bulkhead.ErrForbidden},
		{bulkhead.Reporter{Addr: remote, User: "alice"}, Standing{}, bulkhead.ErrForbidden},
		{bulkhead.Reporter{User: "../alice"}, Standing{}, bulkhead.ErrMalformed},
		{bulkhead.Reporter{Account: "gone"}, Standing{}, bulkhead.ErrForbidden},
		{bulkhead.Reporter{Account: "reader"}, Standing{}, bulkhead.ErrForbidden},
		{bulkhead.Reporter{Account: "nobody"}, Standing{}, bulkhead.ErrUnauthorised},
	} {
		got, err := b.Standing(tt.r)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("standing of %+v = %+v, %v; want %+v, %v", tt.r, got, err, tt.want, tt.err)
		}
	}
}

func TestBookTokens(t *testing.T) {
	b := NewBook(DefaultPolicy())
	token, hash := NewToken()
	if err := b.Put(Account{Name: "alice", Role: Admin, Weight: 1, TokenHash: hash}); err != nil {
		t.Fatal(err)
	}
	if a, err := b.Authenticate(token); err != nil || a.Name != "alice" {
		t.Errorf("own token: %+v, %v", a, err)
	}
	if _, err := b.Authenticate(token + "x"); !errors.Is(err, bulkhead.ErrUnauthorised) {
		t.Errorf("wrong token: %v", err)
	}
	if err := b.Put(Account{Name: "eve", Role: Member, TokenHash: hash}); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("second account with the same token: %v", err)
	}
	_, fresh := NewToken()
	if err := b.Put(Account{Name: "alice", Role: Admin, Weight: 1, TokenHash: fresh}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Authenticate(token); err == nil {
		t.Error("the replaced token still works")
	}
	b.Remove("alice")
	if b.Len() != 0 {
		t.Errorf("%d accounts after the only one was removed", b.Len())
	}
}

func TestEncodeDecode(t *testing.T) {
	b := NewBook(DefaultPolicy())
	for i := range 20 {
		_, hash := NewToken()
		a := Account{Name: fmt.Sprintf("user%d", i), Role: Member, Weight: 0.05, Confirmed: uint32(i), TokenHash: hash,
			Sealed: map[string][]byte{"razor": {1, byte(i)}}}
		if i%2 == 0 {
			a.From = netip.MustParseAddr("2001:db8::1")
		}
		if err := b.Put(a); err != nil {
			t.Fatal(err)
		}
	}
	data, err := b.Snapshot().Encode()
	if err != nil {
		t.Fatal(err)
	}
	before := b.Snapshot()
	if err := b.Put(Account{Name: "child", Role: Member, Weight: 0.05, Parent: "user2"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"user1", "child"} {
		b.Credit(Credit{Account: name, Confirmed: 1, Reverted: 2, Day: 20_000, Network: 7, By: 50})
	}
	if a, _ := b.Get("user2"); a.Reverted != 2 {
		t.Errorf("the parent of an account with 2 reverted reports has %d", a.Reverted)
	}
	b.Remove("user3")
	if same, err := before.Encode(); err != nil || !bytes.Equal(same, data) {
		t.Errorf("a snapshot has changed: %s, %v; want %s", same, err, data)
	}
	if data, err = b.Snapshot().Encode(); err != nil {
		t.Fatal(err)
	}
	again := NewBook(DefaultPolicy())
	if err := again.Decode(data); err != nil || !reflect.DeepEqual(again.All(), b.All()) {
		t.Fatalf("decoded %+v, %v; want %+v", again.All(), err, b.All())
	}
	for name, bad := range map[string][]byte{
		"cut":     data[:len(data)-2],
		"more":    append(bytes.Clone(data), data...),
		"unknown": []byte(`[{"name":"a","role":"admin","colour":"red"}]`),
		"weight":  []byte(`[{"name":"a","role":"admin","weight":2}]`),
		"role":    []byte(`[{"name":"a","role":"king"}]`),
		"twice":   []byte(`[{"name":"a","role":"admin"},{"name":"a","role":"admin"}]`),
		"hash":    []byte(`[{"name":"a","role":"admin","token_hash":"AAAA"}]`),
	} {
		if err := again.Decode(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if again.Len() != 20 {
		t.Errorf("a refused decode left %d accounts, want 20", again.Len())
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"alice", "alice@example.com", "Łukasz", "9to5", "a.b_c+d=e-f", "नमस्ते",
		strings.Repeat("x", MaxName)} {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "..", "../../x", "a..b", "--data", ".x", "a/b", "a:b", "<b>", "a\u202eb",
		"\u0301a", "a b", "a\nb", "a\x00", "\xff", strings.Repeat("x", MaxName+1)} {
		if err := CheckName(bad); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%q: %v, want it refused", bad, err)
		}
	}
}

// TestCheckNewName checks that no new account is called as the machine itself. An account of an earlier version
// keeps that name, and stays a voter of its own.
func TestCheckNewName(t *testing.T) {
	for _, bad := range []string{LocalPerson, "", "a/b"} {
		if err := CheckNewName(bad); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%q: %v, want it refused", bad, err)
		}
	}
	if err := CheckNewName("locals"); err != nil {
		t.Error(err)
	}
	old := Account{Name: LocalPerson, Role: Trusted, Weight: 1}
	if err := old.Validate(); err != nil || old.Voice() == PersonVoice(LocalPerson) {
		t.Errorf("an account of an earlier version: %v, voice %q", err, old.Voice())
	}
}

func TestSealer(t *testing.T) {
	s := NewSealer([32]byte{1})
	box, err := s.Seal("alice", "razor", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Open("alice", "razor", box); err != nil || string(got) != "secret" {
		t.Errorf("opened %q, %v", got, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"other account":  func() ([]byte, error) { return s.Open("bob", "razor", box) },
		"other protocol": func() ([]byte, error) { return s.Open("alice", "dcc", box) },
		"other key":      func() ([]byte, error) { return NewSealer([32]byte{2}).Open("alice", "razor", box) },
		"cut":            func() ([]byte, error) { return s.Open("alice", "razor", box[:10]) },
		"flipped": func() ([]byte, error) {
			flipped := bytes.Clone(box)
			flipped[len(flipped)-1] ^= 1
			return s.Open("alice", "razor", flipped)
		},
	} {
		if got, err := open(); err == nil {
			t.Errorf("%s: opened as %q", name, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`[]`))
	f.Add([]byte(`[{"name":"a","role":"admin","weight":1,"created":"2026-01-01T00:00:00Z","from":"::1"}]`))
	for _, account := range []string{
		`{"name":"a","role":"owner"}`, `{"name":"a","role":"trusted","weight":-1}`,
		`{"name":"a","role":"reporter","weight":2}`,
		`{"name":"","role":"admin"}`, `{"name":"a\u200b","role":"admin"}`, `{"name":"a","role":"admin","parent":"a"}`,
		`{"name":"a","role":"admin","person":"x y"}`, `{"name":"a","role":"admin","person":".."}`,
		`{"name":"a","role":"reporter","parent":"b"}`, `{"name":"a","role":"admin","unknown":1}`,
		`{"name":"a","role":"anonymous"},{"name":"a","role":"admin"}`,
		`{"name":"a","role":"admin","token_hash":"` + strings.Repeat("A", 44) + `"}`,
		`{"name":"a","role":"admin","token_hash":"AAAA","sealed":{"razor2":"AA=="}}`,
		`{"name":"a","role":"reporter","networks":[` + strings.Repeat("0,", 200) + `1]}`,
	} {
		f.Add([]byte("[" + account + "]"))
	}
	f.Add([]byte(`[]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := NewBook(DefaultPolicy())
		if b.Decode(data) != nil {
			return
		}
		out, err := b.Snapshot().Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := NewBook(DefaultPolicy()).Decode(out); err != nil {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
	})
}

// TestWriteNothing checks the form of a book without accounts.
func TestWriteNothing(t *testing.T) {
	data, err := NewBook(DefaultPolicy()).Snapshot().Encode()
	if err != nil || string(data) != "[]" {
		t.Errorf("no accounts are %q, %v", data, err)
	}
	if err := NewBook(DefaultPolicy()).Decode(data); err != nil {
		t.Error(err)
	}
}
