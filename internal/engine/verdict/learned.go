package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// Learned is what the words and the style of a message say.
type Learned struct {
	Score   float64  // see [learn.Result]
	Used    int      // features that the score rests on
	Reports float64  // messages reported so far
	Words   []string // features that weigh most; nil if no reasons are needed
	// Without returns the score with n fewer reports of each feature; nil if there is no score.
	Without  func(n float64) float64
	Condemns bool // the administrator lets a score near 1 make a message spam by itself
}

// The scores from which the rules apply.
const (
	likeReported   = 0.5   // of a message that is suspected anyway
	unlikeSender   = 0.9   // of a message that its sender makes good
	mostLike       = 0.99  // of a message of which nothing else is known
	nearlyCertain  = 0.999 // likewise, to make it spam
	byLikeReported = Rule("like-reported")
	byWordsAlone   = Rule("words-alone")
	byWords        = Rule("words")
	byWordsAndPart = Rule("words-and-part")
	byNewSender    = Rule("new-sender")
	byUnlikeSender = Rule("unlike-sender")
)

// learnedRules apply to the verdict of all other rules. No score counts against wanted mail.
var learnedRules = []rule{
	{byLikeReported, bulkhead.ClassSpam, (*decision).likeReported,
		"The message is suspected and does not quote a reported text. The score of its words and style is 0.5 or more, " +
			"without the reports that made it suspected and two more; 0.99 or more, after 50 reports, if it contains a " +
			"reported text."},
	{byWordsAndPart, bulkhead.ClassSpam, (*decision).wordsAndPart,
		"The score of its words and style is 0.99 or more after 50 reports, and 0.9 or more without the reports of a link " +
			"or the sender. These have at most 17 deliveries for each report, and known senders never sent the link."},
	{byNewSender, bulkhead.ClassSpam, (*decision).newSender,
		"No mail of the verified sender was delivered before, and the node is mature. The score is 0.99 or more after 50 " +
			"reports, and 0.5 or more without the reports of a part: a link, the sender, the text, or a sample of a text."},
	{byWordsAlone, bulkhead.ClassSpam, (*decision).wordsAlone,
		"Nothing else decides, or the message is suspected and quotes no reported text. The score is 0.999 or more after " +
			"50 reports, and `condemn` in `[learn]` is set."},
	{byWords, bulkhead.ClassSuspected, func(d *decision) bool {
		return d.class == bulkhead.ClassUnknown && d.mostLikeReported()
	},
		"Nothing else decides, and the score is 0.99 or more after 50 reports."},
	{byUnlikeSender, bulkhead.ClassUnknown, func(d *decision) bool {
		return d.by == byGoodSender && d.Learned.Score >= unlikeSender && !d.wantedText()
	}, "Only its sender makes the message *good*, and the score is 0.9 or more."},
}

// weighLearned applies the rules of words and style.
func (d *decision) weighLearned() {
	for i := range learnedRules {
		if r := &learnedRules[i]; r.when(d) && d.enough(r) {
			d.class, d.by = r.class, r.name
			return
		}
	}
}

// likeReported reports whether a suspected message has the words and the style of other reported mail than the mail
// that made it suspected. The words of mail that contains a reported text are partly the words of that text, so these
// need a higher score.
func (d *decision) likeReported() bool {
	switch {
	case d.class != bulkhead.ClassSuspected || d.wantedText():
		return false
	case d.holdsPart(): // or quotes it
		return d.wordsCount() && d.otherReports() >= mostLike
	}
	return d.otherReports() >= likeReported
}

// wordsCount reports whether the words of a message may count against it beside few other signs: enough messages were
// reported, its sender is not of good standing, it quotes no reported text, and votes do not call it wanted.
func (d *decision) wordsCount() bool {
	return d.Learned.Reports >= learn.FirstReports && !d.senderGood && !d.text.quoted && !d.wantedText()
}

// wordsAlone reports whether the administrator lets the words of a message condemn it, if nothing else decides or it is
// suspected anyway.
func (d *decision) wordsAlone() bool {
	nothing := d.class == bulkhead.ClassUnknown && d.excuse == noRule
	return d.Learned.Condemns && d.Learned.Score >= nearlyCertain && d.wordsCount() &&
		(nothing || d.class == bulkhead.ClassSuspected)
}

// deliveriesOfReport is the largest number of deliveries for each report at which a part of a message is further
// evidence beside its words.
const deliveriesOfReport = freshDeliveries

// wordsAndPart reports whether the words of a message are like reported ones, and one of its links or its sender was
// reported.
func (d *decision) wordsAndPart() bool {
	return d.mostLikeReported() && d.likeWithout(unlikeSender, d.reportsOfParts())
}

// newSender is wordsAndPart for the first mail of a verified sender. A lower score by other reports is enough then:
// mail that people want, and report by mistake, mostly comes from senders of whom mail was delivered before. The text
// and samples of it also count. A claimed name does not: any sender can claim the name of such a sender, and have it
// reported.
func (d *decision) newSender() bool {
	if !d.mostLikeReported() || !d.Policy.Mature || d.sender < 0 || d.seen() {
		return false
	}
	reports := append(d.reportsOfParts(), d.reportsOfSamples()...)
	if t := &d.text; t.good == 0 && t.often() {
		reports = append(reports, t.reported)
	}
	return d.likeWithout(likeReported, reports)
}

