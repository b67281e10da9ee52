package mailbox

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// TestSeparates checks which lines begin a message within an mbox: those with a date.
func TestSeparates(t *testing.T) {
	for _, line := range []string{
		"From ann@example.com Thu Feb  1 10:00:00 2024", "From - Mon Nov 02 10:00:00 2026",
		"From MAILER-DAEMON Thu Feb 1 10:00:00 2024 +0100", "From ann@example.com Thu Feb  1 10:00 2024",
		"From ann at example.com Thu Feb  1 10:00:00 2024", "From ann@example.com Thu, 1 Feb 2024 10:00:00 +0000",
		"From \"ann b\"@example.com  Thu Feb  1 10:00:00 CET 2024", "From  Thu Feb  1 10:00:00 2024",
		"From x@y.example 1-Feb-2024 10:00:00 +0000", "From ann@example.com Thu Feb  1 10:00:00 2024 remote from host",
	} {
		if !separates([]byte(line + "\n")) {
			t.Errorf("%q begins no message", line)
		}
	}
	for _, line := range []string{
		"From here on the road is closed", "From Monday to Friday, 10:00 to 12:00", "From: ann@example.com",
		"From 10:00 we are open", "From ann@example.com", "From", "From the Thu of Feb 2024",
		">From a Thu Feb  1 10:00:00 2024",
		"from ann@example.com Thu Feb  1 10:00:00 2024", "From May 2024 on at 10:00 we meet",
	} {
		if separates([]byte(line + "\n")) {
			t.Errorf("%q begins a message", line)
		}
	}
}

// TestFirstLines checks that a message is found behind what programs write before it, in a file of one
// message and in an mbox.
func TestFirstLines(t *testing.T) {
	const message = "From: a@b.example\nSubject: x\n\nFrom here on\n\nFrom here on, too\n"
	for _, before := range []string{"", "\xef\xbb\xbf", "\r\n\r\n", "\n", "\xef\xbb\xbf\r\n", "120\n", "7       \n",
		">From a@b.example Mon Nov  2 10:00:00 2026\n", "From a@b.example Mon Nov  2 10:00:00 2026\n",
		"\xef\xbb\xbfFrom a@b.example Mon Nov  2 10:00:00 2026\n", "\n\nFrom - Mon Nov  2 10:00:00 2026\n"} {
		if raw := []byte(before + message); !HasHeader(raw) {
			t.Errorf("%q: no message", before)
		} else if from, subject := Envelope(raw, 60); from != "a@b.example" || subject != "x" {
			t.Errorf("%q: from %q, subject %q", before, from, subject)
		}
	}
	for _, before := range []string{"", "\xef\xbb\xbf", "\n\n"} {
		name := tree(t, map[string]string{"box": before +
			strings.Repeat("From a@b Mon Nov  2 10:00:00 2026\n"+message+"\n", 3)})
		n := 0
		for m, err := range Read(t.Context(), filepath.Join(name, "box"), Options{}) {
			if n++; err != nil || string(m.Raw) != message {
				t.Errorf("%q: %q, %v", before, m.Raw, err)
			}
		}
		if n != 3 {
			t.Errorf("%q: %d messages, want 3", before, n)
		}
	}
	for _, raw := range []string{"", "no: header\x00"[:2], "12\n", "\xef\xbb\xbf", "From here\nwords"} {
		if HasHeader([]byte(raw)) {
			t.Errorf("%q has a header", raw)
		}
	}
	if !IsOutlook(append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), make([]byte, 512)...)) || IsOutlook([]byte(message)) {
		t.Error("a file of Outlook is not told from a message")
	}
}

// TestCases checks the messages whose first line was once refused.
func TestCases(t *testing.T) {
	for _, name := range []string{"apple.emlx", "blank.eml", "bom.eml", "gt-from.eml"} {
		raw := sharedtest.Case(t, "13-cli-first-line-"+name)
		if from, subject := Envelope(raw, 60); !HasHeader(raw) || from != "a@sender.example" || subject != "x" {
			t.Errorf("%s: from %q, subject %q", name, from, subject)
		}
		if bytes.Contains(begin(raw)[:5], []byte("\n")) {
			t.Errorf("%s: %q", name, raw[:20])
		}
	}
}
