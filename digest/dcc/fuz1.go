package dcc

import (
	"bytes"
	"crypto/md5"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Limits of Fuz1, docs/specs/dcc.md#fuz1.
const (
	fuz1MinLetters = 30   // letters below which there is no sum
	fuz1MaxLetters = 4096 // letters that are summed at most
	fuz1Line       = 317  // letters in the line buffer
	fuz1Full       = 234  // letters at which a line end empties the buffer
	fuz1MaxHello   = 78   // letters in a line that may be a greeting
	fuz1HostSpace  = 256  // letters that must fit when a host begins
)

// A fuz1Sum computes the Fuz1 checksum: the MD5 of the letters of the body,
// without greeting lines, paths of URLs and the outer labels of their hosts.
//
// Source: docs/specs/dcc.md#fuz1.
type fuz1Sum struct {
	rules  Rules
	total  int
	summed [fuz1MaxLetters]byte // the first total are in use

	buf  [fuz1Line]byte
	n    int
	mark int // end of the last line in buf, -1 for none

	url       urlMachine
	hostStart int // where the host begins in buf
	label     int // where the label begins that the last dot opened
	second    int // where the label before it begins
	dots      int
}

func (f *fuz1Sum) init(rules Rules) {
	f.rules = rules
	if rules == Rules2 {
		f.mark = -1
	}
	f.url.on = f.urlEvent
}

// full reports whether enough is summed.
func (f *fuz1Sum) full() bool { return f.total >= fuz1MaxLetters }

// chunk takes the bytes that a client would see at once.
func (f *fuz1Sum) chunk(p []byte) {
	if f.full() {
		return
	}
	for i := 0; i < len(p) && f.total < fuz1MaxLetters; i++ {
		if f.url.state == urlIdle {
			// Up to what may begin a URL or ends a line, letters alone count. Without this loop,
			// signature.Compute of a plain text takes 10 % longer.
			n := f.n
			for ; i < len(p) && n < fuz1Line-1 && p[i] != '=' && p[i] != '\n' && p[i]|0x20 != 'h'; i++ {
				if scan.IsLetter(p[i]) {
					f.buf[n] = p[i] | 0x20
					n++
				}
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
	if f.mark != f.n || f.total >= fuz1MaxLetters {
		return
	}
	switch f.add(f.n); {
	case f.rules == Rules1:
		f.mark = 0
	case f.n > 0:
		f.mark = -1
	}
	f.n = 0
}

func (f *fuz1Sum) newline() {
	if f.mark >= 0 && isGreeting(f.buf[f.mark:f.n]) {
		f.n = f.mark
		f.url.reset()
		return
	}
	if f.n >= fuz1Full {
		f.flush()
		f.url.reset()
		if f.rules == Rules2 {
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
func (f *fuz1Sum) add(n int) {
	f.total += copy(f.summed[f.total:], f.buf[:n])
}

// flush sums the whole buffer and empties it.
func (f *fuz1Sum) flush() {
	f.add(f.n)
	f.n, f.mark = 0, -1
}

// flushToMark sums the buffer up to the last line end. In 2.x no mark is left.
func (f *fuz1Sum) flushToMark() {
	f.add(f.mark)
	f.n = copy(f.buf[:], f.buf[f.mark:f.n])
	if f.mark = 0; f.rules == Rules2 {
		f.mark = -1
	}
}

func (f *fuz1Sum) urlEvent(e urlEvent, _ byte) {
	switch e {
	case eventHostStart:
		f.makeRoom()
		f.hostStart, f.dots = f.n, 0
	case eventHostDot:
		f.second, f.label = f.label, f.n
		f.dots++
	case eventHostRestart:
		f.n, f.dots = f.hostStart, 0
	case eventHostEnd:
		f.trimHost()
	}
}

// makeRoom empties as much of the buffer as a host may need.
func (f *fuz1Sum) makeRoom() {
	full := func() bool { return fuz1Line-f.n < fuz1HostSpace }
	switch {
	case !full():
	case f.rules == Rules1:
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

// trimHost removes from the buffer what is before the second-level label of the host that
// has just ended.
func (f *fuz1Sum) trimHost() {
	if f.dots < 2 {
		return
	}
	if f.rules == Rules2 && f.mark < 0 {
		f.n = f.hostStart
		return
	}
	f.n = f.hostStart + copy(f.buf[f.hostStart:], f.buf[f.second:f.n])
}

func (f *fuz1Sum) letters() []byte { return f.summed[:f.total] }

func (f *fuz1Sum) sum() [md5.Size]byte { return md5.Sum(f.letters()) }
