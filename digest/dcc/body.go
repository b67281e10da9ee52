package dcc

import (
	"bytes"
	"crypto/md5"
	"hash"
)

// minBody is the number of bytes below which there is no Body sum.
const minBody = 30

// A bodySum computes the Body checksum: the MD5 of the decoded body without
// white space and "=", and without the ">" of a line that begins ">From".
//
// Source: docs/specs/dcc.md#body.
type bodySum struct {
	hash  hash.Hash
	total int
	held  int // length of a match of ">From" at the start of the line; -1 inside the line
	out   [bodyPiece + len(quotedFrom)]byte
}

// bodyPiece is how many bytes are looked at together.
const bodyPiece = 4 << 10

const quotedFrom = ">From"

func (b *bodySum) init() { b.hash = md5.New() }

// bodyCounts holds 0 for the bytes that the Body sum leaves out, 1 for others.
var bodyCounts = func() (table [256]uint8) {
	for i := range table {
		table[i] = 1
	}
	for _, c := range []byte(" \t\r\n=") {
		table[c] = 0
	}
	return table
}()

func (b *bodySum) write(p []byte) {
	for ; len(p) > bodyPiece; p = p[bodyPiece:] {
		b.piece(p[:bodyPiece])
	}
	b.piece(p)
}

// piece takes bodyPiece bytes or fewer. It writes at most those bytes and the bytes that were
// held back before.
func (b *bodySum) piece(p []byte) {
	out, n := b.out[:], 0
	for len(p) > 0 {
		if b.held >= 0 {
			if p[0] == quotedFrom[b.held] {
				if b.held++; b.held == len(quotedFrom) {
					n += copy(out[n:], quotedFrom[1:])
					b.held = -1
				}
				p = p[1:]
				continue
			}
			n += copy(out[n:], quotedFrom[:b.held])
			b.held = -1
		}
		line := p
		if end := bytes.IndexByte(p, '\n'); end >= 0 {
			line, b.held = p[:end+1], 0
		}
		// Every byte is written; the next one overwrites what does not count.
		for _, c := range line {
			out[n] = c
			n += int(bodyCounts[c])
		}
		p = p[len(line):]
	}
	b.total += n
	b.hash.Write(out[:n])
}

// flush adds what was held back as the beginning of ">From".
func (b *bodySum) flush() {
	if b.held > 0 {
		b.total += b.held
		b.hash.Write([]byte(quotedFrom[:b.held]))
	}
	b.held = -1
}

func (b *bodySum) sum() (sum [md5.Size]byte) {
	b.hash.Sum(sum[:0])
	return sum
}
