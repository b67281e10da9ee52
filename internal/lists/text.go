package lists

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine is the longest line of a text file, in bytes.
const maxLine = 64 << 10

// eachLine calls f with the number, from 1, and the text of every line of r that is not empty after
// its comment ("#" at the start of the line or after white space) is cut off. It stops at the first
// error.
func eachLine(r io.Reader, f func(n int, line string) error) error {
	in := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		raw, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("lists: line %d is longer than %d bytes", n, maxLine)
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("lists: line %d: %w", n, err)
		}
		if n == 1 {
			raw = []byte(strings.TrimPrefix(string(raw), "\ufeff"))
		}
		if line := cutComment(string(raw)); line != "" {
			if err := f(n, line); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// cutComment returns a line without white space around it and without its comment. The text of a value may hold "#".
func cutComment(line string) string {
	line = strings.TrimSpace(line)
	before := line
	if at := valueAt(line); at >= 0 {
		before = line[:at]
	}
	for i := range len(before) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	return strings.TrimSpace(line)
}
