package document

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// compoundMagic is what a compound file begins with.
const compoundMagic = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

// A compound is a file that has streams in sectors. Office kept documents in such files before 2007.
//
// Source: MS-CFB, sections 2.2 to 2.6.
type compound struct {
	data  []byte
	shift int // of the size of a sector
	pace  *pace.Pace
}

// A stream is what the sectors of a chain hold, one after another. They lie in the file or in another stream.
type stream struct {
	file  *compound
	in    *stream // nil for the file
	chain []uint32
	shift int
}

// endOfChain is the lowest number that is no sector's.
const endOfChain = 0xfffffffa

// read returns n bytes from a place on, or as many as there are.
func (s *stream) read(at, n int) (out []byte) {
	for n > 0 && at >= 0 && at>>s.shift < len(s.chain) && !s.file.pace.Over(1) {
		within := at & (1<<s.shift - 1)
		size := min(n, 1<<s.shift-within)
		from := int(s.chain[at>>s.shift])<<s.shift + within
		var piece []byte
		if s.in != nil {
			piece = s.in.read(from, size)
		} else if from += 1 << s.shift; from < len(s.file.data) { // the header is before the first sector
			piece = s.file.data[from:min(from+size, len(s.file.data))]
		}
		out = append(out, piece...)
		if len(piece) < size {
			break
		}
		at, n = at+size, n-size
	}
	return out
}

// chained returns the sectors of a chain, by what follows each of them. There are no more than the file has room for.
func (c *compound) chained(first uint32, shift int, next func(uint32) uint32) (chain []uint32) {
	for n := first; n < endOfChain && len(chain) <= len(c.data)>>shift && !c.pace.Over(1); n = next(n) {
		chain = append(chain, n)
	}
	return chain
}

// next returns the sector that follows another one in its chain. Only the first 109 sectors of the table count: they
// are enough for files of 7 MB.
func (c *compound) next(n uint32) uint32 {
	const tables, most = 0x4c, 109
	i := int(n) >> (c.shift - 2)
	if i >= most {
		return endOfChain
	}
	table := stream{file: c, chain: []uint32{number(c.data, tables+4*i)}, shift: c.shift}
	return number(table.read(int(n)&(1<<(c.shift-2)-1)*4, 4), 0)
}

// number reads a number of four bytes, or the end of a chain where there is none.
func number(data []byte, at int) uint32 {
	if at < 0 || at+4 > len(data) {
		return endOfChain
	}
	return binary.LittleEndian.Uint32(data[at:])
}

// open returns a stream by its name, nil for none. Streams of few bytes are in small sectors, which are in a stream.
func (c *compound) open(name string) *stream {
	const entry, most, root, named = 128, 256, 5, 2 // bytes of an entry, entries that are read, and kinds of them
	const smallShift = 6
	whole := func(first uint32) *stream {
		return &stream{file: c, chain: c.chained(first, c.shift, c.next), shift: c.shift}
	}
	var inside []byte // the entry of the stream with small sectors
	folder := whole(number(c.data, 0x30)).read(0, most*entry)
	for ; len(folder) >= entry; folder = folder[entry:] {
		if folder[66] == root {
			inside = folder
		}
		if folder[66] != named || !isNamed(folder, name) {
			continue
		}
		first := number(folder, 116)
		if number(folder, 120) >= number(c.data, 0x38) || inside == nil {
			return whole(first)
		}
		table := whole(number(c.data, 0x3c))
		return &stream{file: c, in: whole(number(inside, 116)), shift: smallShift, chain: c.chained(first, smallShift,
			func(n uint32) uint32 { return number(table.read(4*int(n), 4), 0) })}
	}
	return nil
}

// isNamed reports whether an entry has a name of ASCII letters.
func isNamed(entry []byte, name string) bool {
	for i := range len(name) {
		if entry[2*i] != name[i] || entry[2*i+1] != 0 {
			return false
		}
	}
	return entry[2*len(name)] == 0
}

// word takes the text of a document of Word 97 to 2003, and reports whether the file is one. Encrypted ones have none.
//
// Source: MS-DOC, sections 2.4.1, 2.5.1 and 2.9.38.
func (o *opener) word(name string, data []byte) bool {
	const (
		least, header = 0x200, 0x1aa
		magic         = 0xa5ec
		encrypted     = 0x0100
		secondTable   = 0x0200
		most          = 64 << 10 // bytes of the table of pieces
	)
	if len(data) < least || data[0x1e] < 7 || data[0x1e] > 12 || data[0x1f] != 0 {
		return false
	}
	c := compound{data: data, shift: int(data[0x1e]), pace: o.pace}
	text := c.open("WordDocument")
	if text == nil {
		return false
	}
	head := text.read(0, header)
	if len(head) < header || binary.LittleEndian.Uint16(head) != magic {
		return false
	}
	flags := binary.LittleEndian.Uint16(head[0x0a:])
	if flags&encrypted != 0 {
		return false
	}
	table := c.open("0Table")
	if flags&secondTable != 0 {
		table = c.open("1Table")
	}
	if table == nil {
		return false
	}
	pieces := table.read(int(number(head, 0x1a2)), min(most, int(number(head, 0x1a6))))
	o.add(Item{name, Text, o.pieces(text, pieces)})
	return true
}

// pieces returns the text that a table of pieces divides.
func (o *opener) pieces(text *stream, table []byte) (out []byte) {
	const property, divides, eight = 1, 2, 1 << 30
	for len(table) >= 5 && table[0] == property {
		table = table[min(len(table), 3+int(binary.LittleEndian.Uint16(table[1:]))):]
	}
	if len(table) < 5 || table[0] != divides {
		return nil
	}
	table = table[5:min(len(table), 5+int(number(table, 1)))]
	n := (len(table) - 4) / 12
	for i := 0; i < n && len(out) < maxText && !o.done(); i++ {
		from, to := number(table, 4*i), number(table, 4*i+4)
		at := number(table, 4*(n+1)+8*i+2)
		if to <= from || to-from > 1<<28 {
			continue
		}
		size := min(int(to-from), maxText-len(out), o.budget.Bytes)
		o.budget.Bytes -= size
		if at&eight != 0 {
			for _, b := range text.read(int(at&^eight)/2, size) {
				out = appendShown(out, charmap.Windows1252.DecodeByte(b))
			}
			continue
		}
		wide := text.read(int(at), 2*size)
		units := make([]uint16, len(wide)/2)
		for k := range units {
			units[k] = binary.LittleEndian.Uint16(wide[2*k:])
		}
		for _, r := range utf16.Decode(units) {
			out = appendShown(out, r)
		}
	}
	return out
}

// appendShown appends a character of a document of Word. Ends of paragraphs, cells, lines and pages end a line.
func appendShown(out []byte, r rune) []byte {
	switch {
	case r == '\r' || r == '\a' || r == '\v' || r == '\f':
		return append(out, '\n')
	case r == '\t', 0x13 <= r && r <= 0x15: // marks of fields
		return append(out, ' ')
	case r == 0x1e:
		return append(out, '-')
	case r < ' ':
		return out
	}
	return utf8.AppendRune(out, r)
}
