package mail

import (
	"context"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/mail/document"
	"github.com/bulkhead-mail/bulkhead/internal/mail/seen"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// MaxVisible bounds the visible text of a page, in bytes.
const MaxVisible = seen.MaxVisible

// A Page is what a reader sees of a text part, and where its links lead.
type Page = seen.Page

// A Href is a link of a page.
type Href = seen.Href

// maxKept is the maximum size, in bytes, of visible text made from HTML that a message keeps. The
// text of further parts is made anew on each call.
const maxKept = 1 << 20

// Visible returns the text of a text part, by its index in Parts, as its reader sees it. Plain text
// is returned whole, but for texts that uuencode has encoded. HTML is cut to [MaxVisible] and
// becomes lines without mark-up, comments, scripts and hidden elements; lines below a blockquote
// begin with ">", as in plain text. The caller must not change the result. Visible fails only when
// ctx ends, with an error that wraps the error of ctx.
func (m *Message) Visible(ctx context.Context, part int) ([]byte, error) {
	page, err := m.Page(ctx, part)
	return page.Text, err
}

// Page returns a text part, by its index in Parts, as its reader sees it. For a part that is not
// HTML it returns only the text. The caller must not change the result. Page fails only when ctx
// ends, with an error that wraps the error of ctx.
func (m *Message) Page(ctx context.Context, part int) (Page, error) {
	p := &m.Parts[part]
	switch {
	case p.Type == "text/calendar", p.Type == "text/x-vcalendar":
		text, err := unmarked(ctx, document.Calendar(p.Text))
		return Page{Text: text}, err
	case p.IsText() && document.IsRTF(p.Text):
		return Page{Text: document.RTF(ctx, p.Text)}, pace.Ended(pace.New(ctx))
	case !p.isPage():
		text, err := p.plain(ctx)
		return Page{Text: text}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pages == nil {
		m.pages = make([]*Page, len(m.Parts))
	}
	page := m.pages[part]
	if page != nil && page.Text != nil {
		return *page, nil
	}
	work := pace.New(ctx)
	read, left := seen.Read(work, p.Text, seen.MaxLinks-m.hrefs, page == nil)
	if err := pace.Ended(work); err != nil {
		return Page{}, err
	}
	if page == nil {
		page = &Page{Links: read.Links, Anchors: read.Anchors, Markup: read.Markup, Alt: read.Alt,
			Frames: read.Frames}
		m.pages[part] = page
		m.hrefs = seen.MaxLinks - left
	}
	whole := *page
	whole.Text = read.Text
	if m.visibles += len(whole.Text); m.visibles <= maxKept {
		*page = whole
	}
	return whole, nil
}

// unmarked returns the text of a calendar entry as its reader sees it. Calendars show mark-up as a page. The links of
// the page follow, a line each.
func unmarked(ctx context.Context, text []byte) ([]byte, error) {
	source := scan.String(text)
	if !strings.Contains(source, "</") && !strings.Contains(source, "<br") {
		return text, nil
	}
	work := pace.New(ctx)
	page, _ := seen.Read(work, strings.ReplaceAll(source, "\n", "<br>\n"), seen.MaxLinks, true)
	for _, l := range page.Links {
		page.Text = append(append(page.Text, '\n'), l.URL...)
	}
	return page.Text, pace.Ended(work)
}

// plain returns a plain text as its reader sees it.
func (p *Part) plain(ctx context.Context) ([]byte, error) {
	text := scan.Bytes(p.Text)
	if p.Type == "text/enriched" || p.Type == "text/richtext" {
		text = unenriched(p.Text)
	}
	if p.holdsCode() {
		work := pace.New(ctx)
		text = withoutCode(text, work, func(string, []byte) bool { return true })
		if err := pace.Ended(work); err != nil {
			return nil, err
		}
	}
	if p.flowed {
		text = unflowed(scan.String(text))
	}
	return text, nil
}

// unflowed returns a text whose lines flow, as it is displayed: a space at the end of a line goes on with the next
// line, and counts for nothing.
//
// Source: RFC 3676, with DelSp=yes.
func unflowed(text string) []byte {
	out := make([]byte, 0, len(text))
	depth, flows := 0, false
	for line := range strings.Lines(text) {
		shown := strings.TrimRight(line, "\r\n")
		ending, content := line[len(shown):], strings.TrimLeft(shown, ">")
		signature, quotes := content == "-- ", len(shown)-len(content)
		switch {
		case flows && quotes == depth && !signature:
			shown = strings.TrimPrefix(content, " ")
		case flows:
			out = append(out, '\n')
		}
		depth = quotes
		if flows = strings.HasSuffix(shown, " ") && !signature; flows {
			shown, ending = shown[:len(shown)-1], ""
		}
		out = append(append(out, shown...), ending...)
	}
	return out
}

// unenriched returns the text of a message whose mark-up is commands between angle brackets, without them. Parameters
// of commands and comments are not shown, and two opening brackets are one.
//
// Source: RFC 1896; RFC 1341, 7.1.3 on text/richtext.
func unenriched(text string) []byte {
	out := make([]byte, 0, len(text))
	hidden := 0
	for text != "" {
		shown, rest, marked := strings.Cut(text, "<")
		if hidden == 0 {
			out = append(out, shown...)
		}
		text = rest
		if after, ok := strings.CutPrefix(rest, "<"); ok || !marked {
			if text = after; ok && hidden == 0 {
				out = append(out, '<')
			}
			continue
		}
		name, after, closed := strings.Cut(rest, ">")
		if !closed {
			break
		}
		text = after
		switch strings.ToLower(name) {
		case "param", "comment":
			hidden++
		case "/param", "/comment":
			hidden = max(0, hidden-1)
		case "nl", "np", "/paragraph":
			out = append(out, '\n')
		case "lt":
			out = append(out, '<')
		}
	}
	return out
}
