package codec

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSlotCodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SampledFrom([]int{128, 128 << 10, 512 << 10}).Draw(t, "slots")
		at := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(slots-1)), 0, 128, rapid.ID[uint32]).Draw(t, "at")
		slices.Sort(at)
		s := Slots{At: at, Values: make([]uint32, len(at))}
		for i := range at {
			s.Values[i] = rapid.OneOf(rapid.Uint32Range(1, 30), rapid.Uint32Range(1, MaxValue)).Draw(t, "value")
		}
		valued := rapid.Bool().Draw(t, "valued")
		if !valued {
			s.Values = nil
		}
		enc := s.Append([]byte("x"), slots)[1:]
		got, err := ParseSlots(enc, slots, len(at), valued)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.At, s.At) || !slices.Equal(got.Values, s.Values) {
			t.Fatalf("%v after a round trip, was %v", got, s)
		}
	})
}
