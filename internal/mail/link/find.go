package link

import (
	"bytes"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Find calls found with the links that mail programs recognise in plain text, and with links that
// are disguised from filters: text that begins with http://, https:// or www., also after other
// letters; hxxp for http; names with a dot in brackets or spelt out in brackets, as in
// example[.]com and example(dot)com; and names below a domain that there is, as example.com/offer.
// Such a name without a path is "//example.com": only some mail programs make it a link. Find
// ends when found returns false. Its time is linear in text.
func Find(text []byte, found func(url string) bool) {
	next := [len(marks)]int{} // of each mark, the first at or behind at
	for i := range next {
		next[i] = -1
	}
	for at := 0; ; {
		mark := len(text)
		for i := range next {
			if next[i] < at {
				if next[i] = bytes.IndexByte(text[at:], marks[i]); next[i] < 0 {
					next[i] = len(text) - at
				}
				next[i] += at
			}
			mark = min(mark, next[i])
		}
		if mark == len(text) {
			return
		}
		start, end := mark, mark+1
		for start > at && classes[text[start-1]] != breaking {
			start--
		}
		for end < len(text) && classes[text[end]] != breaking {
			end++
		}
		// A word whose first mark is its end ends a sentence, or announces one.
		if end-start >= len("www.a.b") && mark < end-1 && !inWord(text[start:end], found) {
			return
		}
		at = end
	}
}

// A byteClass is the meaning of a byte in the search for links.
type byteClass uint8

const (
	plainByte byteClass = iota
	breaking            // no link goes on beyond it
)

// marks are the bytes of which every word that holds a link has one.
const marks = ".:(["

var classes = func() (c [256]byteClass) {
	for i := range ' ' + 1 {
		c[i] = breaking
	}
	for _, b := range []byte("\x7f<>\"") {
		c[b] = breaking
	}
	return c
}()

// inWord finds the links in text without white space, and reports whether to go on.
// Of long text it looks at overlapping pieces.
func inWord(word []byte, found func(string) bool) bool {
	for ; len(word) > 2*MaxURL; word = word[MaxURL:] {
		if !inPiece(scan.String(word[:2*MaxURL]), MaxURL, found) {
			return false
		}
	}
	return inPiece(scan.String(word), len(word), found)
}

// inPiece finds the links that begin before limit, of which it keeps no text. One within another ends it: it
// is found itself.
func inPiece(text string, limit int, found func(string) bool) bool {
	fang := -1
	if strings.ContainsAny(text, "[({") && mayHaveFang(text) {
		plain := fangs.Replace(text)
		fang = differ(text, plain)
		text = plain
	}
	at, name, scheme := nextLink(text, 0)
	if at < 0 && fang >= 0 {
		at, name, scheme = 0, nameBefore(text, fang), "http://"
		if name == fang {
			return true
		}
	}
	if at < 0 && fang < 0 {
		return bare(text, found)
	}
	for at >= 0 && at < limit {
		next, nextName, nextScheme := nextLink(text, name+1)
		url := text[name:]
		if next >= 0 {
			url = text[name:next]
		}
		if !found(scheme + strings.TrimRight(url, ".,;:!?)]}'*_|")) {
			return false
		}
		at, name, scheme = next, nextName, nextScheme
	}
	return true
}

// bare finds a name, perhaps with a port and a path, that is a word between signs, and reports whether to go on.
func bare(word string, found func(string) bool) bool {
	word = strings.TrimRight(strings.TrimLeft(word, "([{'*_|"), ".,;:!?)]}'*_|")
	end := 0
	for end < min(len(word), maxHost+1) && nameByte(word[end]) {
		end++
	}
	name, rest := word[:end], word[end:]
	if end < len("a.b") || end > maxHost || !strings.Contains(name[1:], ".") || rest != "" && rest[0] != '/' &&
		rest[0] != ':' || !registered(name) {
		return true
	}
	switch _, path, _ := strings.Cut(rest, "/"); {
	case path != "":
		return found("http://" + word)
	case maybeFile(name):
		return true
	}
	return found("//" + name)
}

// maybeFile reports whether a name without a path may be the name of a file or a part of a program, or two sentences
// without a blank between them.
func maybeFile(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	return strings.Contains(extensions, " "+strings.ToLower(last)+" ") || strings.ToLower(last) != last &&
		strings.ToUpper(name) != name
}

// extensions are the domains at the top that also end names of files, or of parts of programs.
const extensions = " ac am app auto bb bz cc cf data gz in inc java la map md ml mm mo mov name" +
	" pl pm prof ps pub py rs sh so sub tf vi work zip "

// differ returns where the texts first differ, -1 if the one begins the other.
func differ(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// mayHaveFang reports whether text may contain a substitute that fangs replaces.
func mayHaveFang(text string) bool {
	for i := range len(text) - 1 {
		switch c := text[i+1]; text[i] {
		case '[', '(', '{':
			if c == '.' || c|0x20 == 'd' || c == ':' || c == '/' {
				return true
			}
		case '.':
			if c == ']' {
				return true
			}
		}
	}
	return false
}

// fangs replaces substitutes for dots, colons and slashes by the characters they stand for.
var fangs = strings.NewReplacer(
	"[.]", ".", "(.)", ".", "{.}", ".", "[dot]", ".", "(dot)", ".", "{dot}", ".", "[DOT]", ".", "(DOT)", ".", "{DOT}", ".",
	"[:]", ":", "[://]", "://", "[/]", "/", "[.", ".", ".]", ".")

// nextLink returns where the next link begins in text, at or behind from, where its
// host begins, and its scheme; -1 if there is none.
func nextLink(text string, from int) (at, name int, scheme string) {
	for i := from; i+len("www.") < len(text); i++ {
		switch c := text[i] | 0x20; {
		case c == 'h':
			for _, http := range [...]string{"http", "hxxp", "h**p", "htxp"} {
				if !strings.EqualFold(text[i:i+4], http) {
					continue
				}
				rest := text[i+4:]
				if strings.HasPrefix(rest, "://") {
					return i, i + 7, "http://"
				}
				if rest[0]|0x20 == 's' && strings.HasPrefix(rest[1:], "://") {
					return i, i + 8, "https://"
				}
			}
		case c == 'w' && strings.EqualFold(text[i:i+4], "www.") && (i == 0 || startsName(text[i-1])):
			return i, i, "http://"
		}
	}
	return -1, 0, ""
}

// startsName reports whether a name may begin behind c.
func startsName(c byte) bool { return !nameByte(c) && c != '@' && c != '/' && c != '\\' && c != '=' }

func nameByte(c byte) bool {
	return scan.IsLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c >= 0x80
}

// nameBefore returns where the name that ends at end begins, which is end if there is none or if
// it belongs to a mail address.
func nameBefore(text string, end int) int {
	at := end
	for at > 0 && nameByte(text[at-1]) {
		at--
	}
	for _, mark := range [...]string{"@", "(at)", "[at]"} {
		if strings.HasSuffix(text[:at], mark) {
			return end
		}
	}
	return at
}
