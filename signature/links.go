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
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// maxLinks is how many links of a message have bulkhead/link signatures, two each.
const maxLinks = 12

// linkSignatures returns the bulkhead/link signatures of m. It sets abroad if a link leads to another domain than
// the domain of the author.
func linkSignatures(ctx context.Context, m *mail.Message, key [16]byte, abroad *bool) ([]bulkhead.Signature, error) {
	choice := newLinkChoice(key)
	_, home, _ := strings.Cut(m.From, "@")
	home = cmp.Or(registrable(home), home)
	err := m.EachLink(ctx, func(l link.Link, use mail.LinkUse) bool {
		// A mail server's report has the names of other servers.
		if use == mail.LoadedLink || use == mail.NamedLink && (m.Daemon || m.Returned) {
			return true
		}
		choice.add(&l, use)
		*abroad = *abroad || use != mail.NamedLink && l.Domain != home
		return true
	})
	return choice.signatures(), err
}

// registrable is [link.Registrable], "" without one.
func registrable(name string) string {
	domain, _ := link.Registrable(strings.ToLower(name))
	return domain
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
	use    mail.LinkUse
	hash   uint64
	name   string
	places []rankedName // of a domain
}

func newLinkChoice(key [16]byte) *linkChoice {
	sum := sha256.Sum256(append([]byte("bulkhead/link\x00"), key[:]...))
	return &linkChoice{k0: binary.BigEndian.Uint64(sum[:]), k1: binary.BigEndian.Uint64(sum[8:])}
}

func (c *linkChoice) add(l *link.Link, use mail.LinkUse) {
	// A name alone is no place: "platform.example/" would not be as well known as its domain.
	if d := c.insert(&c.domains, l.Domain, use); d != nil && use != mail.NamedLink {
		c.insert(&d.places, c.placeOf(l), use)
	}
}

// placeOf is [link.Link.Place], which costs more than to look whether the link before had the
// same: only the parameters id and phone of a query matter.
func (c *linkChoice) placeOf(l *link.Link) string {
	query := strings.IndexByte(l.Path, '?') + 1
	if query == 0 {
		query = len(l.Path)
	}
	if strings.Contains(l.Path[query:], "id=") || strings.Contains(l.Path[query:], "phone=") {
		return l.Place()
	}
	if c.place == "" || c.last.Host != l.Host || c.last.Path != l.Path[:query] {
		c.last, c.place = link.Link{Host: l.Host, Path: l.Path[:query]}, l.Place()
	}
	return c.place
}

// insert puts a name into a list, if it is among its first [maxLinks], and returns it there;
// otherwise nil.
func (c *linkChoice) insert(list *[]rankedName, name string, use mail.LinkUse) *rankedName {
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
	if at == maxLinks {
		return nil
	}
	if len(*list) == maxLinks {
		*list = (*list)[:maxLinks-1]
	}
	*list = slices.Insert(*list, at, r)
	return &(*list)[at]
}

// signatures returns the signatures of the chosen links: one of each domain, then a second
// of each, and so on.
func (c *linkChoice) signatures() []bulkhead.Signature {
	var sigs []bulkhead.Signature
	links := 0
	for round := 0; round < maxLinks && links < maxLinks; round++ {
		for _, d := range c.domains {
			if round > 0 && round >= len(d.places) || links == maxLinks {
				continue
			}
			links++
			if round == 0 {
				sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Link, d.name))
			}
			if round < len(d.places) {
				sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Link, d.places[round].name))
			}
		}
	}
	return sigs
}
