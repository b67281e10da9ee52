package markup

import "strings"

// rawElement returns the name of the element that a start tag begins in lower case, if the
// content of such elements is text up to their end tag, else "".
func rawElement(name string) string {
	// Most elements are seen by their first letter to be others.
	const shortest = len("xmp")
	if len(name) < shortest || strings.IndexByte("stnipx", name[0]|0x20) < 0 {
		return ""
	}
	for _, raw := range [...]string{"script", "style", "title", "textarea", "noscript", "iframe", "noembed",
		"noframes", "plaintext", "xmp"} {
		if len(name) == len(raw) && name[0]|0x20 == raw[0] && strings.EqualFold(name, raw) {
			return raw
		}
	}
	return ""
}

// readRaw takes what is the text of such an element.
func (t *Tokens) readRaw() {
	t.references = t.raw == "textarea" || t.raw == "title"
	switch t.raw {
	case "plaintext":
		t.stop()
		return
	case "script":
		t.script()
	default:
		for at := t.start; ; {
			n := strings.Index(t.source[at:t.limit], "</")
			if n < 0 {
				t.stop()
				break
			}
			at += n + 2
			if ends, whole := t.endsRaw(at); ends {
				t.end = at - 2
				break
			} else if !whole {
				t.stop()
				break
			}
		}
	}
	t.raw = ""
}

// endsRaw reports whether the name of the element, followed by a byte that ends a name, begins at
// the index at; and whether the source is long enough to decide.
func (t *Tokens) endsRaw(at int) (ends, whole bool) {
	for i := range len(t.raw) {
		if at+i >= t.limit {
			return false, false
		}
		if t.source[at+i]|0x20 != t.raw[i] {
			return false, true
		}
	}
	if at += len(t.raw); at >= t.limit {
		return false, false
	}
	return classes[t.source[at]]&endsName != 0, true
}

// A scriptState is the position of the reader in a script: in plain data, in what looks like a comment,
// or in a script within that comment, which may end without ending the element.
type scriptState uint8

const (
	scriptData scriptState = iota
	scriptEscaped
	scriptEscapedDash
	scriptEscapedDashes
	scriptDoubled
	scriptDoubledDash
	scriptDoubledDashes
)

// scriptNext holds, for each state, the state after '-', '>' and any other byte but '<'.
var scriptNext = [...]struct{ dash, end, other scriptState }{
	scriptData:          {scriptData, scriptData, scriptData},
	scriptEscaped:       {scriptEscapedDash, scriptEscaped, scriptEscaped},
	scriptEscapedDash:   {scriptEscapedDashes, scriptEscaped, scriptEscaped},
	scriptEscapedDashes: {scriptEscapedDashes, scriptData, scriptEscaped},
	scriptDoubled:       {scriptDoubledDash, scriptDoubled, scriptDoubled},
	scriptDoubledDash:   {scriptDoubledDashes, scriptDoubled, scriptDoubled},
	scriptDoubledDashes: {scriptDoubledDashes, scriptData, scriptDoubled},
}

// script reads the content of a script, up to its end tag or the end of the source.
func (t *Tokens) script() {
	source := t.source[:t.limit]
	state := scriptData
	for at := t.start; at < len(source); {
		switch next := &scriptNext[state]; source[at] {
		case '-':
			state = next.dash
		case '>':
			state = next.end
		case '<':
			if at+1 == len(source) {
				t.stop()
				return
			}
			n, after := t.scriptTag(at+1, state)
			switch {
			case n == endOfScript:
				t.end = at
				return
			case n == endOfSource:
				t.stop()
				return
			}
			at, state = at+n, after
		default:
			state = next.other
			if state == scriptData {
				n := strings.IndexByte(source[at:], '<')
				if n < 0 {
					t.stop()
					return
				}
				at += n
				continue
			}
		}
		at++
	}
	t.stop()
}

// Results of scriptTag in place of a number of bytes.
const (
	endOfScript = -1 - iota
	endOfSource
)

// scriptTag reads what follows a '<' in a script. It returns the number of bytes read and the state after them.
func (t *Tokens) scriptTag(at int, state scriptState) (n int, after scriptState) {
	c := t.source[at]
	switch {
	case c == '/':
		ends, whole := t.endsRaw(at + 1)
		switch {
		case ends && state < scriptDoubled:
			return endOfScript, state
		case !whole:
			return endOfSource, state
		case ends:
			return 1 + len("script") + 1, scriptEscaped
		}
		return 1, scriptNext[state].other
	case state >= scriptDoubled:
		return 0, scriptDoubled
	case state == scriptData && c == '!':
		return t.scriptComment(at)
	case state == scriptData:
		return 0, scriptData
	case c|0x20 >= 'a' && c|0x20 <= 'z':
		ends, whole := t.endsRaw(at)
		switch {
		case !whole:
			return endOfSource, state
		case ends:
			return len("script") + 1, scriptDoubled
		}
		return 0, scriptEscaped
	}
	return 0, scriptData
}

// scriptComment reads the '!' at at, and the two dashes behind it if they are there.
func (t *Tokens) scriptComment(at int) (n int, after scriptState) {
	dashes := 0
	for dashes < 2 && at+1+dashes < t.limit && t.source[at+1+dashes] == '-' {
		dashes++
	}
	switch {
	case dashes == 2:
		return 3, scriptEscapedDashes
	case at+1+dashes == t.limit:
		return endOfSource, scriptData
	}
	return 1 + dashes, scriptData
}
