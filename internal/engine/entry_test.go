package engine

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

func sampleVotes() *votes {
	return &votes{
		tallyGen: 1772409600, blockGen: 1771977600,
		cells:   []filter.Key{{Hi: 1, Lo: 2}, {Hi: ^uint64(0), Lo: 3}},
		n:       []uint32{1, filter.Many},
		weighed: []filter.Key{{Hi: 8, Lo: 9}}, w: []uint32{100},
		unique: []filter.Key{{Hi: 4, Lo: 5}},
		spam:   []filter.Key{{Hi: 6, Lo: 7}}, revoked: []filter.Key{},
		credits: []trust.Credit{
			{Account: "alice", Confirmed: 1, Day: 20000, Network: 1 << 31, By: 100}, {Account: "bob", Reverted: 1<<32 - 1},
		},
	}
}

func TestVotesRoundTrip(t *testing.T) {
	late := sampleVotes()
	late.weigh(1772323200, filter.Key{Hi: 10, Lo: 11}, 5)
	late.weigh(1772236800, filter.Key{Hi: 12, Lo: 13}, 7)
	late.weigh(1772323200, filter.Key{Hi: 14, Lo: 15}, 9)
	for _, want := range []*votes{sampleVotes(), late} {
		got, err := decodeEntry(want.appendEntry(nil))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decoded %+v, %v; want %+v", got, err, want)
		}
	}
}

func TestEntryRefusals(t *testing.T) {
	whole := sampleVotes().appendEntry(nil)
	for n := range whole {
		if _, err := decodeEntry(whole[:n]); err == nil {
			t.Errorf("entry cut to %d of %d bytes accepted", n, len(whole))
		}
	}
	for name, entry := range map[string][]byte{
		"longer":       append(bytes.Clone(whole), 0),
		"unknown kind": {'X', entryVersion},
		"new version":  {entryVotes, entryLate + 1},
		"no late":      {entryVotes, entryLate, 1, 1, 0, 0, 0, 0, 0, 0, 0},
		"late account": {entryAccount, entryLate, '{', '}'},
		"huge count":   {entryVotes, entryVersion, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"bad rotation": {entryRotation, entryVersion, '{'},
	} {
		if got, err := decodeEntry(entry); err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(sampleVotes().appendEntry(nil))
	late := sampleVotes()
	late.weigh(1, filter.Key{Hi: 10, Lo: 11}, 5)
	f.Add(late.appendEntry(nil))
	f.Add([]byte("R\x01{\"drop_tally\":[1]}"))
	f.Add([]byte("A\x01{\"remove\":\"eve\"}"))
	f.Fuzz(func(t *testing.T, entry []byte) {
		body, err := decodeEntry(entry)
		if err != nil {
			return
		}
		if v, ok := body.(*votes); ok {
			again, err := decodeEntry(v.appendEntry(nil))
			if err != nil || !reflect.DeepEqual(again, body) {
				t.Fatalf("%+v encodes to %+v, %v", v, again, err)
			}
		}
	})
}
