package trust

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// put returns a book of the given accounts, under the policy p.
func put(t *testing.T, p Policy, accounts ...Account) *Book {
	t.Helper()
	b := NewBook(p)
	for _, a := range accounts {
		if err := b.Put(a); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestAccountRanges checks that Put, Admits and Decode also refuse accounts that Validate refuses,
// and that none of these accounts is in the book afterwards.
func TestAccountRanges(t *testing.T) {
	hash := HashToken("x")
	for _, tt := range []struct {
		name string
		a    Account
		ok   bool
	}{
		{"least weight", Account{Name: "a", Role: Member}, true},
		{"most weight", Account{Name: "a", Role: Member, Weight: 1}, true},
		{"above", Account{Name: "a", Role: Member, Weight: math.Nextafter(1, 2)}, false},
		{"below", Account{Name: "a", Role: Member, Weight: -math.SmallestNonzeroFloat64}, false},
		{"no number", Account{Name: "a", Role: Member, Weight: math.NaN()}, false},
		{"no name", Account{Role: Member}, false},
		{"name with a space", Account{Name: "a b", Role: Member}, false},
		{"longest name", Account{Name: strings.Repeat("x", MaxName), Role: Member}, true},
		{"no role", Account{Name: "a"}, false},
		{"unknown role", Account{Name: "a", Role: "king"}, false},
		{"a token", Account{Name: "a", Role: Admin, TokenHash: hash}, true},
		{"short hash", Account{Name: "a", Role: Admin, TokenHash: hash[1:]}, false},
		{"long hash", Account{Name: "a", Role: Admin, TokenHash: append(bytes.Clone(hash), 0)}, false},
		{"hash of one byte", Account{Name: "a", Role: Admin, TokenHash: hash[:1]}, false},
		{"raised by all", Account{Name: "a", Role: Member, RaisedBy: 1, Networks: []uint32{1, 2, 3}}, true},
		{"raised by more", Account{Name: "a", Role: Member, RaisedBy: math.Nextafter(1, 2)}, false},
		{"raised by no number", Account{Name: "a", Role: Member, RaisedBy: math.NaN()}, false},
		{"a network too many", Account{Name: "a", Role: Member, Networks: []uint32{1, 2, 3, 4}}, false},
		{"a person and a parent", Account{Name: "a", Role: Member, Person: "alice", Parent: "b"}, true},
		{"no person's name", Account{Name: "a", Role: Member, Person: "al ice"}, false},
		{"no parent's name", Account{Name: "a", Role: Member, Parent: "../b"}, false},
		{"its own parent", Account{Name: "a", Role: Member, Parent: "a"}, false},
	} {
		b := NewBook(DefaultPolicy())
		errs := map[string]error{"validate": tt.a.Validate(), "admits": b.Admits(tt.a), "put": b.Put(tt.a)}
		for what, err := range errs {
			if tt.ok && err != nil || !tt.ok && !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("%s: %s: %v", tt.name, what, err)
			}
		}
		if got := b.Len(); (got == 1) != tt.ok {
			t.Errorf("%s: %d accounts", tt.name, got)
		}
	}
}

// TestPolicyRanges tries each field at the ends of its range and just beyond them.
func TestPolicyRanges(t *testing.T) {
	least := math.SmallestNonzeroFloat64
	share := func(set func(*Policy, float64)) (good, bad []float64, f func(*Policy, float64)) {
		return []float64{0, least, 0.5, 1}, []float64{-least, math.Nextafter(1, 2), math.NaN(), math.Inf(1)}, set
	}
	check := func(name string, good, bad []float64, set func(*Policy, float64)) {
		for _, v := range good {
			p := DefaultPolicy()
			if set(&p, v); p.Validate() != nil {
				t.Errorf("%s %v: %v", name, v, p.Validate())
			}
		}
		for _, v := range bad {
			p := DefaultPolicy()
			if set(&p, v); !errors.Is(p.Validate(), bulkhead.ErrMalformed) {
				t.Errorf("%s %v: %v, want it refused", name, v, p.Validate())
			}
		}
	}
	for name, set := range map[string]func(*Policy, float64){
		"loopback":        func(p *Policy, v float64) { p.Loopback = v },
		"anonymous":       func(p *Policy, v float64) { p.Anonymous = v },
		"self_registered": func(p *Policy, v float64) { p.SelfRegistered = v },
		"ceiling":         func(p *Policy, v float64) { p.Ceiling = v },
	} {
		good, bad, f := share(set)
		check(name, good, bad, f)
	}
	above := func(x float64) float64 { return math.Nextafter(x, math.Inf(1)) }
	check("promotion", []float64{least, 1, 1000}, []float64{0, -1, above(1000), math.NaN()},
		func(p *Policy, v float64) { p.Promotion = v })
	check("half", []float64{least, 20, 1e9}, []float64{0, -1, above(1e9), math.NaN()},
		func(p *Policy, v float64) { p.Half = v })
}

// TestPolicyNumbers is TestPolicyRanges for whole numbers.
func TestPolicyNumbers(t *testing.T) {
	for name, set := range map[string]func(*Policy, int){
		"accounts":  func(p *Policy, n int) { p.Accounts = n },
		"network":   func(p *Policy, n int) { p.PerNetwork = n },
		"idle days": func(p *Policy, n int) { p.IdleDays = n },
	} {
		for n, ok := range map[int]bool{-1: false, 0: false, 1: true, 1e6: true, 1e6 + 1: false} {
			p := DefaultPolicy()
			if set(&p, n); (p.Validate() == nil) != ok || !ok && !errors.Is(p.Validate(), bulkhead.ErrMalformed) {
				t.Errorf("%s %d: %v", name, n, p.Validate())
			}
		}
	}
}

func TestParseRole(t *testing.T) {
	for _, r := range []Role{Anonymous, Member, Trusted, Admin} {
		if got, err := ParseRole(string(r)); got != r || err != nil {
			t.Errorf("%s: %q, %v", r, got, err)
		}
	}
	for _, bad := range []string{"", "Admin", "admin ", "member"} {
		if got, err := ParseRole(bad); got != "" || !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
}

// TestNetworks checks which addresses are the node itself, the start weight of an account there and
// elsewhere, and which addresses share one voice.
func TestNetworks(t *testing.T) {
	p := DefaultPolicy()
	for _, tt := range []struct {
		addr    string
		local   bool
		network string
	}{
		{"127.0.0.1", true, "127.0.0.0/24"},
		{"127.255.0.1", true, "127.255.0.0/24"},
		{"::1", true, "::/48"},
		{"::ffff:127.0.0.1", true, "127.0.0.0/24"},
		{"192.0.2.255", false, "192.0.2.0/24"},
		{"192.0.3.0", false, "192.0.3.0/24"},
		{"::ffff:192.0.2.1", false, "192.0.2.0/24"},
		{"2001:db8:1:ffff::1", false, "2001:db8:1::/48"},
		{"2001:db8:2::1", false, "2001:db8:2::/48"},
		{"fe80::1%eth0", false, "fe80::/48"},
		{"0.0.0.0", false, "0.0.0.0/24"},
		{"10.0.0.1", false, "10.0.0.0/24"},
	} {
		addr := netip.MustParseAddr(tt.addr)
		if got := IsLocal(addr); got != tt.local {
			t.Errorf("%s: local %v", tt.addr, got)
		}
		if got := Network(addr).String(); got != tt.network {
			t.Errorf("%s: network %s, want %s", tt.addr, got, tt.network)
		}
		want := p.SelfRegistered
		if tt.local {
			want = p.Loopback
		}
		if got := p.StartWeight(addr); got != want {
			t.Errorf("%s: begins with %v, want %v", tt.addr, got, want)
		}
	}
	if !IsLocal(netip.Addr{}) || p.StartWeight(netip.Addr{}) != p.Loopback || Network(netip.Addr{}).IsValid() {
		t.Errorf("a caller inside: local %v, begins with %v, network %v", IsLocal(netip.Addr{}),
			p.StartWeight(netip.Addr{}), Network(netip.Addr{}))
	}
}

// TestWhoConfirms checks that only accounts that an administrator vouched for, with at least half
// the largest weight, confirm reports, and that no account can earn this.
func TestWhoConfirms(t *testing.T) {
	p := DefaultPolicy()
	for _, tt := range []struct {
		a    Account
		want bool
	}{
		{Account{Role: Admin, Weight: 1}, true},
		{Account{Role: Trusted, Weight: 0.5}, true},
		{Account{Role: Trusted, Weight: math.Nextafter(0.5, 0)}, false},
		{Account{Role: Trusted, Weight: 0.3, Confirmed: 1e6}, false},
		{Account{Role: Admin, Weight: 1, Closed: true}, false},
		{Account{Role: Member, Weight: 1}, false},
		{Account{Role: Member, Weight: 0.05, Confirmed: 1e6}, false},
		{Account{Role: Anonymous, Weight: 1}, false},
	} {
		if got := p.Confirms(&tt.a); got != tt.want {
			t.Errorf("%+v: confirms %v", tt.a, got)
		}
	}
	// A weight that an administrator gave stays unchanged, whatever others vote.
	for _, a := range []Account{{Role: Trusted, Weight: 0.3, Confirmed: 1e6}, {Role: Admin, Weight: 0.3, Reverted: 1e6}} {
		if got := p.Of(&a); got != 0.3 {
			t.Errorf("%+v: weight %v, want 0.3", a, got)
		}
	}
}

// TestStrangersAtTheDoor checks that anonymous votes are refused where they are disabled, while
// sightings are still counted, one for each network.
func TestStrangersAtTheDoor(t *testing.T) {
	b := put(t, DefaultPolicy(), Account{Name: "vouched", Role: Trusted, Weight: 0.9},
		Account{Name: "gone", Role: Trusted, Weight: 0.9, Closed: true})
	remote := bulkhead.Reporter{Addr: netip.MustParseAddr("198.51.100.77")}
	if got, err := b.Standing(remote); got != (Standing{}) || !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("an anonymous vote: %+v, %v", got, err)
	}
	for _, tt := range []struct {
		r    bulkhead.Reporter
		want Standing
		err  error
	}{
		{remote, Standing{Voice: "address:198.51.100.77", Voucher: "198.51.100.0/24"}, nil},
		{bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}, Standing{Voice: "person:local", Root: true}, nil},
		{bulkhead.Reporter{}, Standing{Voice: "person:local", Root: true}, nil},
		{bulkhead.Reporter{Account: "vouched", Addr: remote.Addr}, Standing{Weight: 0.9, Voice: "account:vouched",
			Confirms: true, Known: true, Root: true}, nil},
		{bulkhead.Reporter{Account: "gone"}, Standing{}, bulkhead.ErrForbidden},
		{bulkhead.Reporter{Account: "nobody"}, Standing{}, bulkhead.ErrUnauthorised},
	} {
		if got, err := b.Door(tt.r); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("door of %+v = %+v, %v; want %+v, %v", tt.r, got, err, tt.want, tt.err)
		}
	}
	// The policy may change while the node runs.
	p := b.Policy()
	p.Anonymous, p.Loopback = 0.25, 0.5
	b.SetPolicy(p)
	if got, err := b.Standing(remote); got.Weight != 0.25 || got.Voucher != "198.51.100.0/24" || err != nil {
		t.Errorf("an anonymous vote under another policy: %+v, %v", got, err)
	}
	if got, err := b.Standing(bulkhead.Reporter{}); got != (Standing{Weight: 0.5, Voice: "person:local",
		Root: true}) || err != nil {
		t.Errorf("a vote on the node under another policy: %+v, %v", got, err)
	}
}

