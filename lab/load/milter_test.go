package load

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// TestPackets checks that the packets of a message hold its fields and its body.
func TestPackets(t *testing.T) {
	body := "one\r\n.\r\n" + strings.Repeat("0123456789abcdef", 10_000)
	raw := "From ann@x Mon Jan  1 00:00:00 2026\nSubject: a\n  long\n\tone\nX-Empty:\nnothing\nTo: bob: ann\n\n" +
		strings.ReplaceAll(body, "\r\n", "\n")
	var got, sent []string
	var text bytes.Buffer
	for rest := packetsOf(nil, []byte(raw)); len(rest) > 0; {
		n := int(binary.BigEndian.Uint32(rest))
		code, data := rest[4], string(rest[5:4+n])
		rest = rest[4+n:]
		sent = append(sent, string(code))
		switch code {
		case 'L':
			got = append(got, data)
		case 'B':
			if len(data) > 65_535 {
				t.Errorf("a part of the body of %d bytes", len(data))
			}
			text.WriteString(data)
		}
	}
	if order := strings.Join(sent, ""); order != "RLLLLNBBBE" {
		t.Errorf("packets %s", order)
	}
	want := []string{"From ann@x Mon Jan  1 00\x0000:00 2026\x00", "Subject\x00a\n  long\n\tone\x00", "X-Empty\x00\x00",
		"To\x00bob: ann\x00"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("fields %q, want %q", got, want)
	}
	if text.String() != body {
		t.Errorf("body of %d bytes, want %d", text.Len(), len(body))
	}
}

// TestProse checks that texts differ, have the size, and have most of their words in common.
func TestProse(t *testing.T) {
	c := milterClient{body: make([]byte, 20_000)}
	seen, known, all := make(map[string]bool), 0, 0
	for i := range 20 {
		c.prose()
		if len(c.body) > 20_000 || len(c.body) < 19_900 {
			t.Errorf("text of %d bytes, want 20,000", len(c.body))
		}
		for _, w := range strings.Fields(string(c.body)) {
			if i > 0 {
				all++
				if seen[w] {
					known++
				}
			}
		}
		for _, w := range strings.Fields(string(c.body)) {
			seen[w] = true
		}
	}
	if share := float64(known) / float64(all); share < 0.8 || share > 0.97 {
		t.Errorf("%.2f of the words were in texts before, want 0.8 to 0.97", share)
	}
}
