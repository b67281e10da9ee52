package engine

import (
	"bytes"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

func sampleVotes() *votes {
	return &votes{
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
	told, taken := sampleVotes(), sampleVotes()
	told.ToldSpam, told.ToldRevoked = []filter.Key{{Hi: 20, Lo: 21}}, []filter.Key{{Hi: 22, Lo: 23}, {Hi: 24, Lo: 25}}
	taken.ToldSpam, taken.ToldRevoked = []filter.Key{}, []filter.Key{{Hi: 22, Lo: 23}}
	for _, want := range []*votes{sampleVotes(), late, told, taken} {
		got, err := decodeEntry(want.appendEntry(nil))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decoded %+v, %v; want %+v", got, err, want)
		}
	}
}

func sampleRemote() *remoteBody {
	cells := filter.Geometry{Kind: filter.Cells, Lines: 1024, K: 6, KeyID: 7}
	bits := filter.Geometry{Kind: filter.Bitmap, Lines: 2048, K: 8, KeyID: 7}
	return &remoteBody{"peer", []Part{
		{Array: ArrayCounts, Start: 1772409600, Geometry: cells, Round: []byte("\x00round\xff"), From: 1 << 40,
			To: 1<<40 + 3, Boot: 1772400000000},
		{Array: ArrayRevoked, Start: 1771977600, Geometry: bits, Round: []byte("r"), To: 1},
		{Array: ArraySpam, Start: 1771977600, Geometry: bits, Image: []byte("an image"), At: 12, Boot: 1},
	}}
}

func TestRemoteRoundTrip(t *testing.T) {
	many := &remoteBody{origin: "m"}
	for range 1024 {
		many.parts = append(many.parts, sampleRemote().parts...)
	}
	for _, want := range []*remoteBody{sampleRemote(), many, {"x", []Part{}}} {
		got, err := decodeEntry(want.entry())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decoded %+v, %v; want %+v", got, err, want)
		}
		bytes := 0
		for _, p := range want.parts {
			bytes += len(p.Round) + len(p.Image)
		}
		if n := len(want.entry()); n > bytes+partHead*(1+len(want.parts)) {
			t.Errorf("%d bytes in %d parts are an entry of %d", bytes, len(want.parts), n)
		}
	}
}

func TestEntryRefusals(t *testing.T) {
	whole, remote := sampleVotes().appendEntry(nil), sampleRemote().entry()
	for _, whole := range [][]byte{whole, remote} {
		for n := range whole {
			if _, err := decodeEntry(whole[:n]); err == nil {
				t.Errorf("entry %q cut to %d of %d bytes accepted", whole[0], n, len(whole))
			}
		}
	}
	for _, old := range []string{"M\x01{}", "M\x03{}", "A\x01{}", "V\x02", "V\x04", "R\x03{}"} {
		if _, err := decodeEntry([]byte(old)); !errors.Is(err, errOldEntry) {
			t.Errorf("%q: %v", old, err)
		}
	}
	for name, entry := range map[string][]byte{
		"longer":       append(bytes.Clone(whole), 0),
		"told nothing": append(bytes.Clone(whole), 0, 0),
		"longer parts": append(bytes.Clone(remote), 0),
		"new parts":    {entryRemote, entryVersion + 1, 0},
		"no array": append(append([]byte{entryRemote, entryVersion, 0}, make([]byte, 8)...), 1, 3, 6, 1, 1, 1, 0, 1, 1,
			'x'),
		"no image": append(append([]byte{entryRemote, entryVersion, 0}, make([]byte, 8)...), 1, flagImage, 6, 1, 1, 1,
			0, 0, 0),
		"many parts": append(append([]byte{entryRemote, entryVersion, 0}, make([]byte, 8)...), 0xff, 0xff, 0xff, 0xff,
			0x7f),
		"unknown kind": {'X', entryVersion},
		"new version":  append([]byte{entryVotes, entryVersion + 1}, whole[2:]...),
		"old version":  append([]byte{entryVotes, entryVersion - 1}, whole[2:]...),
		"old account":  {entryAccount, entryVersion - 1, '{', '}'},
		"huge count":   {entryVotes, entryVersion, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"bad rotation": {entryRotation, entryVersion, '{'},
	} {
		if got, err := decodeEntry(entry); err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		}
	}
}

// TestOldEntries: a node does not start with entries of an older version, and says how
// to go on.
func TestOldEntries(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "data"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Append([]byte("A\x01{}")); err != nil {
		t.Fatal(err)
	}
	var damage *store.DamageError
	_, err = Open(t.Context(), small(Options{Store: st}))
	if !errors.As(err, &damage) || !strings.Contains(err.Error(), "restore it with the program that made it") {
		t.Errorf("opened with an old entry: %v", err)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(sampleVotes().appendEntry(nil))
	late := sampleVotes()
	(*resolve.Decisions)(late).Weigh(1, filter.Key{Hi: 10, Lo: 11}, 5)
	f.Add(late.appendEntry(nil))
	late.ToldSpam, late.ToldRevoked = []filter.Key{{Hi: 20, Lo: 21}}, []filter.Key{{Hi: 22, Lo: 23}}
	f.Add(late.appendEntry(nil))
	f.Add(sampleRemote().entry())
	f.Add([]byte("R\x05{\"drop_tally\":[1]}"))
	f.Add([]byte("A\x05{\"remove\":\"eve\"}"))
	f.Fuzz(func(t *testing.T, entry []byte) {
		body, err := decodeEntry(entry)
		if err != nil {
			return
		}
		if r, ok := body.(*remoteBody); ok {
			again, err := decodeEntry(r.entry())
			if err != nil || !reflect.DeepEqual(again, body) {
				t.Fatalf("%+v encodes to %+v, %v", r, again, err)
			}
		}
		if v, ok := body.(*votes); ok {
			again, err := decodeEntry(v.appendEntry(nil))
			if err != nil || !reflect.DeepEqual(again, body) {
				t.Fatalf("%+v encodes to %+v, %v", v, again, err)
			}
		}
	})
}
