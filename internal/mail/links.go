package mail

import (
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A LinkUse is how a link stands in a message.
type LinkUse uint8

// The uses of links.
const (
	FollowedLink LinkUse = iota // the reader may follow it
	NamedLink                   // it is a name in the text, such as example.com, that the reader may follow
	HiddenLink                  // the reader cannot see it
	LoadedLink                  // it is shown in the text, such as a picture, and not followed
)

// EachLink calls visit with the links of a message in their order, repeated ones
// included, until visit returns false. These are the links in the subject, in mark-up and in text
// outside of it, also in attachments that are text or contain text, but not in a text
// that a later alternative with links replaces. Each link is followed by those that it
// redirects to. EachLink fails only when ctx ends, with an error that wraps that of ctx.
func (m *Message) EachLink(ctx context.Context, visit func(l link.Link, use LinkUse) bool) error {
	w := linkWalk{visit: visit, pace: pace.New(ctx)}
	replaced := make(map[int]int) // of an alternative: its last branch that has links
	for i := len(m.Parts) - 1; i >= 0 && !w.ended; i-- {
		p := &m.Parts[i]
		if !p.isPage() || p.Alternative == 0 || replaced[p.Alternative] > 0 {
			continue
		}
		page, err := m.Page(ctx, i)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(page.Links, func(h Href) bool { return !h.Hidden && !h.Loaded }) {
			replaced[p.Alternative] = p.Branch
		}
	}
	all, err := m.WithInside(ctx)
	if err != nil {
		return err
	}
	w.text(scan.Bytes(m.Subject), FollowedLink)
	for _, m := range all {
		if err := w.message(ctx, m, replaced); err != nil {
			return err
		}
	}
	return pace.Ended(w.pace)
}

// message visits the links of a message. replaced holds for each alternative its last
// branch that has links.
func (w *linkWalk) message(ctx context.Context, m *Message, replaced map[int]int) error {
	for i := range m.Parts {
		p := &m.Parts[i]
		if !p.IsText() || w.ended {
			continue
		}
		page, err := m.Page(ctx, i)
		if err != nil {
			return err
		}
		switch {
		case p.isPage():
			w.page(&page)
			if p.Attachment {
				// The program that opens it runs its scripts.
				w.text(scan.Bytes(p.Text), HiddenLink)
			}
		case p.Alternative == 0 || p.Branch >= replaced[p.Alternative]:
			w.text(page.Text, FollowedLink)
		}
	}
	return nil
}

// A linkWalk visits links.
type linkWalk struct {
	visit func(link.Link, LinkUse) bool
	pace  *pace.Pace
	ended bool

	reader link.Reader
	known  [8]knownLink
}

// page visits the links of a page, and the links in its text outside of anchors.
func (w *linkWalk) page(page *Page) {
	for _, h := range page.Links {
		use := FollowedLink
		switch {
		case h.Loaded:
			use = LoadedLink
		case h.Hidden:
			use = HiddenLink
		}
		if !w.link(h.URL, use) {
			return
		}
	}
	at := 0
	for _, a := range page.Anchors {
		w.text(page.Text[at:a[0]], FollowedLink)
		at = int(a[1])
	}
	w.text(page.Text[at:], FollowedLink)
}

// text visits the links of plain text.
func (w *linkWalk) text(text []byte, use LinkUse) {
	for len(text) > 0 && !w.ended && !w.pace.Over(min(len(text), pace.Step)) {
		n := len(text)
		if n > pace.Step {
			// The text is cut at a blank. If there is none near, what lies across the
			// cut is longer than any link.
			n = max(pace.Step-link.MaxURL, lastBlank(text[:pace.Step])+1)
		}
		link.Find(text[:n], func(url string) bool {
			switch {
			case url[0] != '/':
				return w.link(url, use)
			case use == FollowedLink:
				return w.link(url, NamedLink)
			}
			return true // of a script
		})
		text = text[n:]
	}
}

// lastBlank returns the index of the last space or line end, or -1.
func lastBlank(text []byte) int {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == ' ' || text[i] == '\n' {
			return i
		}
	}
	return -1
}

// link visits a link and what it redirects to, and reports whether to go on.
func (w *linkWalk) link(url string, use LinkUse) bool {
	if w.pace.Over(len(url)) {
		w.ended = true
	}
	for _, l := range w.all(url) {
		w.ended = w.ended || !w.visit(l, use)
	}
	return !w.ended
}

// all is [link.Reader.All], which costs more than to look whether a link was seen lately.
func (w *linkWalk) all(url string) []link.Link {
	if url == "" {
		return nil
	}
	known := &w.known[(len(url)+int(url[len(url)-1])+int(url[len(url)/2]))%len(w.known)]
	if known.url != url {
		known.url, known.all = url, w.reader.All(url, known.all)
	}
	return known.all
}

// A knownLink is a link as it is written, and what it leads to.
type knownLink struct {
	url string
	all []link.Link
}
