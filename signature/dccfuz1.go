package signature

import (
	"bytes"
	"crypto/md5"
	"hash"
)

// Limits of Fuz1, docs/specs/dcc.md#fuz1.
const (
	dccMinFuz1    = 30   // letters below which there is no sum
	dccMaxFuz1    = 4096 // letters that are summed at most
	fuz1Line      = 317  // letters in the line buffer
	fuz1Full      = 234  // letters at which a line end empties the buffer
	fuz1MaxHello  = 78   // letters in a line that may be a greeting
	fuz1HostSpace = 256  // letters that must fit when a host begins
)

// A dccFuz1 computes the Fuz1 checksum: the MD5 of the letters of the body,
// without greeting lines, paths of URLs and the outer labels of their hosts.
//
// Source: docs/specs/dcc.md#fuz1.
type dccFuz1 struct {
	rules DCCRules
	hash  hash.Hash
	total int

	buf  [fuz1Line]byte
	n    int
	mark int // end of the last line in buf, -1 for none

	url       dccURL
	hostStart int // where the host begins in buf
	label     int // where the label begins that the last dot opened
	second    int // where the label before it begins
	dots      int
}

func (f *dccFuz1) init(rules DCCRules) {
	f.rules, f.hash = rules, md5.New()
	if rules == DCCRules2 {
		f.mark = -1
	}
	f.url.on = f.urlEvent
}

// chunk takes the bytes that a client would see at once.
func (f *dccFuz1) chunk(p []byte) {
	if f.total >= dccMaxFuz1 {
		return // nothing is summed any more
	}
	for i := 0; i < len(p); i++ {
		if f.url.state == urlIdle {
			// Up to what may begin a URL or ends a line, letters alone count.
			n := f.n
			for i < len(p) && n < fuz1Line-1 {
				c := fuz1Bytes[p[i]]
				if c == fuz1Stop {
					break
				}
				f.buf[n] = c
				if c != 0 {
					n++
				}
				i++
			}
			if f.n = n; i == len(p) {
				break
			}
		}
		c := lowerASCII(p[i])
		if f.url.wants(c) && f.url.feed(c) {
			continue
		}
		switch {
		case c >= 'a' && c <= 'z':
			f.buf[f.n] = c
			if f.n++; f.n == fuz1Line {
				f.flush()
				f.url.reset()
			}
		case c == '\n':
			f.newline()
		}
	}
	if f.mark != f.n {
		return
	}
	switch f.add(f.n); {
	case f.rules == DCCRules1:
		f.mark = 0
	case f.n > 0:
		f.mark = -1
	}
	f.n = 0
}

// fuz1Stop marks the bytes that mean more than a letter or nothing.
const fuz1Stop = 0xFF

// fuz1Bytes holds the lower case of letters, 0 for what counts nothing, or
// fuz1Stop.
var fuz1Bytes = func() (table [256]byte) {
	for c := 'a'; c <= 'z'; c++ {
		table[c], table[c-'a'+'A'] = byte(c), byte(c)
	}
	for _, c := range []byte("hH=\n") {
		table[c] = fuz1Stop
	}
	return table
}()

func (f *dccFuz1) newline() {
	if f.mark >= 0 && isGreeting(f.buf[f.mark:f.n]) {
		f.n = f.mark
		f.url.reset()
		return
	}
	if f.n >= fuz1Full {
		f.flush()
		f.url.reset()
		if f.rules == DCCRules2 {
			return
		}
	}
	f.mark = f.n
}

// isGreeting reports whether a line's letters look like a greeting that is
// made for each recipient.
func isGreeting(line []byte) bool {
	if len(line) == 0 || len(line) > fuz1MaxHello {
		return false
	}
	for _, word := range [...]string{"dear", "hello", "greeting", "date"} {
		if len(line) > len(word) && bytes.HasPrefix(line, []byte(word)) {
			return true
		}
	}
	return false
}

// add sums the first n letters of the buffer, up to the limit of all.
func (f *dccFuz1) add(n int) {
	n = min(n, dccMaxFuz1-f.total)
	f.hash.Write(f.buf[:n])
	f.total += n
}

// flush sums the whole buffer and empties it.
func (f *dccFuz1) flush() {
	f.add(f.n)
	f.n, f.mark = 0, -1
}

// flushToMark sums the buffer up to the last line end. In 2.x no mark is left.
func (f *dccFuz1) flushToMark() {
	f.add(f.mark)
	f.n = copy(f.buf[:], f.buf[f.mark:f.n])
	if f.mark = 0; f.rules == DCCRules2 {
		f.mark = -1
	}
}

func (f *dccFuz1) urlEvent(e dccURLEvent, _ byte) {
	switch e {
	case dccHostStart:
		f.makeRoom()
		f.hostStart, f.dots = f.n, 0
	case dccHostDot:
		f.second, f.label = f.label, f.n
		f.dots++
	case dccHostRestart:
		f.n, f.dots = f.hostStart, 0
	case dccHostEnd:
		f.trimHost()
	}
}

// makeRoom empties as much of the buffer as a host may need.
func (f *dccFuz1) makeRoom() {
	full := func() bool { return fuz1Line-f.n < fuz1HostSpace }
	switch {
	case !full():
	case f.rules == DCCRules1:
		if f.mark >= 0 && f.n-f.mark <= fuz1MaxHello {
			f.flushToMark()
		} else {
			f.flush()
		}
	default:
		if f.mark > 0 {
			f.flushToMark()
		}
		if full() {
			f.flush()
		}
	}
}

// trimHost removes from the buffer what stands before the second-level label
// of the host that just ended.
func (f *dccFuz1) trimHost() {
	if f.dots < 2 {
		return
	}
	if f.rules == DCCRules2 && f.mark < 0 {
		f.n = f.hostStart
		return
	}
	f.n = f.hostStart + copy(f.buf[f.hostStart:], f.buf[f.second:f.n])
}

func (f *dccFuz1) sum() (sum [md5.Size]byte) {
	f.hash.Sum(sum[:0])
	return sum
}
