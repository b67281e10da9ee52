package codec

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// encoded returns the journal entry.
func encoded(e Entry) []byte {
	b, err := e.Append(nil)
	if err != nil {
		panic(err)
	}
	return b
}

func sampleVotes() *Votes {
	return &Votes{
		TallyGen: 1772409600, BlockGen: 1771977600,
		Counts:  resolve.Adds{Keys: []filter.Key{{Hi: 1, Lo: 2}, {Hi: ^uint64(0), Lo: 3}}, N: []uint32{1, filter.Many}},
		Names:   resolve.Adds{Keys: []filter.Key{{Hi: 2, Lo: 4}}, N: []uint32{7}},
		Weights: resolve.Adds{Keys: []filter.Key{{Hi: 8, Lo: 9}}, N: []uint32{100}},
		Unique:  []filter.Key{{Hi: 4, Lo: 5}}, Voted: []filter.Key{{Hi: 16, Lo: 17}, {Hi: 18, Lo: 19}},
		Spam: []filter.Key{{Hi: 6, Lo: 7}}, Revoked: []filter.Key{},
		Ballots: []ballots.Ballot{
			{Voice: 1 << 63, Time: 1772409601, Items: []ballots.Item{{Key: filter.Key{Hi: 1, Lo: 2},
				Facet: bulkhead.TextFacet}, {Key: filter.Key{Hi: 3}, Facet: bulkhead.LinkFacet, Pair: true}}},
			{Voice: 5, Items: []ballots.Item{}},
		},
		Credits: []trust.Credit{
			{Account: "alice", Confirmed: 1, Day: 20000, Network: 1 << 31, By: 100}, {Account: "bob", Reverted: 1<<32 - 1},
		},
	}
}

