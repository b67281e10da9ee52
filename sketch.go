package bulkhead

// A Sample is a sampled run of words of a message. It is identified by 48 bits of a keyed hash.
// Samples accompany a message as signatures of scheme [Sketch], which are neither counted nor voted
// on. They state which samples occur together in the message.
type Sample struct {
	Value uint64 // below 1 << 48
	Kind  SampleKind
}

// A SampleKind is the place in a message that a sample was taken from.
type SampleKind uint8

// The kinds of sample. Their values are part of the format of a sketch.
const (
	SampleOwn    SampleKind = iota // the message's own text, to which votes apply
	SampleOther                    // other text in it: the rest of its text, footers, other alternatives
	SampleQuoted                   // text that it quotes or forwards
	numSampleKinds
)

const (
	sampleSize   = 6                               // bytes of a sample
	sketchLength = (MaxSignature - 1) / sampleSize // samples in a signature
	sampleMask   = uint64(1)<<(8*sampleSize) - 1   // of a value
	sketchSize   = 1 + sketchLength*sampleSize     // bytes of the longest sum
)

// Signature returns the signature of s of scheme [Part].
func (s Sample) Signature() Signature {
	var sum [sampleSize]byte
	putSample(sum[:], s.Value)
	return MustSignature(Part, sum[:])
}

// AppendSketch appends to sigs signatures of scheme [Sketch] that hold the samples, grouped by kind
// and otherwise in their order. The sum is the kind and up to ten samples, each big-endian.
func AppendSketch(sigs []Signature, samples []Sample) []Signature {
	for kind := range numSampleKinds {
		var sum [sketchSize]byte
		n := 1
		flush := func() {
			if n > 1 {
				sum[0] = byte(kind)
				sigs = append(sigs, MustSignature(Sketch, sum[:n]))
				n = 1
			}
		}
		for _, s := range samples {
			if s.Kind != kind {
				continue
			}
			putSample(sum[n:], s.Value)
			if n += sampleSize; n == sketchSize {
				flush()
			}
		}
		flush()
	}
	return sigs
}

// AppendSamples appends the samples that s holds. It appends none if s has another scheme or a form
// that [AppendSketch] does not write.
func (s *Signature) AppendSamples(samples []Sample) []Sample {
	sum := s.Sum()
	if s.scheme != Sketch || len(sum)%sampleSize != 1 || sum[0] >= byte(numSampleKinds) {
		return samples
	}
	for at := 1; at < len(sum); at += sampleSize {
		var v uint64
		for _, c := range sum[at : at+sampleSize] {
			v = v<<8 | uint64(c)
		}
		samples = append(samples, Sample{Value: v, Kind: SampleKind(sum[0])})
	}
	return samples
}

func putSample(b []byte, v uint64) {
	v &= sampleMask
	for i := sampleSize - 1; i >= 0; i-- {
		b[i] = byte(v)
		v >>= 8
	}
}