// TestListing checks that every account is listed once, in the order of names, and that the members
// are the open accounts whose weight is earned.
func TestListing(t *testing.T) {
	b := put(t, DefaultPolicy(),
		Account{Name: "d", Role: Member}, Account{Name: "b", Role: Admin, Weight: 1}, Account{Name: "a", Role: Member,
			Closed: true},
		Account{Name: "e", Role: Trusted}, Account{Name: "c", Role: Member}, Account{Name: "f", Role: Anonymous},
		Account{Name: "c", Role: Member, Weight: 0.5}) // replaces the earlier account
	var names []string
	for _, a := range b.All() {
		names = append(names, a.Name)
	}
	if got := strings.Join(names, ""); got != "abcdef" || b.Len() != 6 {
		t.Errorf("%d accounts: %s", b.Len(), got)
	}
	members := b.Members()
	if slices.Sort(members); !slices.Equal(members, []string{"c", "d"}) {
		t.Errorf("members %q", members)
	}
	if a, ok := b.Get("c"); !ok || a.Weight != 0.5 {
		t.Errorf("the replaced account: %+v, %v", a, ok)
	}
	if a, ok := b.Get("g"); ok || !reflect.DeepEqual(a, Account{}) {
		t.Errorf("an account that is not there: %+v, %v", a, ok)
	}
}

