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

// parseReceived finds the HELO name after "from" and the address in brackets
// that follows it, before "by".
func parseReceived(value string) (r receivedBy) {
	fields := strings.Fields(value)
	if len(fields) < 2 || !strings.EqualFold(fields[0], "from") {
		return r
	}
	r.helo = strings.Trim(fields[1], "[]()")
	for rest := value; ; {
		_, after, ok := strings.Cut(rest, "[")
		if !ok {
			return r
		}
		text, tail, ok := strings.Cut(after, "]")
		if !ok || strings.Contains(rest[:len(rest)-len(after)], " by ") {
			return r
		}
		if len(text) > len("IPv6:") && strings.EqualFold(text[:len("IPv6:")], "IPv6:") {
			text = text[len("IPv6:"):]
		}
		if a, err := netip.ParseAddr(text); err == nil {
			r.addr = a.Unmap().WithZone("")
			return r
		}
		rest = tail
	}
}