// mostLikeReported reports whether no report was excused, and the words of the message are nearly as certain as they
// can be.
func (d *decision) mostLikeReported() bool {
	return d.class != bulkhead.ClassSpam && d.excuse == noRule && d.Learned.Score >= mostLike && d.wordsCount()
}

// likeWithout reports whether the score is least or more if one of the numbers of reports is left out. These are the
// reports of parts of the message, which are no evidence of its words.
func (d *decision) likeWithout(least float64, reports []float64) bool {
	without := d.Learned.Without
	return without != nil && slices.ContainsFunc(reports, func(n float64) bool { return n > 0 && without(n) >= least })
}

// reportsOfParts returns the numbers of reports of links and senders. Unrelated senders share a network, and any
// sender can claim any name.
func (d *decision) reportsOfParts() (reports []float64) {
	for i := range d.Signatures {
		if s := d.Signatures[i].Scheme(); (s == bulkhead.Link || s == bulkhead.Sender) &&
			d.Findings[i].Judged != bulkhead.Revoked && d.asked(i) {
			reports = append(reports, d.reportsOf(&d.Evidence[i]))
		}
	}
	return reports
}

// reportsOfSamples returns the numbers of reports of samples of texts. It returns none if a reported sample is quoted,
// or known from other mail.
func (d *decision) reportsOfSamples() (reports []float64) {
	for i := range d.samples {
		n := d.reportsOf(&d.samples[i].Evidence)
		if n == 0 || d.samples[i].Quoted {
			return nil
		}
		reports = append(reports, n)
	}
	return reports
}

// reportsOf returns the number of reports of a part, or 0 if known senders sent it, or it was delivered more than a few
// times for each report.
func (d *decision) reportsOf(e *Evidence) float64 {
	n := e.reported()
	if n < 1-slack || e.deliveries() > deliveriesOfReport*n || d.Policy.Strength(e, twoVotes) <= 0 || e.Good > 0 {
		return 0
	}
	return n
}

// furtherReports is the number of reports that are left out besides those that made a message suspected:
// several users may report mail that quotes the same newsletter.
const furtherReports = 2

// otherReports returns the score by other reports than those that made the message suspected. They are no
// further evidence: a mistaken report of a newsletter is also a report of the words of its next issue.
func (d *decision) otherReports() float64 {
	if d.Learned.Score < likeReported || d.Learned.Without == nil {
		return 0
	}
	n := max(1, d.text.reported, float64(d.text.spam))
	if d.finding >= 0 {
		n = max(n, float64(d.Findings[d.finding].Spam), d.Evidence[d.finding].reported())
	}
	return d.Learned.Without(n + furtherReports)
}

// holdsPart reports whether the message and a reported one contain the same text. Its words are then the text's.
func (d *decision) holdsPart() bool {
	if d.text.scheme == bulkhead.Part {
		return true
	}
	for i := range d.Signatures {
		if d.Signatures[i].Scheme() == bulkhead.Part && d.Findings[i].Judged == bulkhead.JudgedSpam {
			return true
		}
	}
	return false
}

// wantedText reports whether votes call the text wanted.
func (d *decision) wantedText() bool {
	if d.pair.wanted || d.text.judged == bulkhead.Revoked {
		return true
	}
	for i := range d.Signatures {
		if v := &d.Evidence[i].Votes; d.Signatures[i].Scheme() == bulkhead.Exact && v.Ham > 0 && v.Ham >= v.Spam {
			return true
		}
	}
	return false
}

// withLearned returns the reasons with the reason of the score, if there is one.
func (d *decision) withLearned(reasons []string) []string {
	l := &d.Learned
	if l.Used == 0 {
		return reasons
	}
	side := "mail that is not reported"
	if l.Score > 0 {
		side = "reported mail"
	}
	// A score of 0.9996 is not 1.
	score := math.Trunc(l.Score*1000) / 1000
	text := fmt.Sprintf("words and style like %s: score %.3f by %s, after %s", side, score,
		plural(uint32(l.Used), "feature"), plural(uint32(l.Reports), "report"))
	if len(l.Words) > 0 {
		words := make([]string, len(l.Words))
		for i, w := range l.Words {
			words[i] = inWords(w)
		}
		text += ": " + strings.Join(words, ", ")
	}
	if slices.ContainsFunc(learnedRules, func(r rule) bool { return r.name == d.by }) {
		if d.by == byLikeReported && d.finding < 0 {
			text = d.textReason() + "; " + text
		}
		return slices.Insert(reasons, 0, text)
	}
	return append(reasons, text)
}

// inWords describes a feature.
func inWords(feature string) string {
	kind, name, _ := strings.Cut(feature, ":")
	switch kind {
	case "w":
		return fmt.Sprintf("%q", name)
	case "m":
		return "type " + strings.TrimSpace(name)
	case "r":
		return name
	}
	return fmt.Sprintf("style %q", name)
}
