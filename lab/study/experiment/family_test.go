package experiment

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/lab/paper"
)

// TestFamilies compares the cells of each family with those of package paper, of the same
// elements under the same draws.
func TestFamilies(t *testing.T) {
	s := NewSimulator(3)
	s.keys = s.keys[:500]
	const m = 80_000
	for _, k := range []int{4, 8} {
		for _, f := range HashFamilies() {
			s.family = f
			s.Hash(m, k, Stream(3, "families test", k))
			r := Stream(3, "families test", k)
			var family paper.Family
			var err error
			prefix := binary.BigEndian.AppendUint64(nil, 0)[:0]
			switch f {
			case FamilyUniversal:
				family, err = paper.Universal(m, k, r)
			case FamilyIndependent:
				r.Uint64() // what other families begin with
				r.Uint64()
				r.Uint64()
				for i := range s.keys {
					for j, got := range s.Index[i*k : i*k+k] {
						if want := r.Uint64N(m); uint64(got) != want {
							t.Fatalf("independent, k = %d, key %d: cell %d is %d, want %d", k, i, j, got, want)
						}
					}
				}
				continue
			case FamilyKeyed:
				r.Uint64()
				family, err = paper.Keyed(SecretOf(r.Uint64(), r.Uint64()), m, k)
			case FamilyMD5:
				prefix = binary.BigEndian.AppendUint64(prefix, r.Uint64())
				family, err = paper.ChunkedMD5(m, k)
			case FamilySHA1:
				prefix = binary.BigEndian.AppendUint64(prefix, r.Uint64())
				family, err = paper.ChunkedSHA1(m, k)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range s.keys {
				want := family.Append(nil, binary.BigEndian.AppendUint64(slices.Clone(prefix), x))
				for j, got := range s.Index[i*k : i*k+k] {
					if uint64(got) != want[j] {
						t.Fatalf("%s, k = %d, key %d: cell %d is %d, want %d", f, k, i, j, got, want[j])
					}
				}
			}
			if f.Reach(m, k) != family.Utilisable() {
				t.Errorf("%s, k = %d: reaches %d cells, want %d", f, k, f.Reach(m, k), family.Utilisable())
			}
		}
	}
}

// TestInsertAny: every number of functions inserts as the plain array does.
func TestInsertAny(t *testing.T) {
	s := NewSimulator(4)
	for k := 2; k <= 8; k++ {
		const m = 20_000
		s.Hash(m, k, Stream(4, "insert any", k))
		clear(s.refined[:m])
		want := make(CellArray, m)
		r := Stream(4, "insert any order", k)
		for range 60_000 {
			i := r.IntN(NumKeys)
			s.insert(i, k)
			want.Raise(s.Index[i*k:i*k+k], 1)
		}
		for i, v := range want {
			if got := uint32(s.refined[i]); got != v {
				t.Fatalf("k = %d: cell %d is %d, want %d", k, i, got, v)
			}
		}
	}
}