// TestBookKeepsItsOwn checks that the book copies accounts that go in and out.
func TestBookKeepsItsOwn(t *testing.T) {
	token, hash := NewToken()
	in := Account{Name: "a", Role: Admin, Weight: 1, TokenHash: bytes.Clone(hash), Sealed: map[string][]byte{"razor": {1}}}
	b := put(t, DefaultPolicy(), in)
	spoil := func(a Account) {
		a.TokenHash[0]++
		a.Sealed["razor"][0]++
		a.Sealed["dcc"] = []byte{9}
	}
	spoil(in)
	got, _ := b.Get("a")
	spoil(got)
	spoil(b.All()[0])
	got, err := b.Authenticate(token)
	if err != nil {
		t.Fatal(err)
	}
	spoil(got)
	got, _ = b.Get("a")
	if !b.AnySealed("razor") || b.AnySealed("dcc") {
		t.Errorf("a secret of razor: %v, of dcc: %v", b.AnySealed("razor"), b.AnySealed("dcc"))
	}
	if !bytes.Equal(got.TokenHash, hash) || !reflect.DeepEqual(got.Sealed, map[string][]byte{"razor": {1}}) {
		t.Errorf("the book's own account changed: %+v", got)
	}
}

// TestWhoseToken checks that a token opens one account, as long as the account is open and holds
// the token.
func TestWhoseToken(t *testing.T) {
	token, hash := NewToken()
	alice := Account{Name: "alice", Role: Trusted, Weight: 1, TokenHash: hash}
	b := put(t, DefaultPolicy(), alice, Account{Name: "bob", Role: Member})
	who := func(want string) {
		t.Helper()
		a, err := b.Authenticate(token)
		if a.Name != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, bulkhead.ErrUnauthorised) {
			t.Errorf("the token opens %q, %v; want %q", a.Name, err, want)
		}
	}
	who("alice")
	eve := Account{Name: "eve", Role: Member, TokenHash: hash}
	if !errors.Is(b.Admits(eve), bulkhead.ErrMalformed) || b.Admits(alice) != nil || b.Len() != 2 {
		t.Errorf("another may take the token: %v; the owner may: %v; %d accounts", b.Admits(eve), b.Admits(alice), b.Len())
	}
	alice.Closed = true
	if err := b.Put(alice); err != nil {
		t.Fatal(err)
	}
	who("")
	alice.Closed = false
	if err := b.Put(alice); err != nil {
		t.Fatal(err)
	}
	who("alice")
	b.Remove("bob") // bob holds no token
	b.Remove("nobody")
	who("alice")
	b.Remove("alice")
	who("")
	if err := b.Put(eve); err != nil {
		t.Errorf("a token that nobody holds any more: %v", err)
	}
	who("eve")
	if _, err := b.Authenticate(""); !errors.Is(err, bulkhead.ErrUnauthorised) {
		t.Errorf("no token at all: %v", err)
	}
}

