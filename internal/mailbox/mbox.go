package mailbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine is the number of bytes of a line that are read at once; longer lines come in pieces.
const maxLine = 64 << 10

// An mbox splits a stream into messages at lines that begin with "From " and have a date, after an
// empty line. Escaped lines, ">From " and ">>From ", lose one ">" (mboxrd). The empty
// line that ends each message is left out.
type mbox struct {
	r   *bufio.Reader
	max int // bytes of one message

	offset  int64  // of the next byte
	from    []byte // the "From " line of the next message
	fromAt  int64
	started bool
	err     error // what ended the stream
}

// tooLongError is the error for a message over the limit. The messages after it can be read.
type tooLongError struct{ max int }

func (e *tooLongError) Error() string { return fmt.Sprintf("message longer than %d bytes", e.max) }

func newMbox(r io.Reader, maxBytes int) *mbox {
	return &mbox{r: bufio.NewReaderSize(r, maxLine), max: maxBytes}
}

// begins reports whether the stream is an mbox. It consumes only what precedes the first message: a byte
// order mark and empty lines.
func (b *mbox) begins() bool {
	head, _ := b.r.Peek(64)
	if text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), "\r\n"); startsFrom(text) {
		n, _ := b.r.Discard(len(head) - len(text))
		b.offset, b.fromAt = int64(n), int64(n)
		return true
	}
	return false
}

// line returns the next line, or the next piece of a line longer than maxLine. It is valid
// until the next call.
func (b *mbox) line() (line []byte, err error) {
	line, err = b.r.ReadSlice('\n')
	b.offset += int64(len(line))
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	if len(line) > 0 {
		return line, nil
	}
	return nil, err
}

// next returns the next message, its "From " line, and the offset of that line.
// The error is io.EOF after the last one, a *tooLongError for a message that
// was skipped, and otherwise what ended the stream.
func (b *mbox) next() (raw, fromLine []byte, offset int64, err error) {
	if !b.started {
		b.started = true
		first, err := b.line()
		if err != nil {
			return nil, nil, 0, err
		}
		b.from = bytes.Clone(first)
	}
	if b.from == nil {
		return nil, nil, b.offset, b.err
	}
	fromLine, offset = b.from, b.fromAt
	b.from = nil
	long := false
	empty, begins := false, bytes.HasSuffix(fromLine, []byte("\n")) // the line before was empty; a line begins here
	for {
		at := b.offset
		line, err := b.line()
		if err != nil {
			b.err = err
			break
		}
		if begins && empty && separates(line) {
			b.from, b.fromAt = bytes.Clone(line), at
			break
		}
		if begins {
			empty = len(bytes.TrimRight(line, "\r\n")) == 0
			if isEscaped(line) {
				line = line[1:]
			}
		}
		begins = line[len(line)-1] == '\n'
		if long = long || len(raw)+len(line) > b.max; !long {
			raw = append(raw, line...)
		} else {
			raw = nil
		}
	}
	if b.from == nil && !errors.Is(b.err, io.EOF) {
		return nil, nil, b.offset, b.err
	}
	if long {
		return nil, nil, offset, &tooLongError{b.max}
	}
	if b.from != nil || empty {
		raw = cutEmptyLine(raw)
	}
	return raw, fromLine, offset, nil
}

// isEscaped reports whether line is "From " after one or more ">".
func isEscaped(line []byte) bool {
	return len(line) > 0 && line[0] == '>' && startsFrom(bytes.TrimLeft(line, ">"))
}

// cutEmptyLine removes the empty line that separates two messages.
func cutEmptyLine(raw []byte) []byte {
	for _, end := range []string{"\r\n", "\n"} {
		if bytes.HasSuffix(raw, []byte("\n"+end)) || string(raw) == end {
			return raw[:len(raw)-len(end)]
		}
	}
	return raw
}
