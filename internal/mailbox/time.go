package mailbox

import (
	"bytes"
	"net/mail"
	"strconv"
	"strings"
	"time"
)

// fromLineTime reads the time in the "From " line of an mbox: a date in the form of asctime,
// with or without a zone. Without one it is UTC.
func fromLineTime(line []byte) time.Time {
	fields := strings.Fields(string(line[:min(len(line), 512)]))
	for i := range fields {
		rest := strings.Join(fields[i:], " ")
		for _, layout := range []string{
			"Mon Jan 2 15:04:05 2006", "Mon Jan 2 15:04:05 -0700 2006", "Mon Jan 2 15:04:05 2006 -0700",
			"Mon Jan 2 15:04:05 MST 2006", "Mon Jan 2 15:04 2006",
		} {
			if t, err := time.Parse(layout, rest); err == nil {
				return t.UTC()
			}
		}
	}
	return time.Time{}
}

// deliveryTime reads the Unix time at the start of a Maildir file's name.
func deliveryTime(name string) time.Time {
	digits, _, _ := strings.Cut(name, ".")
	if seconds, err := strconv.ParseInt(digits, 10, 64); err == nil && seconds > 0 && seconds < 1<<36 {
		return time.Unix(seconds, 0).UTC()
	}
	return time.Time{}
}

// maxHeader is the number of bytes of a message that are searched for its time.
const maxHeader = 256 << 10

// messageTime returns the time of the topmost Received field with a time, or else of the Date
// field, or zero.
func messageTime(raw []byte) time.Time {
	var date time.Time
	rest := raw[:min(len(raw), maxHeader)]
	for len(rest) > 0 {
		var field string
		if field, rest = nextField(rest); field == "" {
			break
		}
		name, value, _ := strings.Cut(field, ":")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "received":
			if i := strings.LastIndexByte(value, ';'); i >= 0 {
				if t, err := mail.ParseDate(strings.TrimSpace(value[i+1:])); err == nil {
					return t.UTC()
				}
			}
		case "date":
			if t, err := mail.ParseDate(strings.TrimSpace(value)); err == nil {
				date = t.UTC()
			}
		}
	}
	return date
}

// nextField returns the first line, joined with its continuation lines, or "" at the end of
// the header.
func nextField(b []byte) (field string, rest []byte) {
	var text strings.Builder
	for len(b) > 0 {
		line, after, _ := bytes.Cut(b, []byte("\n"))
		line = bytes.TrimRight(line, "\r")
		folded := len(line) > 0 && (line[0] == ' ' || line[0] == '\t')
		if text.Len() > 0 && !folded || len(line) == 0 {
			break
		}
		if text.Len() < 4096 {
			text.Write(line)
		}
		b = after
	}
	return text.String(), b
}
