package stream

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

func testSealer(t testing.TB, key byte) sealer {
	t.Helper()
	s, err := newSealer([32]byte{key})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// FuzzMessage reads messages that others could have put into the stream. An accepted message is exactly the one that
// was written.
func FuzzMessage(f *testing.F) {
	s := testSealer(f, 1)
	other := testSealer(f, 2)
	for _, m := range []message{
		{writer: 1, index: 2, before: 3, after: 4, parts: 1, data: []byte("an entry")},
		{writer: 1, index: 2, before: 3, after: 4, part: 1, parts: 3},
		{writer: 1, index: 2, after: 4},
		{part: 3, parts: 3},
		{parts: maxParts + 1},
		{data: []byte("a mark with data")},
	} {
		b := s.seal(&m)
		f.Add(b)
		f.Add(other.seal(&m))
		f.Add(b[:len(b)-1])
	}
	f.Add([]byte(magic))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := s.open(b)
		if err != nil {
			if !reflect.DeepEqual(m, message{}) {
				t.Errorf("%+v beside %v", m, err)
			}
			return
		}
		again := s.seal(&m)
		if !bytes.Equal(again[:headBytes], b[:headBytes]) || len(again) != len(b) {
			t.Errorf("%x was accepted and is written as %x", b, again)
		}
		var a assembler
		for range 2 {
			if e, done, err := a.add(m); err == nil && done && (e.part != 0 || !m.last()) {
				t.Errorf("part %d of %d completes %+v", m.part, m.parts, e)
			}
		}
	})
}

// TestChanged flips every bit of a message: none of the results is accepted.
func TestChanged(t *testing.T) {
	s := testSealer(t, 1)
	b := s.seal(&message{writer: 1, index: 2, before: 3, after: 4, parts: 1, data: []byte("an entry")})
	for bit := range 8 * len(b) {
		b[bit/8] ^= 1 << (bit % 8)
		if m, err := s.open(b); err == nil {
			t.Fatalf("bit %d was flipped, and %+v was accepted", bit, m)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	if _, err := s.open(b); err != nil {
		t.Fatal(err)
	}
}

// TestAssembler makes entries of messages among which are entries that were never completed, and what is left of one
// that was dropped, and compares them with the entries that were complete.
func TestAssembler(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 6))
	for range 200 {
		type complete struct {
			start int // of its messages
			data  []byte
		}
		var messages []message
		var entries []complete
		for index := uint64(1); index < 10; {
			parts, start, after := 1+rng.IntN(4), len(messages), rng.Uint64()|1
			sent := parts - rng.IntN(2)*rng.IntN(2) // the end of some is missing
			var data []byte
			for part := range sent {
				m := message{index: index, after: after, part: uint32(part), parts: uint32(parts),
					data: []byte{byte(rng.Uint32()), byte(index)}}
				messages, data = append(messages, m), append(data, m.data...)
			}
			if sent == parts {
				entries = append(entries, complete{start, data})
				index++
			}
		}
		cut := rng.IntN(len(messages))
		messages = messages[cut:]
		var want [][]byte
		for _, e := range entries {
			if e.start >= cut {
				want = append(want, e.data)
			}
		}
		var a assembler
		var got [][]byte
		for _, m := range messages {
			e, done, err := a.add(m)
			if err != nil {
				t.Fatal(err)
			}
			if done {
				got = append(got, e.data)
			}
		}
		if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("entries %q, want %q", got, want)
		}
	}
}

// TestDisorder checks that parts that do not follow each other are an error.
func TestDisorder(t *testing.T) {
	first := message{index: 5, parts: 3, writer: 1, after: 9}
	for _, m := range []message{
		{index: 6, part: 1, parts: 3, writer: 1, after: 9}, {index: 5, part: 2, parts: 3, writer: 1, after: 9},
		{index: 5, part: 1, parts: 4, writer: 1, after: 9}, {index: 5, part: 1, parts: 3, writer: 2, after: 9},
		{index: 5, part: 1, parts: 3, writer: 1, after: 8},
	} {
		var a assembler
		if _, _, err := a.add(first); err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.add(m); err == nil {
			t.Errorf("%+v is accepted after %+v", m, first)
		}
	}
}
