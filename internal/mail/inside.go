package mail

import (
	"bytes"
	"context"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/bulkhead-mail/bulkhead/internal/mail/document"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// Limits on what is opened in the attachments of a message. They are enough for most archives and
// documents, which are usually compressed, but a few bytes must not cost as much as many.
const (
	minInside    = 2 << 10 // bytes, for any message
	insideAByte  = 3       // and for each byte of it
	maxInside    = 4 << 20
	maxInsideAll = 32 // parts
)

// Inside returns the contents of the attachments of m as the parts of a message that has nothing
// else: files of archives, texts of documents as text/plain, and pages, also pages whose type is
// not a text type, and pages that scripts of attached pages would write. Files within a text that
// uuencode has encoded are attachments. All parts are attachments.
// The message has no parts if there are no contents. The caller must not change the result. It fails
// only when ctx ends, with an error that wraps the error of ctx.
func (m *Message) Inside(ctx context.Context) (*Message, error) {
	frames, err := m.frames(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inside != nil {
		return m.inside, nil
	}
	in := &Message{Raw: m.Raw, To: m.To}
	budget := document.Budget{Bytes: min(maxInside, rounded(minInside+insideAByte*len(m.Raw))), Items: maxInsideAll}
	p := pace.New(ctx)
	for _, frame := range frames {
		for _, item := range document.Frame(ctx, "", frame, &budget) {
			in.take(item, p)
		}
	}
	for i := range m.Parts {
		part := &m.Parts[i]
		switch {
		case part.isAttachedPage():
			for _, item := range document.Scripted(ctx, part.Name, part.Text, &budget) {
				in.take(item, p)
			}
			continue
		case part.holdsCode():
			in.encoded(ctx, part, &budget, p)
			continue
		case part.IsText() || len(part.Data) == 0:
			continue
		}
		packed := bytes.HasPrefix(part.Data, []byte("\x1f\x8b"))
		if document.IsPage(part.Name) || part.Type == "image/svg+xml" && !packed || part.Type == "application/xhtml+xml" {
			in.take(document.Item{Name: part.Name, Kind: document.Page, Data: part.Data}, p)
			continue
		}
		if document.IsText(part.Name, part.Data) {
			in.take(document.Item{Name: part.Name, Kind: document.Text, Data: part.Data}, p)
			continue
		}
		for _, item := range document.Open(ctx, part.Name, part.Data, &budget) {
			if item.Kind == document.File && holdingOf("application/octet-stream", item.Name) == holdsMessage &&
				beginsMessage(item.Data, true) {
				in.takeMessage(ctx, item.Data)
			}
			in.take(item, p)
		}
	}
	for i := range len(in.Parts) {
		if page := &in.Parts[i]; page.HTML {
			for _, item := range document.Scripted(ctx, page.Name, page.Text, &budget) {
				in.take(item, p)
			}
		}
	}
	if p.Over(pace.Step) {
		return nil, pace.Ended(p)
	}
	m.inside = in
	return in, nil
}

// WithInside returns m and, if its attachments contain anything, a message with their contents.
func (m *Message) WithInside(ctx context.Context) ([]*Message, error) {
	frames, err := m.frames(ctx)
	if err != nil {
		return nil, err
	}
	if len(frames) == 0 && !slices.ContainsFunc(m.Parts, func(p Part) bool {
		return len(p.Data) > 0 || p.isAttachedPage() || p.holdsCode()
	}) {
		return []*Message{m}, nil
	}
	in, err := m.Inside(ctx)
	if err != nil {
		return nil, err
	}
	return []*Message{m, in}, nil
}

// frames returns the pages and pictures that stand in the mark-up of pages.
func (m *Message) frames(ctx context.Context) (all []string, err error) {
	for i := range m.Parts {
		if p := &m.Parts[i]; p.isPage() {
			page, err := m.Page(ctx, i)
			if err != nil {
				return nil, err
			}
			all = append(all, page.Frames...)
		}
	}
	return all, nil
}

// isAttachedPage reports whether a browser opens the part, and runs its scripts.
func (p *Part) isAttachedPage() bool { return p.isPage() && (p.Attachment || document.IsPage(p.Name)) }

// isPage reports whether the part is a page, by its type or by the name of an attached text.
func (p *Part) isPage() bool {
	return p.HTML || p.Type == "text/plain" && p.Attachment && document.IsPage(p.Name)
}

// rounded returns n with all but its two highest bits cleared. Copies of a message differ by a
// few bytes in their headers. With a rounded limit, nearly always the same amount of each copy is
// read.
func rounded(n int) int {
	shift := max(0, bits.Len(uint(n))-2)
	return n >> shift << shift
}

// asString returns b as a string without a copy. The caller must not change b any more.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// takeMessage adds the parts of a message in an archive, but not what its attachments contain.
func (m *Message) takeMessage(ctx context.Context, raw []byte) {
	inner, err := Read(ctx, raw)
	if err != nil {
		return
	}
	for _, p := range inner.Parts {
		p.Attachment, p.Alternative, p.Branch = true, 0, 0
		m.Parts = append(m.Parts, p)
	}
}

// take adds the contents of an attachment.
func (m *Message) take(item document.Item, p *pace.Pace) {
	part := Part{Type: "application/octet-stream", Name: item.Name, Attachment: true}
	switch item.Kind {
	case document.File:
		part.Data = item.Data
	case document.Text:
		part.Type, part.Text = "text/plain", asString(validUTF8(item.Data, len(item.Data)))
	case document.Page:
		part.Type, part.HTML = "text/html", true
		part.Text = asString(asUTF8(item.Data, "utf-8", 2*len(item.Data), p))
	}
	m.Parts = append(m.Parts, part)
}
