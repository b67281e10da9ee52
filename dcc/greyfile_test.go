package dcc

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// FuzzGreylist: for any saved bytes, either Load refuses them and the greylist stays unchanged, or
// the greylist answers, and saving and loading it again gives the same. whole means that magic,
// number and checksum are corrected, so that the entries are reached.
func FuzzGreylist(f *testing.F) {
	now := time.Unix(1_795_000_000, 0)
	g := new(Greylist)
	g.Ask(md5.Sum([]byte("a")), now, false)
	g.Ask(md5.Sum([]byte("b")), now.Add(-time.Hour), false)
	g.Ask(md5.Sum([]byte("b")), now, false)
	var saved bytes.Buffer
	if err := g.Save(&saved); err != nil {
		f.Fatal(err)
	}
	f.Add(saved.Bytes(), false)
	f.Add(saved.Bytes()[:saved.Len()-1], false)
	f.Add([]byte{}, false)
	f.Add(saved.Bytes()[len(greyMagic)+4:saved.Len()-4], true)
	f.Add(bytes.Repeat([]byte{0xff}, 3*greySize), true)
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		if whole {
			n := len(b) / greySize
			file := binary.BigEndian.AppendUint32([]byte(greyMagic), uint32(n))
			file = append(file, b[:n*greySize]...)
			b = binary.BigEndian.AppendUint32(file, crc32.Checksum(file, crc32.MakeTable(crc32.Castagnoli)))
		}
		kept := md5.Sum([]byte("kept"))
		g := &Greylist{Entries: 100}
		g.Ask(kept, now, false)
		if err := g.Load(bytes.NewReader(b)); err != nil {
			if !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("refused as %v", err)
			}
			if len(g.triples) != 1 || g.triples[kept] != (greyEntry{first: uint32(now.Unix()), last: uint32(now.Unix())}) {
				t.Errorf("what it had before became %v", g.triples)
			}
			return
		}
		if len(g.triples) > 100 {
			t.Errorf("%d entries, limit 100", len(g.triples))
		}
		var out bytes.Buffer
		if err := g.Save(&out); err != nil {
			t.Fatal(err)
		}
		again := &Greylist{Entries: 100}
		if err := again.Load(bytes.NewReader(out.Bytes())); err != nil || !maps.Equal(again.triples, g.triples) {
			t.Errorf("saved and read again: %v, %v, want %v", again.triples, err, g.triples)
		}
		for triple := range g.triples {
			if first, then := g.Ask(triple, now, true), again.Ask(triple, now, true); first != then {
				t.Errorf("answers %v, and %v when it was read again", first, then)
			}
		}
	})
}
