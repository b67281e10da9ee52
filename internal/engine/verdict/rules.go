package verdict

import "github.com/bulkhead-mail/bulkhead"

// A Rule is the name of one row of the lists below.
type Rule string

// A rule is one row of the judgement. Rows are tried in order. The first row that decides ends the
// list; a row that excuses lets the message off the reports of its text, and the list goes on.
type rule struct {
	name  Rule
	class bulkhead.Class // ClassUnknown: the row excuses a reported text
	// when reports whether the row applies. It sets finding if a part other than the text decides.
	when func(*decision) bool
	doc  string // the row of docs/judgement.md
}

// The rules that other code names.
const (
	noRule        Rule = "none"
	byWhitelist   Rule = "whitelist"
	bySeldom      Rule = "seldom-reported"
	byTextOfGood  Rule = "text-from-sender"
	byWanted      Rule = "wanted"
	byKnownSender Rule = "known-sender"
	byService     Rule = "service"
	byDelivered   Rule = "delivered-digest"
	byExactText   Rule = "exact-text"
	byFreshLink   Rule = "fresh-link"
	byPairedText  Rule = "text-with-part"
	byGoodLinks   Rule = "good-links"
	byQuoted      Rule = "quoted"
	byUsualText   Rule = "usual-text"
	byTwoVoices   Rule = "two-votes"
	byKnownNet    Rule = "known-network"
	byUnanswered  Rule = "unanswered"
	byUnseen      Rule = "unseen-sender"
	byHoldsPart   Rule = "part-of-text"
	byOneVoice    Rule = "one-vote"
	byGoodSender  Rule = "good-sender"
)

// firstRules apply to all mail.
var firstRules = []rule{
	{bySeldom, bulkhead.ClassUnknown, (*decision).seldom,
		"The text was reported no more often than by mistake, for its deliveries, and its sender is verified."},
	{byWanted, bulkhead.ClassUnknown, func(d *decision) bool { return d.pair.wanted && (d.senderGood || !d.pair.any) },
		"A vote marked the text from this sender as wanted. The sender is of good standing, or no votes name the text with " +
			"one of these links."},
	{byService, bulkhead.ClassUnknown, (*decision).service,
		"The text was delivered on three days or more, and the address of the verified sender is common, with 20 settled " +
			"deliveries for each report. Or the sender is a well-known company with mail on two days, and with as many " +
			"settled deliveries as there are reports; an exact copy was also delivered on three days."},
	{"attachment", bulkhead.ClassSpam, func(d *decision) bool { return d.part(d.parts.Attachments, d.condemns) },
		"An attachment is listed, and is not common. From a sender of good standing, it was delivered on less than three " +
			"days, or less often than it was reported."},
}

// senderRules apply to mail that a sender of good standing answers for.
var senderRules = []rule{
	{byTextOfGood, bulkhead.ClassSpam, func(d *decision) bool { return d.listed && d.pair.sender },
		"The text was reported from this very sender."},
	{byKnownSender, bulkhead.ClassUnknown, func(d *decision) bool { return d.listed },
		"The text was reported from other senders."},
}

