package signature

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/dchest/siphash"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
	"github.com/bulkhead-mail/bulkhead/signature/link"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

// MaxLinks is how many links of a message have bulkhead/link signatures, two each.
const MaxLinks = 12

// A LinkUse says how a link stands in a message.
type LinkUse uint8

// The uses of links.
const (
	FollowedLink LinkUse = iota // the reader may follow it
	HiddenLink                  // the reader cannot see it
	LoadedLink                  // it is shown in the text, such as a picture, and not followed
)

// EachLink calls visit with the links of a message in their order, repeated ones
// included, until visit returns false. These are the links in mark-up and in text
// outside of it, also in attachments that are text or contain text, but not in a text
// that a later alternative with links replaces. Each link is followed by those that it
// redirects to. EachLink fails only when ctx ends, with an error that wraps that of ctx.
func EachLink(ctx context.Context, m *mail.Message, visit func(l link.Link, use LinkUse) bool) error {
	w := linkWalk{visit: visit, pace: pace.New(ctx)}
	replaced := make(map[int]int) // of an alternative: its last branch that has links
	for i := len(m.Parts) - 1; i >= 0 && !w.ended; i-- {
		p := &m.Parts[i]
		if !p.HTML || p.Alternative == 0 || replaced[p.Alternative] > 0 {
			continue
		}
		page, err := m.Page(ctx, i)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(page.Links, func(h mail.Href) bool { return !h.Hidden && !h.Loaded }) {
			replaced[p.Alternative] = p.Branch
		}
	}
	all, err := withInside(ctx, m)
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := w.message(ctx, m, replaced); err != nil {
			return err
		}
	}
	return pace.Ended(w.pace)
}

// message visits the links of a message. replaced holds for each alternative its last
// branch that has links.
func (w *linkWalk) message(ctx context.Context, m *mail.Message, replaced map[int]int) error {
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
		case p.HTML:
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

// page visits the links of a page, and those of its text that are not the text of one.
func (w *linkWalk) page(page *mail.Page) {
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
		link.Find(text[:n], func(url string) bool { return w.link(url, use) })
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

// linkSignatures returns the bulkhead/link signatures of m.
func linkSignatures(ctx context.Context, m *mail.Message, key [16]byte) ([]bulkhead.Signature, error) {
	choice := newLinkChoice(key)
	err := EachLink(ctx, m, func(l link.Link, use LinkUse) bool {
		if use != LoadedLink {
			choice.add(&l, use)
		}
		return true
	})
	return choice.signatures(), err
}

// A linkChoice chooses which links of a message have signatures. A sender who wants to hide
// the one link that matters adds others. So a thousand links to one domain count as one:
// each domain has one link before any has two. Links that the reader cannot see come after
// those that the reader can. For the rest a keyed hash decides, not the order in the message
// nor anything else that the sender can look up. A sender who adds n domains to hide one
// succeeds for 1 - 12/(n+1) of the mail and has to show all of them; if the first links
// counted, a fixed dozen would do.
type linkChoice struct {
	k0, k1  uint64
	domains []rankedName

	last  link.Link // that was added, of which only the query may be another the next time
	place string    // of it
}

// A rankedName is a name and its place in the order: the least is the first.
type rankedName struct {
	use    LinkUse
	hash   uint64
	name   string
	places []rankedName // of a domain
}

func newLinkChoice(key [16]byte) *linkChoice {
	sum := sha256.Sum256(append([]byte("bulkhead/link\x00"), key[:]...))
	return &linkChoice{k0: binary.BigEndian.Uint64(sum[:]), k1: binary.BigEndian.Uint64(sum[8:])}
}

func (c *linkChoice) add(l *link.Link, use LinkUse) {
	if d := c.insert(&c.domains, l.Domain, use); d != nil {
		c.insert(&d.places, c.placeOf(l), use)
	}
}

// placeOf is [link.Link.Place], which costs more than to look whether the link before had the
// same: only the parameter id of a query matters.
func (c *linkChoice) placeOf(l *link.Link) string {
	query := strings.IndexByte(l.Path, '?') + 1
	if query == 0 {
		query = len(l.Path)
	}
	if strings.Contains(l.Path[query:], "id=") {
		return l.Place()
	}
	if c.place == "" || c.last.Host != l.Host || c.last.Port != l.Port || c.last.Path != l.Path[:query] {
		c.last, c.place = link.Link{Host: l.Host, Port: l.Port, Path: l.Path[:query]}, l.Place()
	}
	return c.place
}

// insert puts a name into a list, if it is among its first [MaxLinks], and returns it there;
// otherwise nil.
func (c *linkChoice) insert(list *[]rankedName, name string, use LinkUse) *rankedName {
	var places []rankedName
	if i := slices.IndexFunc(*list, func(known rankedName) bool { return known.name == name }); i >= 0 {
		if (*list)[i].use <= use {
			return &(*list)[i]
		}
		places = (*list)[i].places
		*list = slices.Delete(*list, i, i+1)
	}
	r := rankedName{use: use, hash: siphash.Hash(c.k0, c.k1, scan.Bytes(name)), name: name, places: places}
	at, _ := slices.BinarySearchFunc(*list, r, func(a, b rankedName) int {
		return cmp.Or(cmp.Compare(a.use, b.use), cmp.Compare(a.hash, b.hash), cmp.Compare(a.name, b.name))
	})
	if at == MaxLinks {
		return nil
	}
	if len(*list) == MaxLinks {
		*list = (*list)[:MaxLinks-1]
	}
	*list = slices.Insert(*list, at, r)
	return &(*list)[at]
}

// signatures returns the signatures of the chosen links: one of each domain, then a second
// of each, and so on.
func (c *linkChoice) signatures() []bulkhead.Signature {
	var sigs []bulkhead.Signature
	links := 0
	for round := 0; round < MaxLinks && links < MaxLinks; round++ {
		for _, d := range c.domains {
			if round >= len(d.places) || links == MaxLinks {
				continue
			}
			links++
			if round == 0 {
				sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Link, d.name))
			}
			sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Link, d.places[round].name))
		}
	}
	return sigs
}
