package bulkhead

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSketch: the samples put into a sketch come out of it, kind by kind.
func TestSketch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Sample {
			return Sample{rapid.Uint64Max(1<<48-1).Draw(t, "value"),
				SampleKind(rapid.Uint8Max(uint8(numSampleKinds)-1).Draw(t, "kind"))}
		}), 0, 60).Draw(t, "samples")
		sigs := AppendSketch(nil, samples)
		var got []Sample
		for i := range sigs {
			if !sigs[i].Valid() || sigs[i].Scheme() != Sketch {
				t.Fatalf("signature %v", sigs[i])
			}
			got = sigs[i].AppendSamples(got)
		}
		want := slices.Clone(samples)
		slices.SortStableFunc(want, func(a, b Sample) int { return int(a.Kind) - int(b.Kind) })
		if !slices.Equal(got, want) {
			t.Fatalf("%v came out as %v", want, got)
		}
		if most := len(samples)/10 + int(numSampleKinds); len(sigs) > most {
			t.Errorf("%d signatures of %d samples, want %d at most", len(sigs), len(samples), most)
		}
	})
}

// TestSampleSignature: the signature of a sample depends on its value alone.
func TestSampleSignature(t *testing.T) {
	a, b := Sample{0x0102_0304_0506, SampleOwn}, Sample{0x0102_0304_0506, SampleQuoted}
	if got := a.Signature().String(); got != "bulkhead/part:010203040506" || b.Signature() != a.Signature() {
		t.Errorf("signatures %v and %v", got, b.Signature())
	}
}

// FuzzSamples: for any sum, samples have a known kind and are below 1 << 48. Only a sketch has
// samples.
func FuzzSamples(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6})
	f.Add([]byte{2, 1, 2, 3, 4, 5, 6, 7})
	f.Add([]byte{3, 1, 2, 3, 4, 5, 6})
	f.Add(slices.Repeat([]byte{1}, MaxSignature))
	f.Fuzz(func(t *testing.T, sum []byte) {
		sig, err := NewSignature(Sketch, sum)
		if err != nil {
			return
		}
		samples := sig.AppendSamples(nil)
		for _, s := range samples {
			if s.Kind >= numSampleKinds || s.Value >= 1<<48 {
				t.Fatalf("%x: sample %+v", sum, s)
			}
		}
		if len(samples) > 0 && !slices.Equal(AppendSketch(nil, samples), []Signature{sig}) {
			t.Fatalf("%x: %v is written in another way", sum, samples)
		}
		other := MustSignature(Exact, sum)
		if got := other.AppendSamples(nil); got != nil {
			t.Fatalf("%x: samples %v of another scheme", sum, got)
		}
	})
}
