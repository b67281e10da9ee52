package setup

import "strings"

// The marks around what setup adds to somebody else's file.
const (
	blockBegin = "# BEGIN bulkhead setup"
	blockEnd   = "# END bulkhead setup"
)

// withBlock returns a text with lines between the marks, in place of what was there, or else
// at the end. Without lines the block is removed.
func withBlock(text, lines string) string {
	before, _, after, found := cutBlock(text)
	block := ""
	if lines != "" {
		block = blockBegin + "\n" + lines + blockEnd + "\n"
	}
	if found {
		return before + block + after
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + block
}

// withoutBlock returns the part of a text that others have written.
func withoutBlock(text string) string {
	before, _, after, _ := cutBlock(text)
	return before + after
}

// cutBlock returns what is before, between and after the marks. Marks that are not a pair
// count as text of others.
func cutBlock(text string) (before, inside, after string, found bool) {
	begin, end, behind := -1, -1, -1
	open, at := -1, 0
	for line := range strings.Lines(text) {
		switch strings.TrimSuffix(line, "\n") {
		case blockBegin:
			open = at
		case blockEnd:
			if open >= 0 {
				begin, end, behind = open, at, at+len(line)
			}
			open = -1
		}
		at += len(line)
	}
	if begin < 0 {
		return text, "", "", false
	}
	return text[:begin], text[begin+len(blockBegin)+1 : end], text[behind:], true
}
