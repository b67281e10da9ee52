package setup

import "strings"

// The marks around the lines that setup adds to a site's file.
const (
	blockBegin = "# BEGIN bulkhead setup"
	blockEnd   = "# END bulkhead setup"
)

// withBlock returns a text with lines between the marks, which replace the present lines there or
// are added at the end. Without lines the block is removed.
func withBlock(text, lines string) string {
	before, after, found := cutBlock(text)
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

// withoutBlock returns the part of a text that is not from setup.
func withoutBlock(text string) string {
	before, after, _ := cutBlock(text)
	return before + after
}

// cutBlock returns the text before and after the marks and what is between them. An unpaired mark counts as the
// site's text.
func cutBlock(text string) (before, after string, found bool) {
	begin, behind := -1, -1
	open, at := -1, 0
	for line := range strings.Lines(text) {
		switch strings.TrimSuffix(line, "\n") {
		case blockBegin:
			open = at
		case blockEnd:
			if open >= 0 {
				begin, behind = open, at+len(line)
			}
			open = -1
		}
		at += len(line)
	}
	if begin < 0 {
		return text, "", false
	}
	return text[:begin], text[behind:], true
}
