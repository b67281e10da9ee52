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
	for _, raw := range [...]string{"script", "style", "title", "textarea", "noscript", "iframe", "noembed", "noframes", "plaintext", "xmp"} {
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

// endsRaw reports whether the name of the element, and what ends a name, stand at; and
// whether there is enough source to tell.
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

// script takes the content of a script: in what looks like a comment, a script within it
// may end.
func (t *Tokens) script() {
	const (
		data = iota
		escaped
		escapedDash
		escapedDashes
		doubled
		doubledDash
		doubledDashes
	)
	state := data
	source := t.source[:t.limit]
	for at := t.start; ; {
		if state == data {
			n := strings.IndexByte(source[min(at, len(source)):], '<')
			if n < 0 {
				break
			}
			at += n
		}
		if at >= len(source) {
			break
		}
		c := source[at]
		at++
		switch {
		case c == '-' && state != data:
			switch state {
			case escaped:
				state = escapedDash
			case escapedDash:
				state = escapedDashes
			case doubled:
				state = doubledDash
			case doubledDash:
				state = doubledDashes
			}
			continue
		case c == '>' && (state == escapedDashes || state == doubledDashes):
			state = data
			continue
		case c != '<':
			// What is not part of the end of a comment.
			if state >= doubled {
				state = doubled
			} else if state >= escaped {
				state = escaped
			}
			continue
		}
		if at >= len(source) {
			break
		}
		c = source[at]
		switch {
		case state >= doubled:
			state = doubled
			if c != '/' {
				continue
			}
			ends, whole := t.endsRaw(at + 1)
			if !whole {
				t.stop()
				return
			}
			if at++; ends {
				state = escaped
				at += len("script") + 1
			}
		case c == '/':
			ends, whole := t.endsRaw(at + 1)
			if ends {
				t.end = at - 1
				return
			}
			if !whole {
				t.stop()
				return
			}
			if at++; state != data {
				state = escaped
			}
		case state == data:
			if c == '!' {
				if at++; at >= len(source) {
					t.stop()
					return
				}
				if source[at] == '-' {
					if at++; at >= len(source) {
						t.stop()
						return
					}
					if source[at] == '-' {
						at++
						state = escapedDashes
					}
				}
			}
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			ends, whole := t.endsRaw(at)
			if !whole {
				t.stop()
				return
			}
			state = escaped
			if ends {
				at += len("script") + 1
				state = doubled
			}
		default:
			state = data
		}
	}
	t.stop()
}
