package picture

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/dchest/siphash"
)

const (
	// KeySize is the length of a key, in bytes.
	KeySize = 16
	// ViewKeys is how many keys a picture has, and as many again for what is inside its
	// margin.
	ViewKeys = bands << weak

	bands    = 6
	bandBits = 40
	weak     = 3 // bits of a band that may be either
)

// A Hasher makes keys with the secret of a network. It may be used concurrently.
type Hasher struct {
	k0, k1 uint64
	terms  [bands][bandBits]uint8 // whose bits make a band
}

// NewHasher returns the Hasher of a network's key.
func NewHasher(key [16]byte) *Hasher {
	sum := sha256.Sum256(append([]byte("bulkhead/image\x00"), key[:]...))
	h := &Hasher{k0: binary.BigEndian.Uint64(sum[:]), k1: binary.BigEndian.Uint64(sum[8:])}
	for b := range h.terms {
		var rank [terms]uint64
		all := make([]uint8, terms)
		for i := range all {
			all[i] = uint8(i)
			rank[i] = siphash.Hash(h.k0, h.k1, []byte{byte(b), byte(i)})
		}
		slices.SortFunc(all, func(x, y uint8) int { return cmp.Compare(rank[x], rank[y]) })
		copy(h.terms[b][:], all)
	}
	return h
}

// Keys returns the keys of a picture, [ViewKeys] or twice as many, in a fixed order.
// Another that looks the same has one of them.
func (h *Hasher) Keys(l *Look) [][KeySize]byte {
	keys := make([][KeySize]byte, 0, len(l.views)*ViewKeys)
	for i := range l.views {
		keys = h.appendKeys(keys, &l.views[i])
	}
	return keys
}

func (h *Hasher) appendKeys(keys [][KeySize]byte, v *view) [][KeySize]byte {
	sorted := *v
	slices.Sort(sorted[:])
	median := sorted[terms/2]
	for b := range h.terms {
		word, weakest := h.band(v, median, b)
		for choice := range 1 << weak {
			either := word
			for i, bit := range weakest {
				if choice>>i&1 == 1 {
					either ^= 1 << bit
				}
			}
			keys = append(keys, h.key(b, either))
		}
	}
	return keys
}

// band returns the bits of band b, and which of them change most easily: the bits of the terms
// that are nearest to the median.
func (h *Hasher) band(v *view, median float32, b int) (word uint64, weakest [weak]int) {
	var margin [bandBits]float32
	for i, t := range h.terms[b] {
		margin[i] = v[t] - median
		if margin[i] > 0 {
			word |= 1 << i
		}
		margin[i] = max(margin[i], -margin[i])
	}
	order := make([]int, bandBits)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(margin[x], margin[y]) })
	copy(weakest[:], order)
	return word, weakest
}

// key returns the key of the bits of a band. If all bits are inverted, as in a negative, it
// is the same.
func (h *Hasher) key(band int, word uint64) (key [KeySize]byte) {
	if word&1 == 1 {
		word = ^word & (1<<bandBits - 1)
	}
	var text [9]byte
	text[0] = byte(band)
	binary.BigEndian.PutUint64(text[1:], word)
	hi, lo := siphash.Hash128(h.k0, h.k1, text[:])
	binary.BigEndian.PutUint64(key[:], hi)
	binary.BigEndian.PutUint64(key[8:], lo)
	key[0] = byte(band)
	return key
}