// mailRules apply to all other mail.
var mailRules = []rule{
	{byDelivered, bulkhead.ClassUnknown, func(d *decision) bool {
		return d.listed && d.parts.Digests && d.text.good >= goodDeliveries
	}, "Senders of good standing delivered three copies of a text of which only digests are known."},
	{byExactText, bulkhead.ClassSpam, func(d *decision) bool {
		return d.listed && (d.text.exact || d.parts.Digests) && !d.lonely()
	}, "It is a copy of a listed text, or has a listed digest and nothing else of it is known. A single vote against " +
		"many deliveries of a verified sender is not enough."},
	{"link", bulkhead.ClassSpam, func(d *decision) bool { return d.part(d.parts.Links, d.condemns) },
		"A link outside the sender's own domain is listed, and is not common."},
	{byFreshLink, bulkhead.ClassSpam, func(d *decision) bool { return d.part(d.parts.Links, d.fresh) },
		"A link was reported once, was delivered 17 times at most, with two settled deliveries at most (2 in all with a " +
			"verified sender), never by a known sender, the network is not known, and the node is mature."},
	{"sender", bulkhead.ClassSpam, func(d *decision) bool { return d.part(d.parts.Senders, d.condemns) },
		"The verified sender is listed, and is not common."},
	{"picture", bulkhead.ClassSpam, func(d *decision) bool { return !d.parts.Near && d.part(d.parts.Images, d.condemns) },
		"A picture is listed, and there is no text. A picture beside a text is often borrowed, such as a logo."},
	{"contact", bulkhead.ClassSpam, func(d *decision) bool { return d.part(d.parts.Contacts, d.condemns) },
		"A contact is listed, and is not common."},
	{byPairedText, bulkhead.ClassSpam, func(d *decision) bool { return d.listed && d.pair.any },
		"It is a changed copy of a text that was reported with this sender or one of these links."},
	{byGoodLinks, bulkhead.ClassUnknown, func(d *decision) bool { return d.listed && d.linksStand() },
		"All links are of good standing, with more deliveries than the text has reports."},
	{byQuoted, bulkhead.ClassSuspected, func(d *decision) bool { return d.listed && d.text.quoted },
		"It quotes or forwards a listed text."},
	{byUsualText, bulkhead.ClassSuspected, (*decision).usualText,
		"It is a changed copy of a listed text that was delivered before today as often as it was reported. No sender was " +
			"verified, or mail of the sender came before today, and none of it was reported. The same holds for the network " +
			"and the links. Or the text was delivered on three days or more, and came from a private address, or from a " +
			"network with mail on as many days, and with twelve settled deliveries for each report."},
	{byTwoVoices, bulkhead.ClassSpam, (*decision).twoVotes,
		"It is a changed copy of an often reported text that two votes list. No known sender sends the text, or it was " +
			"reported with two different senders or links."},
	{byKnownNet, bulkhead.ClassSuspected, func(d *decision) bool { return d.listed && d.knownNetwork() },
		"It is a changed copy of a listed text. No sender was verified, but its network sent much mail before today that " +
			"was neither flagged nor reported."},
	{byUnanswered, bulkhead.ClassSpam, (*decision).unanswered,
		"It is a changed copy of an often reported text that one vote lists, no sender was verified, and the node is " +
			"mature. A part of the text that was delivered before today as often as it was reported is not enough."},
	{byUnseen, bulkhead.ClassSpam, (*decision).unseen,
		"It is a changed copy of an often reported text that one vote lists, no mail of its verified sender was " +
			"delivered before, the node is mature, and `wanted_lost` is 5 or more."},
	{byHoldsPart, bulkhead.ClassSuspected, func(d *decision) bool { return d.listed && d.text.part() },
		"It contains a part of a listed text."},
	{byOneVoice, bulkhead.ClassSuspected, func(d *decision) bool { return d.listed },
		"It is a changed copy of a listed text."},
	{"suspected-link", bulkhead.ClassSuspected, func(d *decision) bool { return d.part(d.parts.Links, d.suspected) },
		"A link that is not common is under suspicion, or is listed and not enough for *spam*."},
	{"suspected-sender", bulkhead.ClassSuspected, func(d *decision) bool { return d.part(d.parts.Senders, d.suspected) },
		"The verified sender is under suspicion, and is not common. A regular sender is not for a single vote."},
	{"suspected-part", bulkhead.ClassSuspected, func(d *decision) bool {
		return d.part(d.parts.Attachments, d.suspected) || d.part(d.parts.Images, d.suspected) ||
			d.part(d.parts.Contacts, d.suspected)
	}, "An attachment or a contact that is not common, or a picture, is under suspicion, or a picture is listed beside " +
		"a text."},
	{"network", bulkhead.ClassSuspected, func(d *decision) bool { return d.part(d.parts.Networks, d.isListed) },
		"The network is listed, hardly any mail of it in the last days was neither flagged nor reported, and no sender was " +
			"verified. Unrelated senders share a network, so it never condemns."},
	{"claimed-name", bulkhead.ClassSuspected, func(d *decision) bool { return d.part(d.parts.Claims, d.suspected) },
		"The claimed name was reported, is not the verified sender's own, the sender is not regular, and the network is " +
			"not known. Any sender can claim any name."},
}

// lastRules apply to mail that is neither spam nor suspected.
var lastRules = []rule{
	{byWanted, bulkhead.ClassGood, func(d *decision) bool { return d.pair.wanted && (!d.isBulk || d.senderGood) },
		"A vote marked the text from this sender as wanted. The sender of bulk is also of good standing."},
	{"bulk", bulkhead.ClassBulk, func(d *decision) bool { return d.isBulk }, "It was seen `threshold` times."},
	{byGoodSender, bulkhead.ClassGood, (*decision).earned, "The sender has earned it: see Good standing."},
}

// A Row describes one rule.
type Row struct {
	Name    string
	Verdict string // class that the rule decides, or "excused"
	When    string // a sentence
}

// groups are the lists of rules in the order in which they are applied, and the mail that each is for.
var groups = []struct {
	mail  string
	rules []rule
}{
	{"any mail", firstRules},
	{"mail that a sender of good standing answers for", senderRules},
	{"all other mail", mailRules},
	{"mail that is neither spam nor suspected", lastRules},
	{"the verdict of the rules above, with a [score](learning.md)", learnedRules},
}

func (r *rule) row() Row {
	verdict := r.class.String()
	if r.class == bulkhead.ClassUnknown {
		verdict = "excused"
	}
	if r.name == byUnlikeSender {
		verdict = r.class.String()
	}
	return Row{string(r.name), verdict, r.doc}
}

// Rules returns all rules, each name once, in the order in which they are tried.
func Rules() []Row {
	rows := []Row{{string(byWhitelist), bulkhead.ClassGood.String(), "A whitelist has the message."}}
	seen := make(map[Rule]bool)
	for _, g := range groups {
		for i := range g.rules {
			if r := &g.rules[i]; !seen[r.name] {
				seen[r.name] = true
				rows = append(rows, r.row())
			}
		}
	}
	return append(rows, Row{string(noRule), bulkhead.ClassUnknown.String(), "No other rule applies."})
}

// Table returns the rules as a table in Markdown, for docs/judgement.md.
func Table() string {
	out := "| rule | verdict | when |\n|---|---|---|\n"
	for _, g := range groups {
		out += "| | | **" + g.mail + "** |\n"
		for i := range g.rules {
			r := g.rules[i].row()
			out += "| `" + r.Name + "` | " + r.Verdict + " | " + r.When + " |\n"
		}
	}
	return out
}
