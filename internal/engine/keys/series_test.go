package keys

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// TestSeries checks that a series makes the same keys as single calls, for names of every length
// that matters, and records their forms under former secrets.
func TestSeries(t *testing.T) {
	for _, secret := range []filter.Secret{{}, {1, 2, 3}, {15: 255}} {
		m := Maker{Secret: secret}
		for length := range 300 {
			who := strings.Repeat("x", length)
			for vote := range bulkhead.NumVotes {
				votes := m.Votes(who, vote)
				records := m.Records(who)
				for i := range uint64(4) {
					base := filter.Key{Hi: i * 0xfedcba9876543211, Lo: ^i * 0x123456789abcdef1}
					if got, want := votes.Of(base), m.Vote(who, vote, base); got != want {
						t.Fatalf("a vote %d of a name of %d bytes: %#v, want %#v", vote, length, got, want)
					}
					if got, want := records.Of(base), m.Record(who, base); got != want {
						t.Fatalf("a record of a name of %d bytes: %#v, want %#v", length, got, want)
					}
				}
			}
		}
		for i := range uint64(4) {
			text, context := filter.Key{Hi: i * 0xfedcba9876543211, Lo: ^i * 0x123456789abcdef1}, filter.Key{Hi: ^i, Lo: i << 56}
			backs := m.Backs()
			if got, want := backs.Of(context), m.Back(context); got != want {
				t.Fatalf("retracted weights: %#v, want %#v", got, want)
			}
			pairs := m.Pairs(text)
			if got, want := pairs.Of(context), m.Pair(text, context); got != want {
				t.Fatalf("a pair: %#v, want %#v", got, want)
			}
		}
	}
}

// TestSeriesOfPast checks that keys of a series, like keys from single calls, are found in counts
// made with former secrets.
func TestSeriesOfPast(t *testing.T) {
	secrets := NewSecrets(filter.Secret{1}, filter.Secret{2}, filter.Secret{3})
	base := filter.Key{Hi: 1, Lo: 2}
	one, many := secrets.Maker(), secrets.Maker()
	votes, records := many.Votes("account:ann", bulkhead.Ham), many.Records("account:ann")
	text := filter.Key{Hi: 3, Lo: 4}
	pairs, backs := many.Pairs(text), many.Backs()
	for epoch := range 3 {
		for what, k := range map[string][2]filter.Key{
			"vote":   {one.Vote("account:ann", bulkhead.Ham, base), votes.Of(base)},
			"record": {one.Record("account:ann", base), records.Of(base)},
			"pair":   {one.Pair(text, base), pairs.Of(base)},
			"back":   {one.Back(base), backs.Of(base)},
		} {
			if want, got := one.At(epoch, k[0]), many.At(epoch, k[1]); got != want {
				t.Errorf("%s in epoch %d: %#v, want %#v", what, epoch, got, want)
			}
		}
	}
}

// FuzzSeries compares both for any name and base.
func FuzzSeries(f *testing.F) {
	f.Add("account:ann", []byte("0123456789abcdef0123456789abcdef"), byte(1))
	f.Fuzz(func(t *testing.T, who string, b []byte, vote byte) {
		if len(b) < 32 {
			return
		}
		m := Maker{Secret: filter.Secret(b[:16])}
		base := filter.Key{Hi: binary.LittleEndian.Uint64(b[16:]), Lo: binary.LittleEndian.Uint64(b[24:])}
		votes, records := m.Votes(who, bulkhead.Vote(vote)), m.Records(who)
		if got, want := votes.Of(base), m.Vote(who, bulkhead.Vote(vote), base); got != want {
			t.Errorf("a vote: %#v, want %#v", got, want)
		}
		if got, want := records.Of(base), m.Record(who, base); got != want {
			t.Errorf("a record: %#v, want %#v", got, want)
		}
		text := filter.Key{Hi: base.Lo, Lo: ^base.Hi}
		pairs := m.Pairs(text)
		if got, want := pairs.Of(base), m.Pair(text, base); got != want {
			t.Errorf("a pair: %#v, want %#v", got, want)
		}
	})
}
