package milter

import (
	"context"
	"strings"

	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

// The limits of what is taken from a body.
const (
	maxURLs    = 100  // different ones of a message
	maxURLSize = 2048 // bytes
)

// urls returns the different URLs in the text parts of a message, in order, as
// they are written, with the entities of HTML for & and = resolved. It ends with
// ctx.
func urls(ctx context.Context, m *mail.Message) []string {
	var found []string
	seen := make(map[string]bool)
	for i := range m.Parts {
		p := &m.Parts[i]
		if !p.IsText() {
			continue
		}
		for rest := p.Text; len(found) < maxURLs && ctx.Err() == nil; {
			var url string
			var ok bool
			if url, rest, ok = nextURL(rest); !ok {
				break
			}
			if p.HTML {
				url = entities.Replace(url)
			}
			if !seen[url] {
				seen[url] = true
				found = append(found, url)
			}
		}
	}
	return found
}

var entities = strings.NewReplacer("&amp;", "&", "&#38;", "&", "&#x26;", "&", "&#61;", "=")

// nextURL returns the first URL of text and what follows it.
func nextURL(text string) (url, rest string, ok bool) {
	for from := 0; ; {
		i := strings.Index(text[from:], "://")
		if i < 0 {
			return "", "", false
		}
		at := from + i
		from = at + 3
		start := at
		for start > 0 && at-start < 5 && letter(text[start-1]) {
			start--
		}
		scheme := strings.ToLower(text[start:at])
		// Words may run into the scheme: "seehttp://".
		if !strings.HasSuffix(scheme, "http") && !strings.HasSuffix(scheme, "https") {
			continue
		}
		end := from
		for end < len(text) && end-from < maxURLSize && urlByte(text[end]) {
			end++
		}
		url := strings.TrimRight(text[from:end], ".,;:!?)]}'")
		if url != "" {
			return "http://" + url, text[end:], true
		}
	}
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// urlByte reports whether c may stand in a URL as it is found in mail; bytes
// above ASCII may, in host names.
func urlByte(c byte) bool {
	return c > ' ' && c != 0x7f && !strings.ContainsRune("\"<>\\^`{|}", rune(c))
}
