package signature

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// A shape is a choice of the numbers that bulkhead/near fixes.
type shape struct{ shingle, rows, bands, match int }

// shapeHashes is how many hash functions the shapes share.
const shapeHashes = 80

// minima returns the MinHash values of all runs of n words, or nil.
func minima(words *wordList, n int, salt uint64, r *[2 * shapeHashes]uint64, seed maphash.Seed) *[shapeHashes]uint64 {
	if words.len() < n {
		return nil
	}
	least := new([shapeHashes]uint64)
	for i := range least {
		least[i] = math.MaxUint64
	}
	hashes := make([]uint64, words.len())
	for i := range hashes {
		hashes[i] = maphash.Bytes(seed, words.at(i))
	}
	for i := 0; i+n <= len(hashes); i++ {
		x := salt
		for _, h := range hashes[i : i+n] {
			x = mix(x ^ h)
		}
		for j := range least {
			least[j] = min(least[j], x*(r[2*j]|1)+r[2*j+1])
		}
	}
	return least
}

// same returns how many bands of a shape are equal.
func (s shape) same(a, b *[shapeHashes]uint64) int {
	n := 0
	for band := range s.bands {
		equal := 1
		for row := range s.rows {
			if a[band*s.rows+row] != b[band*s.rows+row] {
				equal = 0
				break
			}
		}
		n += equal
	}
	return n
}

// TestShapes prints what other shapes of bulkhead/near would do, so that the
// choice can be looked over: how many near-duplicates and attacked copies each
// finds, and how near it comes to calling ham spam. It needs BULKHEAD_FULL=1.
func TestShapes(t *testing.T) {
	if os.Getenv("BULKHEAD_FULL") != "1" {
		t.Skip("set BULKHEAD_FULL=1 for the comparison of shapes")
	}
	mails := loadCorpus(t)
	rng := rand.New(rand.NewPCG(9, 9))
	var r [2 * shapeHashes]uint64
	for i := range r {
		r[i] = rng.Uint64()
	}
	seed := maphash.MakeSeed()
	attack := newAttackedCopies(mails, rng)
	for shingle := 1; shingle <= 3; shingle++ {
		values := make([]*[shapeHashes]uint64, len(mails))
		var spam, ham []int
		for i := range mails {
			m := &mails[i]
			if m.bands == nil {
				continue
			}
			salt := uint64(0)
			if m.quoted {
				salt = quotedSalt
			}
			values[i] = minima(m.words, shingle, salt, &r, seed)
			if m.spam {
				spam = append(spam, i)
			} else if i%4 == 0 {
				ham = append(ham, i)
			}
		}
		chance := collisions(values, ham, spam)
		for _, s := range []shape{{shingle, 2, 16, 3}, {shingle, 3, 12, 2}, {shingle, 3, 16, 2}, {shingle, 3, 16, 3},
			{shingle, 4, 16, 2}, {shingle, 4, 20, 2}, {shingle, 5, 16, 2}} {
			pairs, found := 0, 0
			last := make(map[int]int)
			for _, i := range spam {
				c := mails[i].cluster
				if j, ok := last[c]; ok && c > 0 {
					pairs++
					if s.same(values[i], values[j]) >= s.match {
						found++
					}
				}
				last[c] = i
			}
			t.Logf("%d-word shingles, %d bands of %d, %d match: near-duplicate spam %.3f; %s; "+
				"a ham band equals one spam's with %.1e",
				s.shingle, s.bands, s.rows, s.match, float64(found)/float64(pairs), attack.found(s, &r, seed), chance[s.rows])
		}
	}
}

// collisions returns, for bands of 1 to 5 rows, the mean chance that a band of
// a ham equals a spam's: the mean power of their similarity, estimated
// without bias from the equal values among shapeHashes.
func collisions(values []*[shapeHashes]uint64, ham, spam []int) (mean [6]float64) {
	var index [shapeHashes]map[uint64][]int
	for k := range index {
		index[k] = make(map[uint64][]int)
		for _, j := range spam {
			index[k][values[j][k]] = append(index[k][values[j][k]], j)
		}
	}
	for _, i := range ham {
		equal := make(map[int]int)
		for k := range index {
			for _, j := range index[k][values[i][k]] {
				equal[j]++
			}
		}
		for _, n := range equal {
			p := 1.0
			for rows := 1; rows <= 5; rows++ {
				p *= float64(n-rows+1) / float64(shapeHashes-rows+1)
				if p <= 0 {
					break
				}
				mean[rows] += p
			}
		}
	}
	for rows := range mean {
		mean[rows] /= float64(len(ham)) * float64(len(spam))
	}
	return mean
}

// attackedCopies are spam and what three attacks make of it.
type attackedCopies struct {
	names  []string
	before []*wordList
	after  [][]*wordList
}

func newAttackedCopies(mails []corpusMail, rng *rand.Rand) *attackedCopies {
	a := &attacker{r: rng}
	var copies attackedCopies
	for i := range mails {
		if i%5 == 0 {
			for _, w := range strings.Fields(string(mails[i].visible)) {
				if len(w) > 2 && len(w) < 12 && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") == "" {
					a.dictionary = append(a.dictionary, w)
				}
			}
		}
	}
	kinds := []struct {
		name   string
		change func(*attacker, string, float64) string
		p      float64
	}{{"+50 % random words", (*attacker).addEnd, 0.5}, {"10 % substituted", (*attacker).substitute, 0.1},
		{"40 % look-alikes", (*attacker).disguise, 0.4}}
	for _, k := range kinds {
		copies.names = append(copies.names, k.name)
		copies.after = append(copies.after, nil)
	}
	for _, i := range rng.Perm(len(mails)) {
		m := &mails[i]
		if !m.spam || m.bands == nil || m.quoted {
			continue
		}
		fold := func(text string) *wordList {
			f := folder{recipient: recipientWords(m.to)}
			f.add([]byte(text), false)
			return &f.words
		}
		copies.before = append(copies.before, fold(string(m.visible)))
		for j, k := range kinds {
			copies.after[j] = append(copies.after[j], fold(k.change(a, string(m.visible), k.p)))
		}
		if len(copies.before) == 300 {
			break
		}
	}
	return &copies
}

// found says what share of each attack's copies a shape finds.
func (c *attackedCopies) found(s shape, r *[2 * shapeHashes]uint64, seed maphash.Seed) string {
	var text []string
	for j, name := range c.names {
		n := 0
		for i := range c.before {
			before, after := minima(c.before[i], s.shingle, 0, r, seed), minima(c.after[j][i], s.shingle, 0, r, seed)
			if before != nil && after != nil && s.same(before, after) >= s.match {
				n++
			}
		}
		text = append(text, name+" "+percent(n, len(c.before)))
	}
	return strings.Join(text, ", ")
}

func percent(n, of int) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(of)) }
