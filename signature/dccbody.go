package signature

import (
	"crypto/md5"
	"hash"
)

// dccMinBody is the number of bytes below which there is no Body sum.
const dccMinBody = 30

// A dccBodySum computes the Body checksum: the MD5 of the decoded body without
// white space and "=", and without the ">" of a line that begins ">From".
//
// Source: dcc.md section 2.4.
type dccBodySum struct {
	hash  hash.Hash
	total int
	held  int // length of a match of ">From" at the start of the line; -1 inside the line
	out   []byte
}

const quotedFrom = ">From"

func (b *dccBodySum) init() { b.hash = md5.New() }

func (b *dccBodySum) write(p []byte) {
	for _, c := range p {
		if b.held >= 0 {
			if c == quotedFrom[b.held] {
				if b.held++; b.held == len(quotedFrom) {
					b.out = append(b.out, quotedFrom[1:]...)
					b.held = -1
				}
				continue
			}
			b.out = append(b.out, quotedFrom[:b.held]...)
			b.held = -1
		}
		switch c {
		case '\n':
			b.held = 0
		case ' ', '\t', '\r', '=':
		default:
			b.out = append(b.out, c)
		}
	}
	b.total += len(b.out)
	b.hash.Write(b.out)
	b.out = b.out[:0]
}

// flush adds what was held back as the beginning of ">From".
func (b *dccBodySum) flush() {
	if b.held > 0 {
		b.total += b.held
		b.hash.Write([]byte(quotedFrom[:b.held]))
	}
	b.held = -1
}

func (b *dccBodySum) sum() (sum [md5.Size]byte) {
	b.hash.Sum(sum[:0])
	return sum
}
