package dcc

import (
	"bytes"
	"net/netip"
	"strings"
)

// A receivedBy is the sending host as given in one Received header.
type receivedBy struct {
	addr netip.Addr // the zero Addr if there is none
	helo string
}

// receivedOf reads the Received headers of a message, the topmost first.
func receivedOf(message []byte) []receivedBy {
	const maxReceived = 64
	var all []receivedBy
	var field []byte
	finish := func() {
		if name, value, ok := bytes.Cut(field, []byte(":")); ok && len(all) < maxReceived &&
			strings.EqualFold(string(bytes.TrimSpace(name)), "received") {
			all = append(all, parseReceived(string(value)))
		}
		field = nil
	}
	for rest := message; len(rest) > 0 && len(all) < maxReceived; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		line := bytes.TrimRight(rest[:end], "\r\n")
		rest = rest[end:]
		if len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			field = append(field, line...)
			continue
		}
		finish()
		field = append(field, line...)
	}
	finish()
	return all
}

// parseReceived finds the HELO name after "from", and the address in brackets before "by". Clients choose their HELO
// name, which may be an address in brackets: one in a comment that is not a HELO name counts before it.
func parseReceived(value string) (r receivedBy) {
	fields := strings.Fields(value)
	if len(fields) < 2 || !strings.EqualFold(fields[0], "from") {
		return r
	}
	r.helo = strings.Trim(fields[1], "[]()")
	depth := 0 // of comments
	for rest := value; ; {
		before, after, ok := strings.Cut(rest, "[")
		text, tail, closed := strings.Cut(after, "]")
		if !ok || !closed || strings.Contains(before, " by ") {
			return r
		}
		rest = tail
		depth += strings.Count(before, "(") - strings.Count(before, ")")
		if len(text) > len("IPv6:") && strings.EqualFold(text[:len("IPv6:")], "IPv6:") {
			text = text[len("IPv6:"):]
		}
		a, err := netip.ParseAddr(text)
		if last := before[max(0, len(before)-len("helo=")):]; err != nil || strings.EqualFold(last, "helo=") ||
			strings.EqualFold(last, "helo ") {
			continue
		}
		if depth > 0 || !r.addr.IsValid() {
			r.addr = a.Unmap().WithZone("")
		}
		if depth > 0 {
			return r
		}
	}
}