// TestCredit compares the counts with sums in 64 bits.
func TestCredit(t *testing.T) {
	b := put(t, DefaultPolicy(), Account{Name: "a", Role: Member}, Account{Name: "b", Role: Member})
	var confirmed, reverted uint64
	for _, c := range [][2]uint32{{0, 0}, {1, 0}, {0, 1}, {5, 7}, {math.MaxUint32 - 6, 0}, {0, math.MaxUint32 - 9},
		{1, 1}, {math.MaxUint32, math.MaxUint32}, {0, 0}} {
		b.Credit(Credit{Account: "a", Confirmed: c[0], Reverted: c[1]})
		b.Credit(Credit{Account: "nobody", Confirmed: c[0], Reverted: c[1]})
		confirmed = min(confirmed+uint64(c[0]), math.MaxUint32)
		reverted = min(reverted+uint64(c[1]), math.MaxUint32)
		if a, _ := b.Get("a"); uint64(a.Confirmed) != confirmed || uint64(a.Reverted) != reverted {
			t.Errorf("after %v: %d confirmed and %d reverted, want %d and %d", c, a.Confirmed, a.Reverted, confirmed, reverted)
		}
	}
	if a, _ := b.Get("b"); a.Confirmed != 0 || a.Reverted != 0 || b.Len() != 2 {
		t.Errorf("another account: %+v, of %d", a, b.Len())
	}
}

