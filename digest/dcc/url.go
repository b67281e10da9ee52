package dcc

// A urlMachine recognises URLs in a stream of bytes, as the fuzzy sums of DCC do. It is fed "h",
// "=" and, while it is busy, every byte; it notifies its owner which bytes to leave out, and when
// a host begins, restarts, is followed by a dot, and ends. Character references are decoded for
// its own view.
//
// Source: docs/specs/dcc.md#url-machine.
type urlMachine struct {
	on func(event urlEvent, c byte) // c is the byte of an eventHostByte

	state   urlState
	quote   byte // which opened the URL, 0 for none
	at      bool // a "@" was seen in this host
	dot     bool // a dot waits for the next byte of the host
	utf8    bool // the label holds bytes above 0xBF
	skipped int
	ref     []byte // a character reference, "&" included; empty outside one
}

type urlEvent uint8

const (
	eventHostStart   urlEvent = iota // the second "/" was seen
	eventHostByte                    // a byte of the host, letters in lower case
	eventHostDot                     // a dot, reported just before the byte that follows it
	eventHostRestart                 // "@": what came so far was user data
	eventHostEnd
)

type urlState uint8

const (
	urlIdle   urlState = iota
	urlEquals          // after "="
	urlQuote           // after ="
	urlH               // after "h", or after =' by a quirk
	urlHT
	urlHTT
	urlHTTP
	urlHTTPS
	urlColon
	urlSlash
	urlHost
	urlPort // port or user data
	urlSkip
)

const maxSkip = 2000 // bytes of a path that are left out

// wants reports whether the machine must be fed c.
func (u *urlMachine) wants(c byte) bool { return u.state != urlIdle || c == 'h' || c == '=' }

func (u *urlMachine) reset() { u.state, u.ref = urlIdle, u.ref[:0] }

// feed takes one byte, letters in lower case, and reports whether its owner
// leaves the byte out.
func (u *urlMachine) feed(c byte) (skip bool) {
	if len(u.ref) == 0 {
		if c == '&' && u.state != urlIdle {
			// The bytes of a reference stay, those in a path too.
			u.ref = append(u.ref, c)
			return false
		}
		return u.step(c)
	}
	if isRefByte(c, len(u.ref)) {
		if len(u.ref) <= maxRef { // a longer name is unknown, whatever follows
			u.ref = append(u.ref, c)
		}
		return false
	}
	was := u.dropping()
	v := decodeRef(u.ref[1:])
	u.ref = u.ref[:0]
	u.step(v)
	if c == ';' || !u.wants(c) {
		return was
	}
	return u.feed(c)
}

func (u *urlMachine) dropping() bool { return u.state == urlSkip || u.state == urlPort }

// urlNext gives, for a state before the host, the byte that leads on and the
// state that follows.
var urlNext = [...]struct {
	want byte
	next urlState
}{
	urlQuote: {'h', urlH}, urlH: {'t', urlHT}, urlHT: {'t', urlHTT}, urlHTT: {'p', urlHTTP},
	urlHTTP: {':', urlColon}, urlHTTPS: {':', urlColon}, urlColon: {'/', urlSlash}, urlSlash: {'/', urlHost},
}

func (u *urlMachine) step(c byte) (skip bool) {
	switch u.state {
	case urlIdle:
		u.quote = 0
		switch c {
		case 'h':
			u.state = urlH
		case '=':
			u.state = urlEquals
		}
	case urlEquals:
		switch c {
		case 'h':
			u.state = urlH
		case '"':
			u.quote, u.state = c, urlQuote
		case '\'':
			// The clients in use look for "t" here, so that a URL in single
			// quotes is none to them.
			u.quote, u.state = c, urlH
		default:
			u.state = urlIdle
		}
	case urlHost, urlPort:
		return u.host(c)
	case urlSkip:
		return u.skip(c)
	case urlHTTP:
		if c == 's' {
			u.state = urlHTTPS
			return false
		}
		fallthrough
	default:
		if c != urlNext[u.state].want {
			u.state = urlIdle
			return false
		}
		if u.state = urlNext[u.state].next; u.state == urlHost {
			u.at, u.dot, u.utf8 = false, false, false
			u.on(eventHostStart, 0)
		}
	}
	return false
}

func (u *urlMachine) host(c byte) (skip bool) {
	switch {
	case c == '@' && !u.at:
		u.at, u.dot, u.state = true, false, urlHost
		u.on(eventHostRestart, 0)
		return true
	case c == '/' || c == '\\':
		u.end(urlSkip)
		return true
	case c == '"' || c == '\'':
		u.end(u.skipIf(u.quote != 0 && u.quote != c))
		return false
	case c == '<' || c == '>' || c <= ' ' || c == 0xA0 && !u.utf8:
		u.end(u.skipIf(u.quote != 0))
		return false
	case u.state == urlPort:
		return true
	case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c >= 0xC0 || c >= 0x80 && u.utf8:
		if u.dot {
			u.dot, u.utf8 = false, false
			u.on(eventHostDot, 0)
		}
		u.utf8 = u.utf8 || c >= 0xC0
		u.on(eventHostByte, c)
		return false
	case c == '.':
		u.dot = true
		return false
	}
	switch c {
	case ':', ';', '?', '&', '=', '$', '+', '!', '*', '(', ')', ',':
		u.state = urlPort
		return true
	}
	u.end(u.skipIf(u.quote != 0))
	return false
}

func (u *urlMachine) skipIf(quoted bool) urlState {
	if quoted {
		return urlSkip
	}
	return urlIdle
}

func (u *urlMachine) end(next urlState) {
	u.on(eventHostEnd, 0)
	u.state, u.skipped = next, 0
}

func (u *urlMachine) skip(c byte) (skip bool) {
	u.skipped++
	switch {
	case c == '\n', c == ' ', c == '\t', c == '\r', c == 0xA0, u.skipped >= maxSkip:
		u.state = urlIdle
	case u.quote != 0 && c == u.quote, u.quote == 0 && (c == '>' || c == '"' || c == '\''):
		u.state = urlIdle
	}
	return true // the byte that ends the path, a newline too
}
