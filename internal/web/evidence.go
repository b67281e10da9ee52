package web

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/web/chart"
)

// A facet names a kind of signatures in words.
type facet struct {
	name    string
	schemes []bulkhead.Scheme
}

// facetsOf holds the kinds of signatures that decide a verdict.
var facetsOf = []facet{
	{"The text, letter for letter", []bulkhead.Scheme{bulkhead.Exact, bulkhead.PyzorDigest, bulkhead.RazorE4,
		bulkhead.DCCBody, bulkhead.RspamdText}},
	{"Changed copies of the text", []bulkhead.Scheme{bulkhead.Near, bulkhead.DCCFuz1, bulkhead.DCCFuz2,
		bulkhead.RspamdShingle}},
	{"Parts of the text", []bulkhead.Scheme{bulkhead.Part, bulkhead.Sketch}},
	{"Links", []bulkhead.Scheme{bulkhead.Link, bulkhead.RazorE8}},
	{"Sender and network", []bulkhead.Scheme{bulkhead.Sender, bulkhead.Network, bulkhead.Claim, bulkhead.DCCFrom,
		bulkhead.DCCEnvFrom, bulkhead.DCCIP}},
	{"Contacts", []bulkhead.Scheme{bulkhead.Contact}},
	{"Attachments and pictures", []bulkhead.Scheme{bulkhead.Attachment, bulkhead.Image}},
	{"Mark-up", []bulkhead.Scheme{bulkhead.Markup}},
}

// A partKnown is what is known of one part of a message: the most of any of its signatures.
type partKnown struct {
	name                      string
	signatures                int
	listed, revoked           int
	seen, spamVotes, hamVotes uint32
	worst                     float64 // chance of a filter error, of signatures that are known
}

// parts returns what is known of each part of a message that has signatures.
func parts(d *client.Verdict) (all []partKnown) {
	for _, f := range facetsOf {
		p := partKnown{name: f.name}
		for i := range d.Findings {
			one := &d.Findings[i]
			if !slices.Contains(f.schemes, one.Signature.Scheme()) {
				continue
			}
			p.signatures++
			p.seen, p.spamVotes, p.hamVotes = max(p.seen, one.Sightings), max(p.spamVotes, one.Spam), max(p.hamVotes, one.Ham)
			switch one.Judged {
			case "spam":
				p.listed++
			case "revoked":
				p.revoked++
			}
			if one.Sightings+one.Spam+one.Ham > 0 {
				p.worst = max(p.worst, one.Error)
			}
		}
		if p.signatures > 0 {
			all = append(all, p)
		}
	}
	return all
}

// lean returns where the part lies between wanted, -1, and spam, 1. Votes move it, the first most; a
// listing puts it well into spam, and a revocation into wanted.
func (p *partKnown) lean() float64 {
	x := (float64(p.spamVotes) - float64(p.hamVotes)) / (float64(p.spamVotes) + float64(p.hamVotes) + 1)
	switch {
	case p.listed > 0 && p.listed >= p.revoked:
		x = max(x, 0.8)
	case p.revoked > 0:
		x = min(x, -0.5)
	}
	return x
}

// words describes the part.
func (p *partKnown) words() string {
	var all []string
	if p.listed > 0 {
		all = append(all, fmt.Sprintf("%d of %d listed", p.listed, p.signatures))
	}
	if p.revoked > 0 {
		all = append(all, fmt.Sprintf("%d taken off", p.revoked))
	}
	if p.spamVotes+p.hamVotes > 0 {
		all = append(all, plural(uint64(p.spamVotes), "spam vote"), fmt.Sprintf("%d wanted", p.hamVotes))
	}
	if p.seen > 0 {
		all = append(all, "delivered "+times(p.seen))
	}
	if len(all) == 0 {
		return "nothing known"
	}
	if p.worst > 1e-6 {
		all = append(all, "chance of an error "+chance(p.worst))
	}
	return strings.Join(all, ", ")
}

func times(n uint32) string {
	if n == 1 {
		return "once"
	}
	return count(uint64(n)) + " times"
}

// evidence draws each part of a message as a bar from wanted to spam, with its votes and deliveries.
func evidence(d *client.Verdict) g.Node {
	all := parts(d)
	if len(all) == 0 {
		return h.P(h.Class("dim"), g.Text("Nothing is known of its parts."))
	}
	return g.Group{
		h.P(h.Class("ends"), h.Span(g.Text("wanted")), h.Span(g.Text("spam"))),
		h.Dl(h.Class("parts"), g.Map(all, func(p partKnown) g.Node {
			return g.Group{h.Dt(g.Text(p.name)),
				h.Dd(chart.Balance(p.lean(), p.name+": "+p.words()), g.Text(p.words()))}
		}))}
}

func signatureLink(sig bulkhead.Signature) g.Node {
	return h.Code(h.Class("sig"), link("/history?signature="+url.QueryEscape(sig.String()), sig.String()), h.Br())
}
