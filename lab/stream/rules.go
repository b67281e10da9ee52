package stream

import (
	"context"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A Rule says who judges a stream.
type Rule string

// The rules.
const (
	// Node is the engine of a node as it is shipped.
	Node Rule = "node"
	// TextAlone is a plain rule to compare the node with: a text is spam from its first report on,
	// nothing else in a message counts, and a text that is taken off stays off until the week ends.
	TextAlone Rule = "text-alone"
	// TextOrLink is TextAlone that also lists every link of what was reported, whoever else
	// links there: what links add at most, and what they cost if nothing guards ham.
	TextOrLink Rule = "text-or-link"
	// FirstReport knows which copies belong together, and calls all of them spam from
	// the first report on. No rule that waits for a report of a campaign beats it.
	FirstReport Rule = "first-report"
	// FirstReportOfPart is FirstReport that also knows which links, senders, networks, attachments,
	// contacts and texts, changed copies included, no ham of the collections has. From their
	// first report on, all mail with them is spam. No rule that rests on these parts of a
	// message beats it.
	FirstReportOfPart Rule = "first-report-of-part"
)

// Rules are all rules.
var Rules = []Rule{Node, TextAlone, TextOrLink, FirstReport, FirstReportOfPart}

// inMaps is what the rules that use plain maps have in common.
type inMaps struct {
	opts *Options
	now  time.Time
}

func (m *inMaps) turn(_ context.Context, now time.Time) error {
	m.now = now
	return nil
}

func (m *inMaps) close(context.Context) error { return nil }

// server is where a site's votes are: 0 for all where they share.
func (m *inMaps) server(site int) int {
	if m.opts.Lone {
		return site + 1
	}
	return 0
}

// A known is a signature at a server.
type known struct {
	server int
	sig    bulkhead.Signature
}

// textAlone is [TextAlone] and [TextOrLink].
type textAlone struct {
	inMaps
	listed, revoked map[known]int64 // the last week, from 1, in which it was
}

func newTextAlone(opts *Options) *textAlone {
	return &textAlone{inMaps: inMaps{opts: opts}, listed: map[known]int64{}, revoked: map[known]int64{}}
}

func (t *textAlone) week() int64 {
	return t.now.UnixNano() / int64(engine.DefaultBlocklist().Generation)
}

// spam reports whether a signature is listed: in a later week than it was last taken off.
func (t *textAlone) spam(k known) bool {
	listed := t.listed[k]
	return listed > t.revoked[k] && t.week()-listed < int64(engine.DefaultBlocklist().Keep)
}

// deliver calls spam what has a listed text, or a listed link if those count.
func (t *textAlone) deliver(_ context.Context, d *delivery) (answer, error) {
	listed := func(sig bulkhead.Signature) bool { return t.spam(known{t.server(d.site), sig}) }
	linked := func(sig bulkhead.Signature) bool {
		return sig.Scheme().Facet() == bulkhead.LinkFacet && listed(sig)
	}
	return answerIf(listedText(d.letter.sigs, listed) || slices.ContainsFunc(d.letter.sigs, linked)), nil
}

func answerIf(spam bool) answer {
	if spam {
		return answer{class: bulkhead.ClassSpam}
	}
	return answer{class: bulkhead.ClassUnknown}
}

// listedText reports whether enough signatures of a text are listed: one of the whole text,
// all of a scheme that signs every part, or some bands.
func listedText(sigs []bulkhead.Signature, listed func(bulkhead.Signature) bool) bool {
	bands, whole := map[bulkhead.Scheme]int{}, map[bulkhead.Scheme]bool{}
	for _, sig := range sigs {
		switch scheme := sig.Scheme(); {
		case scheme == bulkhead.Near || scheme == bulkhead.RspamdShingle:
			if listed(sig) {
				bands[scheme]++
			}
		case ofWholeText(scheme):
			before, seen := whole[scheme]
			whole[scheme] = (before || !seen) && listed(sig)
		}
	}
	for _, all := range whole {
		if all {
			return true
		}
	}
	return bands[bulkhead.Near] >= signature.NearMatch || bands[bulkhead.RspamdShingle] >= shingleMatch
}

// shingleMatch is rspamd.Match: how many bands of rspamd/shingle must agree.
const shingleMatch = 3

// ofWholeText reports whether a scheme signs the whole of a text.
func ofWholeText(s bulkhead.Scheme) bool {
	return s.Facet() == bulkhead.TextFacet && s != bulkhead.Near && s != bulkhead.RspamdShingle && s != bulkhead.RazorE8
}

func (t *textAlone) vote(_ context.Context, d *delivery, vote bulkhead.Vote) error {
	which := t.listed
	if vote != bulkhead.Spam {
		which = t.revoked
	}
	for _, sig := range d.letter.sigs {
		f := sig.Scheme().Facet()
		if f == bulkhead.TextFacet || f == bulkhead.LinkFacet && t.opts.Rule == TextOrLink {
			which[known{t.server(d.site), sig}] = t.week()
		}
	}
	return nil
}

// oracle is [FirstReport] and [FirstReportOfPart].
type oracle struct {
	inMaps
	ham       map[bulkhead.Signature]bool // has it; nil if it does not matter
	reported  map[known]bool
	campaigns map[[2]int]bool // server and campaign
}

func newOracle(p *plan, opts *Options) *oracle {
	o := &oracle{inMaps: inMaps{opts: opts}, reported: map[known]bool{}, campaigns: map[[2]int]bool{}}
	if opts.Rule == FirstReport {
		return o
	}
	o.ham = map[bulkhead.Signature]bool{}
	for i := range p.deliveries {
		if l := p.deliveries[i].letter; !l.Kind.Spam() {
			for _, sig := range l.sigs {
				o.ham[sig] = true
			}
		}
	}
	return o
}

// reports reports whether a signature was reported and is spam's alone: no ham has it.
func (o *oracle) reports(site int, sig bulkhead.Signature) bool {
	return o.ham != nil && !o.ham[sig] && o.reported[known{o.server(site), sig}]
}

func (o *oracle) deliver(_ context.Context, d *delivery) (answer, error) {
	return answerIf(d.letter.Kind.Spam() && o.spam(d)), nil
}

func (o *oracle) spam(d *delivery) bool {
	reported := func(sig bulkhead.Signature) bool { return o.reports(d.site, sig) }
	if o.campaigns[[2]int{o.server(d.site), d.campaign}] || listedText(d.letter.sigs, reported) {
		return true
	}
	for _, sig := range d.letter.sigs {
		switch sig.Scheme().Facet() {
		case bulkhead.LinkFacet, bulkhead.SenderFacet, bulkhead.NetworkFacet, bulkhead.AttachmentFacet, bulkhead.ContactFacet:
			if reported(sig) {
				return true
			}
		}
	}
	return false
}

func (o *oracle) vote(_ context.Context, d *delivery, vote bulkhead.Vote) error {
	if vote != bulkhead.Spam || !d.letter.Kind.Spam() {
		return nil
	}
	o.campaigns[[2]int{o.server(d.site), d.campaign}] = true
	for _, sig := range d.letter.sigs {
		o.reported[known{o.server(d.site), sig}] = true
	}
	return nil
}
