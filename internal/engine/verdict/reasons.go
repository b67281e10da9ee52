package verdict

import (
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// reasons returns the reasons for the verdict in words, the most important first.
func (d *decision) reasons(v *bulkhead.Verdict) []string {
	var out []string
	if v.Whitelisted != "" {
		out = append(out, "whitelisted: "+v.Whitelisted)
	}
	t := &d.text
	if why := d.because(v.Confidence); why != "" {
		out = append(out, why)
	}
	if t.judged == bulkhead.JudgedSpam && d.finding >= 0 {
		out = append(out, fmt.Sprintf("its text was reported as spam, too (%s)", t.scheme))
	}
	if t.judged == bulkhead.Revoked {
		by := ""
		if t.spam > 0 {
			by = " by " + plural(t.spam, "voter")
		}
		out = append(out, fmt.Sprintf("was reported as spam%s, and that was revoked (%s)", by, t.scheme))
	}
	if d.senderGood && d.unreported() {
		out = append(out, fmt.Sprintf("%s, and hardly ever reported", d.since(d.sender)))
	}
	if t.sightings > 0 {
		out = append(out, d.countReason(v))
	}
	if why := t.voteReason(); why != "" {
		out = append(out, why)
	}
	if len(out) == 0 || d.unreported() && t.judged == bulkhead.Unjudged && t.sightings|t.spam|t.ham == 0 {
		return append(out, "never seen and never reported here")
	}
	who := "no voter reported"
	if d.class != bulkhead.ClassSpam && d.hidden() > 0 {
		who = "no voter reported or revoked"
	}
	return append(out, errorReason(v.Error, who))
}

// because returns the reason of the rule that decided.
func (d *decision) because(confidence int) string {
	rule := d.rule()
	if d.finding < 0 && rule == noRule { // most mail
		return ""
	}
	t := &d.text
	sure := fmt.Sprintf("confidence %d of 100", confidence)
	if d.finding >= 0 {
		return d.partReason() + ", " + sure
	}
	switch rule {
	case byExactText, byTextOfGood, byPairedText, byTwoVoices:
		return d.textReason() + d.aside() + d.few() + ", " + sure
	case byQuoted, byHoldsPart:
		return d.textReason() + "; suspected only, " + sure
	case byUnanswered:
		return d.textReason() + "; no sender of this one was verified" + d.few() + ", " + sure
	case byKnownNet:
		return d.textReason() + "; no sender of this one was verified, but its network regularly sends other mail, " + sure
	case byUsualText:
		return d.textReason() + "; mail like it was delivered on earlier days, so it is suspected only, " + sure
	case byUnseen:
		return d.textReason() + "; no mail of its sender was delivered before, " + sure
	case byOneVoice:
		return d.textReason() + d.doubt() + ", " + sure
	case byKnownSender:
		return fmt.Sprintf("the text was reported %s from others; %s, and was not", times(votes(t)), d.since(d.sender))
	case byWanted:
		if d.excuse == byWanted {
			return fmt.Sprintf("the text was reported %s, but %s was said to be wanted", times(votes(t)), d.name(d.sender))
		}
		return fmt.Sprintf("%s, and this text was said to be wanted", d.since(d.sender))
	case byGoodLinks:
		return fmt.Sprintf("the text was reported %s, but all its links are known for days and were not", times(votes(t)))
	case bySeldom:
		return fmt.Sprintf("the text was reported %s, which is seldom for one that was delivered so often "+
			"and has a verified sender", times(votes(t)))
	case byDelivered:
		return fmt.Sprintf("the text was reported %s, but %s of it came from known senders", times(votes(t)),
			plural(t.good, "delivery"))
	}
	return ""
}

// unreported reports whether neither a report nor a vote that the message is wanted has led to the
// verdict.
func (d *decision) unreported() bool {
	return d.class < bulkhead.ClassSuspected && d.excuse == noRule && d.by != byWanted
}

// votes returns the number of voters who called the text spam, at least 1, because the voters of
// peers are not counted here.
func votes(t *text) uint32 { return max(1, t.spam) }

func (d *decision) textReason() string {
	switch t := &d.text; {
	case t.scheme == bulkhead.Part && t.quoted:
		return fmt.Sprintf("quotes a message reported as spam: it holds %d samples of it (%s)", t.bands, t.scheme)
	case t.scheme == bulkhead.Part:
		return fmt.Sprintf("holds a message reported as spam: %d samples of it (%s)", t.bands, t.scheme)
	case t.bands > 0:
		return fmt.Sprintf("nearly the same as a message reported as spam: %d bands of %s agree", t.bands, t.scheme)
	}
	return fmt.Sprintf("reported as spam by reporters that are trusted (%s)", d.text.scheme)
}

// aside returns the circumstance besides the text that made the message spam.
func (d *decision) aside() string {
	switch d.by {
	case byPairedText, byTextOfGood:
		return ", from this sender or with one of its links"
	case byTwoVoices:
		if d.text.unlike() {
			return ", with several senders or links"
		}
	}
	return ""
}

// few returns why a rule that makes mail spam made the message suspected only.
func (d *decision) few() string {
	if d.class == bulkhead.ClassSpam {
		return ""
	}
	return "; too few votes for spam at the configured wanted_lost"
}

// doubt returns why the text is only suspected.
func (d *decision) doubt() string {
	switch t := &d.text; {
	case d.lonely():
		return "; that is one voice against many deliveries, so it is suspected until a second calls it spam"
	case t.strength < twoVotes-slack:
		return "; a changed copy is suspected until a second voice calls it spam"
	case t.good > 0:
		return "; known senders send the same, so it is suspected only"
	}
	return "; it was often delivered without complaint, so it is suspected only"
}

// partReason returns which part of the message was reported.
func (d *decision) partReason() string {
	f, e := &d.Findings[d.finding], &d.Evidence[d.finding]
	n := uint32(min(float64(bulkhead.Many), max(e.deliveries(), float64(f.Spam))))
	text := fmt.Sprintf("%s: reported as spam by %d of about %s", d.name(d.finding), f.Spam, plural(n, "recipient"))
	if f.Spam == 0 {
		text = fmt.Sprintf("%s: reported as spam %s, %s here", d.name(d.finding), reporters(e), plural(n, "recipient"))
	}
	if !f.First.IsZero() {
		text += " since " + f.First.Format(time.DateOnly)
	}
	switch {
	case d.class != bulkhead.ClassSuspected:
	case d.by == d.spared:
		text += d.few()
	case d.Signatures[d.finding].Scheme() == bulkhead.Network:
		text += "; other senders share the network, so it is suspected only"
	case d.Signatures[d.finding].Scheme() == bulkhead.Link && d.isListed(d.finding) && d.otherPlaces(d.finding):
		text += "; the places there that it links to were often delivered, so it is suspected only"
	case d.isListed(d.finding) && d.blameless():
		text += "; its sender is verified and was never reported, so it is suspected only"
	case d.Signatures[d.finding].Scheme() == bulkhead.Sender && e.regular():
		text += "; it sent mail on several days, so it is suspected until more voices call it spam"
	default:
		text += "; suspected until a second voice calls it spam"
	}
	return text
}

// reporters describes the reporters of a part whose votes are no longer counted one by one. Votes
// expire before the listing, and are not found under another secret of the network.
func reporters(e *Evidence) string {
	own := e.Own == Listed || e.Votes.Spam > 0
	switch {
	case own && e.Peers.Spam > 0:
		return "here before, and at other servers"
	case own:
		return "here before"
	}
	return "at other servers"
}

// name returns the description of a signature.
func (d *decision) name(i int) string {
	if i < 0 {
		return "the sender"
	}
	sig := &d.Signatures[i]
	what := sig.Name()
	if what == "" {
		what = sig.String()
	}
	switch sig.Scheme().Facet() {
	case bulkhead.LinkFacet:
		return fmt.Sprintf("links to %.80q", what)
	case bulkhead.SenderFacet:
		return fmt.Sprintf("the sender %.80q", what)
	case bulkhead.ClaimFacet:
		return fmt.Sprintf("the name %.80q", what)
	case bulkhead.ContactFacet:
		return fmt.Sprintf("the contact %.80q", what)
	case bulkhead.ImageFacet:
		return "a picture that looks the same"
	}
	return fmt.Sprintf("the %s %.80q", sig.Scheme().Facet(), what)
}

// since returns how long a sender has been known.
func (d *decision) since(i int) string {
	e := &d.Evidence[i]
	text := fmt.Sprintf("%s is known by %s", d.name(i),
		plural(uint32(min(float64(bulkhead.Many), e.deliveries())), "delivery"))
	if f := &d.Findings[i]; !f.First.IsZero() {
		text += " since " + f.First.Format(time.DateOnly)
	}
	return text
}

// voteReason returns the voters on the text; "" if there are none, or if the reason for the
// revocation has them.
func (t *text) voteReason() string {
	var by string
	switch {
	case t.spam > 0 && t.ham > 0:
		by = fmt.Sprintf("spam by %s, and wanted by %s", plural(t.spam, "voter"), plural(t.ham, "voter"))
	case t.ham > 0:
		by = "wanted by " + plural(t.ham, "voter")
	case t.spam > 0 && t.judged != bulkhead.Revoked:
		by = "spam by " + plural(t.spam, "voter")
	default:
		return ""
	}
	if t.contested {
		by += ": contested"
	}
	return "called " + by
}

// countReason returns how often the text was seen: the Sightings of the verdict.
func (d *decision) countReason(v *bulkhead.Verdict) string {
	how := ""
	if classOf(d.text.bulkBy) == classBand {
		how = " or nearly so"
	}
	text := fmt.Sprintf("seen %s%s (%s)", times(d.text.sightings), how, d.text.bulkBy)
	if !v.First.IsZero() {
		text += " since " + v.First.Format(time.DateOnly)
	}
	if v.Bulk {
		return text + fmt.Sprintf(": bulk, the threshold is %d", v.Threshold)
	}
	return text + fmt.Sprintf(", below the threshold of %d", v.Threshold)
}
