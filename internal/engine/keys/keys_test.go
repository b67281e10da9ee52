package keys

import (
	"fmt"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// all makes keys of every kind, and within a kind from arguments that differ in one place.
func all(m Maker) map[string]filter.Key {
	one, other := bulkhead.MustSignature(bulkhead.Exact, []byte("text")), bulkhead.MustSignature(bulkhead.Attachment,
		[]byte("text"))
	a, b := m.Base(&one), m.Base(&other)
	return map[string]filter.Key{
		"base": a, "base of another scheme": b,
		"pair": m.Pair(a, b), "pair of the other order": m.Pair(b, a), "pair of a signature with itself": m.Pair(a, a),
		"together": m.Together(a, b), "together with itself": m.Together(a, a),
		"vote": m.Vote("account:ann", bulkhead.Spam, a), "ham vote": m.Vote("account:ann", bulkhead.Ham, a),
		"vote of another": m.Vote("account:bob", bulkhead.Spam, a),
		"vote on another": m.Vote("account:ann", bulkhead.Spam, b),
		"record":          m.Record("account:ann", a), "record of another": m.Record("account:bob", a),
		"record on another": m.Record("account:ann", b),
		"once":              m.Once("confirmed", "ann", a), "once of another kind": m.Once("reverted", "ann", a),
		"once of another": m.Once("confirmed", "bob", a),
		"bucket":          m.Bucket(7, a), "another bucket": m.Bucket(8, a), "bucket of another": m.Bucket(7, b),
		"back": m.Back(a), "back of another": m.Back(b),
		"second turn": m.Turn(a, 2), "third turn": m.Turn(a, 3), "second turn of another": m.Turn(b, 2),
		"claim": m.Claim("address:192.0.2.1", a), "claim of another": m.Claim("address:192.0.2.2", a),
		"claim on another":           m.Claim("address:192.0.2.1", b),
		"report":                     m.Report("account:ann", "1", []filter.Key{a, b}),
		"report of another":          m.Report("account:bob", "1", []filter.Key{a, b}),
		"another report":             m.Report("account:ann", "2", []filter.Key{a, b}),
		"report of other signatures": m.Report("account:ann", "1", []filter.Key{a}),
		"report in another order":    m.Report("account:ann", "1", []filter.Key{b, a}),
		"place of a sender":          m.SenderPlace(a, 3), "another place": m.SenderPlace(a, 4),
		"place of another":     m.SenderPlace(b, 3),
		"recipient":            m.Recipient("ann@example.com", a),
		"another recipient":    m.Recipient("bob@example.com", a),
		"recipient of another": m.Recipient("ann@example.com", b),
		"voice":                {Lo: m.Voice("account:ann")}, "another voice": {Lo: m.Voice("account:bob")},
	}
}

// TestDistinct checks that different arguments give different keys, and that another secret
// changes all of them.
func TestDistinct(t *testing.T) {
	had := make(map[filter.Key]string)
	for _, secret := range []filter.Secret{{1, 2, 3}, {1, 2, 4}} {
		for what, k := range all(Maker{Secret: secret}) {
			what = fmt.Sprintf("%s under %v", what, secret[:3])
			if was, twice := had[k]; twice {
				t.Errorf("%s has the key of %s", what, was)
			}
			had[k] = what
		}
	}
	m := Maker{Secret: filter.Secret{1, 2, 3}}
	if k := (filter.Key{Hi: 1, Lo: 2}); m.Turn(k, 1) != k {
		t.Error("the first turn is not the signature itself")
	}
	sample := bulkhead.Sample{}
	of := sample.Signature()
	if m.Sample(sample) != m.Base(&of) {
		t.Error("a sample has not the key of its signature")
	}
	few := []filter.Key{{Hi: 1, Lo: 2}, {Hi: 1, Lo: 3}, {Hi: 2, Lo: 1}, {Hi: 2, Lo: 2}}
	together := make(map[filter.Key]bool)
	for i, a := range few {
		for j, b := range few {
			k := m.Together(a, b)
			if i <= j && together[k] {
				t.Errorf("%v and %v have the key of others", a, b)
			}
			together[k] = true
			if k != m.Together(b, a) {
				t.Errorf("%v and %v have another key than in the other order", a, b)
			}
		}
	}
}

// TestOnDisk checks that keys have not changed: existing stores depend on them.
func TestOnDisk(t *testing.T) {
	got := all(Maker{Secret: filter.Secret{1, 2, 3}})
	for what, want := range map[string]filter.Key{
		"back":        {Hi: 0xffef2a045fe40137, Lo: 0x2b7d001f44fd137b},
		"base":        {Hi: 0x465c1e72c3e9ede9, Lo: 0x845b55b92f1135d0},
		"bucket":      {Hi: 0x794fd715eade169e, Lo: 0xbcc182fdf8b9da15},
		"claim":       {Hi: 0xfe19853357c70456, Lo: 0x98337c5669b2f617},
		"once":        {Hi: 0xe23e49bdb4638e33, Lo: 0xc104c6f6d8f8c224},
		"pair":        {Hi: 0x99524ea3a8bd65f2, Lo: 0xa9bc4a73ed35e474},
		"recipient":   {Hi: 0x752261cbe85f6165, Lo: 0x30d3eba607895ee8},
		"record":      {Hi: 0x2573ea7b0e7b6eab, Lo: 0xf8a3e191f3cfc91d},
		"report":      {Hi: 0x4b026338173b9fb9, Lo: 0xd31584f883d136d5},
		"second turn": {Hi: 0x7a2ed8fc602fff56, Lo: 0xf1b5f5d046bdc0a4},
		"voice":       {Hi: 0x0000000000000000, Lo: 0xf0d2208c24dba280},
		"together":    {Hi: 0xb6d43668605a8a2f, Lo: 0x5571a52c912d8dc1},
		"vote":        {Hi: 0x0fb80453375ea880, Lo: 0xda689234c193c38b},
	} {
		if got[what] != want {
			t.Errorf("%s: %#v, want %#v", what, got[what], want)
		}
	}
}