// TestCreditDays checks that confirmations on one day count as one day, and that networks and
// weights count as far as they are remembered. The parent that answers for an account shares its
// blame, but not its credit.
func TestCreditDays(t *testing.T) {
	b := put(t, DefaultPolicy(), Account{Name: "a", Role: Member, Parent: "p"}, Account{Name: "p", Role: Member})
	for _, c := range []Credit{
		{Confirmed: 1, Day: 0, Network: 7, By: 30},
		{Confirmed: 1, Day: 0, Network: 7, By: 20},
		{Confirmed: 4, Day: 5, Network: 8, By: 250},
		{Confirmed: 1, Day: 5, Network: 9},
		{Confirmed: 1, Day: 6, Network: 10},
		{Day: 9},
		{Day: 8},
		{Reverted: 2, Day: 12, Network: 11, By: 50},
	} {
		c.Account = "a"
		b.Credit(c)
	}
	a, _ := b.Get("a")
	if a.Days != 3 || a.LastDay != 6 || a.Active != 9 || a.Confirmed != 8 || a.Reverted != 2 ||
		!slices.Equal(a.Networks, []uint32{7, 8, 9}) || a.RaisedBy != 1 {
		t.Errorf("account %+v", a)
	}
	if p, _ := b.Get("p"); p.Confirmed != 0 || p.Days != 0 || p.Reverted != 2 {
		t.Errorf("parent %+v", p)
	}
}

// TestRaisedBy checks that a confirming account raises others only up to its own weight.
func TestRaisedBy(t *testing.T) {
	b := put(t, DefaultPolicy(), Account{Name: "a", Role: Member})
	for i, tt := range []struct {
		by   uint32
		want float64
	}{{0, 0}, {1, 0.01}, {30, 0.3}, {20, 0.3}, {99, 0.99}, {100, 1}, {250, 1}} {
		b.Credit(Credit{Account: "a", Confirmed: 1, Day: uint32(i), By: tt.by})
		if a, _ := b.Get("a"); a.RaisedBy != tt.want {
			t.Errorf("after a weight of %d hundredths: raised by %v, want %v", tt.by, a.RaisedBy, tt.want)
		}
	}
}

// TestWorth checks the weight of a vote of each account.
func TestWorth(t *testing.T) {
	b := put(t, DefaultPolicy(),
		Account{Name: "vouched", Role: Trusted, Weight: 0.9}, Account{Name: "child", Role: Trusted, Weight: 1,
			Parent: "vouched"},
		Account{Name: "small", Role: Trusted, Weight: 0.2, Parent: "vouched"}, Account{Name: "orphan", Role: Trusted,
			Weight: 1, Parent: "nobody"},
		Account{Name: "gone", Role: Trusted, Weight: 1, Closed: true}, Account{Name: "heir", Role: Trusted, Weight: 1,
			Parent: "gone"})
	for name, want := range map[string]float64{"vouched": 0.9, "child": 0.9, "small": 0.2, "orphan": 0, "gone": 0,
		"heir": 0, "nobody": 0} {
		if got := b.Worth(name); got != want {
			t.Errorf("%s is worth %v, want %v", name, got, want)
		}
		if s, err := b.Standing(bulkhead.Reporter{Account: name}); err == nil && s.Weight != want {
			t.Errorf("%s votes with %v, want %v", name, s.Weight, want)
		}
	}
}

// TestMark checks that networks have different marks, and that the node itself has a single mark,
// whatever its address.
func TestMark(t *testing.T) {
	mark := func(addr string) uint32 { return Mark(bulkhead.Reporter{Addr: netip.MustParseAddr(addr)}) }
	if mark("192.0.2.1") != mark("::ffff:192.0.2.200") || mark("2001:db8:1::1") != mark("2001:db8:1:ffff::2") {
		t.Error("one network has two marks")
	}
	if mark("127.0.0.1") != mark("::1") || mark("127.0.0.1") != Mark(bulkhead.Reporter{}) ||
		mark("127.0.0.1") != mark("127.3.0.1") {
		t.Error("the node itself has two marks")
	}
	seen := make(map[uint32]string)
	for _, addr := range []string{"127.0.0.1", "192.0.2.1", "192.0.3.1", "2001:db8:1::1", "2001:db8:2::1"} {
		if other, ok := seen[mark(addr)]; ok {
			t.Errorf("%s and %s have one mark", addr, other)
		}
		seen[mark(addr)] = addr
	}
}