func TestVotesRoundTrip(t *testing.T) {
	late := sampleVotes()
	(*resolve.Decisions)(late).Weigh(1772323200, filter.Key{Hi: 10, Lo: 11}, 5)
	(*resolve.Decisions)(late).Weigh(1772236800, filter.Key{Hi: 12, Lo: 13}, 7)
	(*resolve.Decisions)(late).Weigh(1772323200, filter.Key{Hi: 14, Lo: 15}, 9)
	shown, taken := sampleVotes(), sampleVotes()
	shown.PublishedSpam = []filter.Key{{Hi: 20, Lo: 21}}
	shown.PublishedRevoked = []filter.Key{{Hi: 22, Lo: 23}, {Hi: 24, Lo: 25}}
	taken.PublishedSpam, taken.PublishedRevoked = []filter.Key{}, []filter.Key{{Hi: 22, Lo: 23}}
	learnt, all := sampleVotes(), sampleVotes()
	learnt.PublishedSpam, learnt.PublishedRevoked = []filter.Key{}, []filter.Key{}
	learnt.Learned.Of = []learned.Change{{What: learned.Reported, Gen: 5, Text: 6, Tokens: []learn.Token{7, 8}, Share: 9}}
	*all = *shown
	all.Learned = learned.Changes{Of: learnt.Learned.Of,
		Open: &learned.Spec{Start: 5, Geometry: filter.Geometry{Kind: filter.Cells, Lines: 1024, K: 6, KeyID: 7}}}
	for _, want := range []*Votes{sampleVotes(), late, shown, taken, learnt, all} {
		got, err := Decode(encoded(want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decoded %+v, %v; want %+v", got, err, want)
		}
	}
}

func sampleRemote() *Remote {
	cells := filter.Geometry{Kind: filter.Cells, Lines: 1024, K: 6, KeyID: 7}
	bits := filter.Geometry{Kind: filter.Bitmap, Lines: 2048, K: 8, KeyID: 7}
	return &Remote{"peer", []replica.Part{
		{Array: replica.ArrayCounts, Start: 1772409600, Geometry: cells, Round: []byte("\x00round\xff"), From: 1 << 40,
			To: 1<<40 + 3, Boot: 1772400000000},
		{Array: replica.ArrayRevoked, Start: 1771977600, Geometry: bits, Round: []byte("r"), To: 1},
		{Array: replica.ArraySpam, Start: 1771977600, Geometry: bits, Image: []byte("an image"), At: 12, Boot: 1},
	}}
}

func TestRemoteRoundTrip(t *testing.T) {
	many := &Remote{Origin: "m"}
	for range 1024 {
		many.Parts = append(many.Parts, sampleRemote().Parts...)
	}
	for _, want := range []*Remote{sampleRemote(), many, {"x", []replica.Part{}}} {
		got, err := Decode(encoded(want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decoded %+v, %v; want %+v", got, err, want)
		}
		bytes := 0
		for _, p := range want.Parts {
			bytes += len(p.Round) + len(p.Image)
		}
		if n := len(encoded(want)); n > bytes+partHead*(1+len(want.Parts)) {
			t.Errorf("%d bytes in %d parts are an entry of %d", bytes, len(want.Parts), n)
		}
	}
}

func TestEntryRefusals(t *testing.T) {
	whole, remote := encoded(sampleVotes()), encoded(sampleRemote())
	for _, whole := range [][]byte{whole, remote} {
		for n := range whole {
			if _, err := Decode(whole[:n]); err == nil {
				t.Errorf("entry %q cut to %d of %d bytes accepted", whole[0], n, len(whole))
			}
		}
	}
	for _, old := range []string{"M\x01{}", "M\x03{}", "A\x01{}", "V\x02", "V\x04", "R\x03{}"} {
		if _, err := Decode([]byte(old)); !errors.Is(err, ErrOldEntry) {
			t.Errorf("%q: %v", old, err)
		}
	}
	for name, entry := range map[string][]byte{
		"longer":       append(bytes.Clone(whole), 0),
		"told nothing": append(bytes.Clone(whole), 0, 0),
		"longer parts": append(bytes.Clone(remote), 0),
		"new parts":    {kindRemote, entryVersion + 1, 0},
		"no array": append(append([]byte{kindRemote, entryVersion, 0}, make([]byte, 8)...), 1, 3, 6, 1, 1, 1, 0, 1, 1,
			'x'),
		"no image": append(append([]byte{kindRemote, entryVersion, 0}, make([]byte, 8)...), 1, flagImage, 6, 1, 1, 1,
			0, 0, 0),
		"many parts": append(append([]byte{kindRemote, entryVersion, 0}, make([]byte, 8)...), 0xff, 0xff, 0xff, 0xff,
			0x7f),
		"unknown kind": {'X', entryVersion},
		"new version":  append([]byte{kindVotes, entryVersion + 1}, whole[2:]...),
		"old version":  append([]byte{kindVotes, entryVersion - 1}, whole[2:]...),
		"old account":  {kindAccount, entryVersion - 1, '{', '}'},
		"huge count":   {kindVotes, entryVersion, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"bad rotation": {kindRotation, entryVersion, '{'},
	} {
		if got, err := Decode(entry); err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		}
	}
}

// TestLeastEntries: entries of the smallest items that can be are read, and what claims
// to hold more items than it has bytes for takes no memory.
func TestLeastEntries(t *testing.T) {
	v := &Votes{Counts: resolve.Adds{Keys: []filter.Key{}, N: []uint32{}}, Unique: []filter.Key{}, Voted: []filter.Key{},
		Spam: []filter.Key{}, Revoked: []filter.Key{}}
	v.Names, v.Weights = v.Counts, v.Counts
	for range 30 {
		v.Counts.Keys, v.Counts.N = append(v.Counts.Keys, filter.Key{}), append(v.Counts.N, 0)
		v.Late = append(v.Late, resolve.Late{Adds: v.Names})
		v.Credits = append(v.Credits, trust.Credit{})
		v.Ballots = append(v.Ballots, ballots.Ballot{Items: []ballots.Item{}})
	}
	got, err := Decode(encoded(v))
	if err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("decoded %+v, %v; want %+v", got, err, v)
	}
	for size := 1; size < 20; size++ {
		for n := range 4 {
			for left := range 60 {
				d := Decoder{Left: append([]byte{byte(n)}, make([]byte, left)...)}
				want, ok := n, n*size <= left
				if !ok {
					want = 0
				}
				if got := d.Count(size); got != want || d.Bad == ok || len(d.Left) != left*btoi(ok) {
					t.Fatalf("%d items of %d bytes in %d: %d, bad %v", n, size, left, got, d.Bad)
				}
			}
		}
	}
	d := Decoder{Left: append([]byte{1}, make([]byte, keyBytes)...)}
	if a := d.Adds(); len(a.Keys) != 0 || len(a.N) != 0 || !d.Bad {
		t.Errorf("adds without their numbers: %+v", a)
	}
	for limit, ok := range map[uint64]bool{6: false, 7: true} {
		d := Decoder{Left: []byte{7}}
		if got := d.Small(limit); d.Bad == ok || ok && got != 7 {
			t.Errorf("7 of at most %d: %d, bad %v", limit, got, d.Bad)
		}
	}
	one := Remote{"x", sampleRemote().Parts[:1]}
	if got, err := Decode(encoded(&one)); err != nil || !reflect.DeepEqual(got, &one) {
		t.Errorf("one part: %+v, %v", got, err)
	}
	// The race detector adds an allocation to each.
	few := testing.AllocsPerRun(10, func() { encoded(&one) })
	for range 99 {
		one.Parts = append(one.Parts, sampleRemote().Parts...)
	}
	if n := testing.AllocsPerRun(10, func() { encoded(&one) }); n > few {
		t.Errorf("%v allocations for an entry whose size is known, and %v for a small one", n, few)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(encoded(sampleVotes()))
	late := sampleVotes()
	(*resolve.Decisions)(late).Weigh(1, filter.Key{Hi: 10, Lo: 11}, 5)
	f.Add(encoded(late))
	late.PublishedSpam, late.PublishedRevoked = []filter.Key{{Hi: 20, Lo: 21}}, []filter.Key{{Hi: 22, Lo: 23}}
	f.Add(encoded(late))
	f.Add(encoded(sampleRemote()))
	f.Add([]byte("R\x05{\"drop_tally\":[1]}"))
	f.Add([]byte("A\x05{\"remove\":\"eve\"}"))
	f.Fuzz(func(t *testing.T, entry []byte) {
		body, err := Decode(entry)
		if err != nil {
			return
		}
		if r, ok := body.(*Remote); ok {
			again, err := Decode(encoded(r))
			if err != nil || !reflect.DeepEqual(again, body) {
				t.Fatalf("%+v encodes to %+v, %v", r, again, err)
			}
		}
		if v, ok := body.(*Votes); ok {
			again, err := Decode(encoded(v))
			if err != nil || !reflect.DeepEqual(again, body) {
				t.Fatalf("%+v encodes to %+v, %v", v, again, err)
			}
		}
	})
}
