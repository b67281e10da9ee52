package mailbox

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// separator matches a line that begins a message of an mbox: "From ", a sender or none, and a date in
// the form of asctime or of a mail's field. A line of text that begins with "From " has no date there.
//
// Source: RFC 4155 appendix A, and the mailboxes of Mozilla, mutt, qmail and mail archives.
var separator = regexp.MustCompile(`^From (?:\S+|"[^"\n]*"\S*)?(?: at \S+)? *` +
	`(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +)?` +
	`(?:[0-3]?\d[ -])?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ -]+(?:[0-3]?\d +)?(?:\d{4} +)?` +
	`[0-2]?\d:[0-5]\d`)

// separates reports whether line begins a message within an mbox.
func separates(line []byte) bool {
	return startsFrom(line) && separator.Match(line[:min(len(line), 512)])
}

// begin returns raw from its first header field on: without a byte order mark, empty lines, the "From "
// line of an mbox, which may be escaped, and the size with which a file of Apple Mail begins.
func begin(raw []byte) []byte {
	const longest = 20 // bytes of a line with a size
	raw = bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(raw, "\r\n"), []byte("\xef\xbb\xbf")), "\r\n")
	line, _, ok := bytes.Cut(raw[:min(len(raw), longest)], []byte("\n"))
	if _, err := strconv.Atoi(strings.TrimSpace(string(line))); ok && err == nil {
		raw = raw[len(line)+1:]
	}
	if startsFrom(bytes.TrimPrefix(raw, []byte(">"))) {
		_, raw, _ = bytes.Cut(raw, []byte("\n"))
	}
	return raw
}

// isMessageFile reports whether a file of the name holds one message.
func isMessageFile(name string) bool {
	extension := filepath.Ext(name)
	return strings.EqualFold(extension, ".eml") || strings.EqualFold(extension, ".emlx")
}

// IsOutlook reports whether raw is a file .msg of Outlook, which holds a message in another form.
func IsOutlook(raw []byte) bool {
	return bytes.HasPrefix(raw, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"))
}