// TestCrowd checks that accounts that registered themselves are limited, per network and in total,
// and are removed if they never helped. No other accounts are removed.
func TestCrowd(t *testing.T) {
	p := DefaultPolicy()
	p.Accounts, p.PerNetwork, p.IdleDays = 4, 2, 30
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ago := func(days int) time.Time { return now.AddDate(0, 0, -days) }
	at := netip.MustParseAddr
	b := put(t, p,
		Account{Name: "admin", Role: Admin, Weight: 1, Created: ago(900)},
		Account{Name: "made", Role: Member, Created: ago(900)},
		Account{Name: "here", Role: Member, Created: ago(900), From: at("127.0.0.1")},
		Account{Name: "raised", Role: Trusted, Weight: 1, Created: ago(900), From: at("198.51.100.1")},
		Account{Name: "helped", Role: Member, Created: ago(900), From: at("198.51.100.1"), Days: 1},
		Account{Name: "active", Role: Member, Created: ago(900), From: at("198.51.100.2"), Active: Day(ago(29))},
		Account{Name: "old", Role: Member, Created: ago(30), From: at("203.0.113.1")},
	)
	for _, a := range b.All() {
		if got := b.IsStale(a.Name, now); got != (a.Name == "old") {
			t.Errorf("%s is stale: %v", a.Name, got)
		}
	}
	room := func(from, evict string, want error) {
		t.Helper()
		if got, err := b.Room(at(from), now); got != evict || !errors.Is(err, want) {
			t.Errorf("an account from %s: evict %q, %v; want %q, %v", from, got, err, evict, want)
		}
	}
	room("192.0.2.1", "", nil)
	room("198.51.100.3", "", bulkhead.ErrOverLimit) // its network has two already
	room("127.0.0.1", "", nil)
	if err := b.Put(Account{Name: "new", Role: Member, Created: now, From: at("192.0.2.1")}); err != nil {
		t.Fatal(err)
	}
	room("192.0.2.2", "old", nil) // full: the account that was idle longest is removed
	b.Remove("old")
	b.Remove("active")
	for _, name := range []string{"a", "b"} {
		if err := b.Put(Account{Name: name, Role: Member, Created: now, From: at("233.252.0.1")}); err != nil {
			t.Fatal(err)
		}
	}
	room("192.0.2.2", "", bulkhead.ErrOverLimit) // full, and all are in use
}

// TestVoucher checks that the networks of one /32 of IPv6 have four voices in total.
func TestVoucher(t *testing.T) {
	voices := make(map[string]bool)
	for i := range 65536 {
		voices[Voucher(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(i >> 8), byte(i)}))] = true
	}
	if len(voices) != 4 {
		t.Errorf("a /32 has %d voices, want 4", len(voices))
	}
	if a, b := Voucher(netip.MustParseAddr("2001:db8::1")), Voucher(netip.MustParseAddr("2001:db9::1")); a == b {
		t.Errorf("two /32 share the voice %s", a)
	}
}

// TestDecodeReplaces checks that the previous accounts and tokens are gone, that the policy stays,
// and that a refused decode changes nothing.
func TestDecodeReplaces(t *testing.T) {
	p := DefaultPolicy()
	p.Loopback = 0.5
	oldToken, oldHash := NewToken()
	newToken, newHash := NewToken()
	other := put(t, DefaultPolicy(), Account{Name: "new", Role: Admin, Weight: 1, TokenHash: newHash})
	data, err := other.Snapshot().Encode()
	if err != nil {
		t.Fatal(err)
	}
	b := put(t, p, Account{Name: "old", Role: Admin, Weight: 1, TokenHash: oldHash})
	same := fmt.Sprintf(
		`[{"name":"a","role":"admin","token_hash":%[1]q},{"name":"b","role":"admin","token_hash":%[1]q}]`,
		strings.Repeat("A", 43)+"=")
	for _, bad := range []string{same, string(data) + "1", string(data) + "]", "", "{}", "null null"} {
		if err := b.Decode([]byte(bad)); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
	if _, err := b.Authenticate(oldToken); err != nil {
		t.Errorf("after decodes that were refused: %v", err)
	}
	if err := b.Decode(append(data, " \n"...)); err != nil {
		t.Fatal(err)
	}
	if a, err := b.Authenticate(newToken); a.Name != "new" || err != nil {
		t.Errorf("the new token: %q, %v", a.Name, err)
	}
	if a, err := b.Authenticate(oldToken); err == nil {
		t.Errorf("the token of before opens %q", a.Name)
	}
	if b.Policy() != p || b.Len() != 1 {
		t.Errorf("policy %+v, %d accounts", b.Policy(), b.Len())
	}
}
