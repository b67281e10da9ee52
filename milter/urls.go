package milter

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
)

// maxURLs is how many different URLs of a message are looked up.
const maxURLs = 100

// urls returns the different URLs of a message, in order: its links, what they
// redirect to, and what its text loads. It ends with ctx.
func urls(ctx context.Context, m *mail.Message) []string {
	var found []string
	seen := make(map[string]bool)
	m.EachLink(ctx, func(l link.Link, _ mail.LinkUse) bool {
		if url := l.URL(); !seen[url] {
			seen[url] = true
			found = append(found, url)
		}
		return len(found) < maxURLs
	})
	return found
}
