package attack

import (
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// campaignReports is how many users report the campaign that the attacker wants off the list.
const campaignReports = 10

// peerWeight is the weight of a peer that an administrator does not rely on.
const peerWeight = 0.25

// The messages that attacks are about.
var (
	issue     = letter("this week's issue").from("news", "paper.example")
	nextIssue = letter("next week's issue").from("news", "paper.example")
	statement = copyOf("statement", "somebody").from("service", "bank.example")
	campaign  = letter("a campaign").from("win", "evil.example")
	bare      = mail{text: campaign.text} // of which nothing but the text can be listed
	personal  = letter("what she wrote").from("ann", "home.example").withoutLinks()
	herNext   = letter("what she writes next").from("ann", "home.example").withoutLinks()

	neighbours = "192.0.2.0/24" // the network of a person whose mail cannot be verified, and of a spammer
	spamNearby = letter("a campaign").unverified(neighbours)
	unsigned   = letter("what he wrote").unverified(neighbours)
	hisNext    = letter("what he writes next").unverified(neighbours)
)

// Scenarios returns all attacks that are measured.
func Scenarios() []Scenario {
	var all []Scenario
	for _, m := range []Means{Fresh, Aged, Mailboxes} {
		all = append(all, byVoices(m)...)
	}
	all = append(all, byCampaigns()...)
	all = append(all, byFeatures()...)
	return append(all,
		Scenario{Name: "list an established newsletter through traps", Means: Traps,
			daily: newsletter, before: likes(issue), strike: trap(issue), holds: is(bulkhead.ClassSpam, issue),
			mend: says(bulkhead.Ham, issue)},
		Scenario{Name: "list a newsletter through traps on its first day", Means: Traps,
			before: likes(issue), strike: trap(issue), holds: is(bulkhead.ClassSpam, issue), mend: says(bulkhead.Ham, issue)},
		Scenario{Name: "make personal mail bulk", Means: Sendings,
			daily: letters, strike: resend(personal), holds: is(bulkhead.ClassBulk, personal)},
		Scenario{Name: "be of good standing, then send what is reported", Means: Sendings,
			strike: standing, holds: isNot(bulkhead.ClassSpam, campaignOf("nice.example")),
			mend: says(bulkhead.Spam, campaignOf("nice.example"))},
		Scenario{Name: "make personal mail bulk", Means: Inboxes,
			daily: letters, before: likes(personal), strike: spread(personal), holds: is(bulkhead.ClassBulk, personal),
			mend: says(bulkhead.Ham, personal)},
		Scenario{Name: "make bulk what one person will write", Means: Inboxes,
			daily: letters, strike: spread(personal), holds: is(bulkhead.ClassBulk, herNext)},
		Scenario{Name: "be of good standing, then send what is reported", Means: Inboxes,
			strike: warm, holds: isNot(bulkhead.ClassSpam, campaignOf("nice.example")),
			mend: says(bulkhead.Spam, campaignOf("nice.example"))},
		Scenario{Name: "wear a listing out before one user reports it", Means: Changes,
			strike: wear(bare), holds: isNot(bulkhead.ClassSpam, bare), mend: says(bulkhead.Spam, bare)},
		Scenario{Name: "list an established newsletter as a peer", Means: Peers,
			daily: newsletter, before: likes(issue), strike: received(issue, lie(bulkhead.Spam, issue)),
			holds: is(bulkhead.ClassSpam, issue), mend: says(bulkhead.Ham, issue)},
		Scenario{Name: "un-list a campaign of 10 reports as a peer", Means: Peers,
			before: tenReport, strike: lie(bulkhead.Revocation, campaign), holds: isNot(bulkhead.ClassSpam, campaign),
			mend: says(bulkhead.Spam, campaign)},
		Scenario{Name: "make personal mail bulk as a peer", Means: Peers,
			daily: letters, strike: received(personal, countAsPeer(personal)), holds: is(bulkhead.ClassBulk, personal),
			mend: says(bulkhead.Ham, personal)},
		Scenario{Name: "be of good standing as a peer, then send what is reported", Means: Peers,
			strike: warmAsPeer, holds: isNot(bulkhead.ClassSpam, campaignOf("nice.example")),
			mend: says(bulkhead.Spam, campaignOf("nice.example"))},
		Scenario{Name: "cover a listed link as a peer by mail of others", Means: Peers, daily: dailyNewsletter,
			before: listLink, strike: coverAsPeer, holds: covered, mend: reportCovered},
	)
}

// byVoices returns the attacks of those who have voices of one kind.
func byVoices(m Means) []Scenario {
	all := []Scenario{
		{Name: "list a newsletter on its first day", before: likes(issue), strike: accuse(issue),
			holds: is(bulkhead.ClassSpam, issue), mend: says(bulkhead.Ham, issue)},
		{Name: "list an issue of an established newsletter", daily: newsletter, before: likes(issue), strike: accuse(issue),
			holds: is(bulkhead.ClassSpam, issue), mend: says(bulkhead.Ham, issue)},
		{Name: "list an issue of a daily newsletter", daily: dailyNewsletter, before: likes(issue), strike: accuse(issue),
			holds: is(bulkhead.ClassSpam, issue), mend: says(bulkhead.Ham, issue)},
		{Name: "list the next issue as well", daily: newsletter, before: likes(issue), strike: accuse(issue),
			holds: is(bulkhead.ClassSpam, nextIssue), mend: says(bulkhead.Ham, nextIssue)},
		{Name: "list a bank's statements", daily: statements, before: likes(statement), strike: accuseStatements,
			holds: is(bulkhead.ClassSpam, statement), mend: says(bulkhead.Ham, statement)},
		{Name: "list a bank's statements by clones of them", daily: statements, before: likes(statement),
			strike: accuseClones, holds: is(bulkhead.ClassSpam, statement), mend: says(bulkhead.Ham, statement)},
		{Name: "list what one person will write", daily: letters, before: likes(personal), strike: accuse(personal),
			holds: is(bulkhead.ClassSpam, herNext), mend: says(bulkhead.Ham, herNext)},
		{Name: "have the network of a person suspected whose mail is not verified", daily: unverifiedLetters,
			before: likes(unsigned), strike: accuse(spamNearby), holds: is(bulkhead.ClassSuspected, hisNext),
			mend: says(bulkhead.Ham, hisNext)},
		{Name: "un-list a campaign of 10 reports", before: tenReport, strike: excuse(campaign),
			holds: isNot(bulkhead.ClassSpam, campaign), mend: says(bulkhead.Spam, campaign)},
		{Name: "excuse a campaign before one user reports it", strike: excuseFirst(campaign),
			holds: isNot(bulkhead.ClassSpam, campaign), mend: says(bulkhead.Spam, campaign)},
		{Name: "help a mistake of half a vote", daily: newsletter, before: mistaken, strike: accuse(issue),
			holds: is(bulkhead.ClassSpam, issue), mend: says(bulkhead.Ham, issue)},
	}
	if m != Mailboxes {
		all = append(all, Scenario{Name: "make personal mail bulk", daily: letters, strike: count(personal),
			holds: is(bulkhead.ClassBulk, personal)})
	}
	if m == Fresh {
		all = append(all, Scenario{Name: "raise each other in a ring", strike: ring, holds: raised})
	}
	for i := range all {
		all[i].Means = m
	}
	return all
}

// newsletter is a weekly newsletter.
func newsletter(w *world, day int) error {
	if day%7 != 1 {
		return nil
	}
	return w.deliver(letter(fmt.Sprintf("issue of day %d", day)).from("news", "paper.example"), everybody()...)
}

// dailyNewsletter is a newsletter every day.
func dailyNewsletter(w *world, day int) error {
	return w.deliver(letter(fmt.Sprintf("issue of day %d", day)).from("news", "paper.example"), everybody()...)
}

// statements is the mail of a bank: a statement for each user, on several days.
func statements(w *world, day int) error {
	if day%7 != 3 {
		return nil
	}
	for i, to := range everybody() {
		if err := w.deliver(copyOf("statement", fmt.Sprintf("%d of day %d", i, day)).from("service", "bank.example"),
			to); err != nil {
			return err
		}
	}
	return nil
}

// letters is a person who writes every third day.
func letters(w *world, day int) error {
	if day%3 != 0 {
		return nil
	}
	return w.deliver(letter(fmt.Sprintf("letter of day %d", day)).from("ann", "home.example").withoutLinks(),
		"user0@here.example")
}

// unverifiedLetters is another person who writes every third day, from a client of whom nothing
// is verified, at a node that has verified mail every day.
func unverifiedLetters(w *world, day int) error {
	if err := dailyNewsletter(w, day); err != nil || day%3 != 0 {
		return err
	}
	return w.deliver(letter(fmt.Sprintf("his letter of day %d", day)).unverified(neighbours), "user0@here.example")
}

// likes lets all honest users say that they want a message.
func likes(m mail) func(*world) error {
	return func(w *world) error { return w.vote(w.honest, bulkhead.Ham, m) }
}

// tenReport lets ten users and all honest ones report a campaign.
func tenReport(w *world) error {
	for i := range campaignReports {
		if err := w.vote([]bulkhead.Reporter{w.user("reader", i)}, bulkhead.Spam, campaign); err != nil {
			return err
		}
	}
	return w.vote(w.honest, bulkhead.Spam, campaign)
}

// mistaken lets an account to which an administrator gave half the weight that lists report
// the newsletter; then all honest users say that they want it.
func mistaken(w *world) error {
	half := trust.Account{Name: "mistaken", Role: trust.Trusted, Weight: w.Accounts().Policy().Promotion / 2}
	if err := w.PutAccount(w.ctx, half); err != nil {
		return err
	}
	if err := w.vote([]bulkhead.Reporter{{Account: half.Name}}, bulkhead.Spam, issue); err != nil {
		return err
	}
	return likes(issue)(w)
}

type act = func(w *world, n int) error

// accuse reports a message with all of the attacker's voices.
func accuse(m mail) act {
	return func(w *world, _ int) error { return w.vote(w.attacks, bulkhead.Spam, m) }
}

// excuse votes with all of them for a message that is listed, by both kinds of vote.
func excuse(m mail) act {
	return func(w *world, _ int) error {
		if err := w.vote(w.attacks, bulkhead.Revocation, m); err != nil {
			return err
		}
		return w.vote(w.attacks, bulkhead.Ham, m)
	}
}

// excuseFirst votes with all of them for a message before one user and all honest ones report
// it.
func excuseFirst(m mail) act {
	return func(w *world, n int) error {
		if err := w.vote(w.attacks, bulkhead.Ham, m); err != nil {
			return err
		}
		return reported(w, m)
	}
}

// wear lists a message and takes it off again, n times with one voice; then one user and all
// honest ones report it.
func wear(m mail) act {
	return func(w *world, n int) error {
		mallory := []bulkhead.Reporter{w.user("mallory", 0)}
		for range n {
			for _, v := range []bulkhead.Vote{bulkhead.Spam, bulkhead.Revocation} {
				if err := w.vote(mallory, v, m); err != nil {
					return err
				}
			}
		}
		return reported(w, m)
	}
}

// reported lets one user and all honest ones report a message.
func reported(w *world, m mail) error {
	return w.vote(append(w.honest[:len(w.honest):len(w.honest)], w.user("reader", 0)), bulkhead.Spam, m)
}

// accuseStatements reports with each voice its own statement.
func accuseStatements(w *world, _ int) error {
	for i := range w.attacks {
		own := copyOf("statement", fmt.Sprint("mallory ", i)).from("service", "bank.example")
		if err := w.vote(w.attacks[i:i+1], bulkhead.Spam, own); err != nil {
			return err
		}
	}
	return nil
}

// accuseClones reports with each voice a clone of the bank's mail that the attacker sends
// from a domain of its own.
func accuseClones(w *world, _ int) error {
	for i := range w.attacks {
		clone := copyOf("statement", fmt.Sprint("clone ", i)).from("service", fmt.Sprintf("bank%d.example", i))
		if err := w.vote(w.attacks[i:i+1], bulkhead.Spam, clone); err != nil {
			return err
		}
	}
	return nil
}

// count lets each of the attacker's accounts say that it saw a message as often as possible.
func count(m mail) act {
	return func(w *world, _ int) error {
		for _, r := range w.attacks {
			if err := w.report(bulkhead.Report{Signatures: m.signatures(), Count: bulkhead.Many, Reporter: r}); err != nil {
				return err
			}
		}
		return nil
	}
}

// resend sends n copies of a message to one mailbox of the attacker's.
func resend(m mail) act {
	return func(w *world, n int) error {
		for range n {
			if err := w.deliver(m, "mallory@here.example"); err != nil {
				return err
			}
		}
		return nil
	}
}

// inboxes returns the addresses of n mailboxes of the attacker's.
func inboxes(n int) (to []string) {
	for i := range n {
		to = append(to, fmt.Sprintf("mallory%d@here.example", i))
	}
	return to
}

// helpers is how many strangers help to count a message: more than their counts add to.
const helpers = 30

// spread sends a message to n mailboxes of the attacker's, and has strangers count it as well.
func spread(m mail) act {
	return func(w *world, n int) error {
		if err := w.register(helpers); err != nil {
			return err
		}
		return errors.Join(count(m)(w, n), w.deliver(m, inboxes(n)...))
	}
}

// warm sends a message to n mailboxes of the attacker's on each of three days, and then a
// campaign from the same domain, which one user and all honest ones report.
func warm(w *world, n int) error {
	for day := range 3 {
		if err := w.deliver(letter(fmt.Sprint("nice ", day)).from("win", "nice.example"), inboxes(n)...); err != nil {
			return err
		}
		w.pass(dayLength)
	}
	return reported(w, campaignOf("nice.example"))
}

// standing sends n messages to the attacker's own mailbox on each of three days, and then a
// campaign from the same domain, which one user and all honest ones report.
func standing(w *world, n int) error {
	for day := range 3 {
		for i := range n {
			if err := w.deliver(letter(fmt.Sprintf("nice %d %d", day, i)).from("win", "nice.example"),
				"mallory@here.example"); err != nil {
				return err
			}
		}
		w.pass(dayLength)
	}
	return reported(w, campaignOf("nice.example"))
}

func campaignOf(domain string) mail { return letter("a campaign").from("win", domain) }

// trap sends a copy of a message to n trap addresses, each from another network.
func trap(m mail) act {
	return func(w *world, n int) error {
		for i := range n {
			err := w.report(bulkhead.Report{
				Signatures: m.signatures(), Vote: bulkhead.Spam, Trap: true, Source: bulkhead.Source{Client: network(i)},
				ID: fmt.Sprint("trap ", i),
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// ring lets accounts report what the others report, for as long as others earn weight.
func ring(w *world, _ int) error {
	for day := range agedDays {
		if err := w.vote(w.attacks, bulkhead.Spam,
			mail{text: []bulkhead.Signature{text(bulkhead.Exact, fmt.Sprintf("junk of day %d", day))}}); err != nil {
			return err
		}
		w.pass(dayLength)
	}
	return nil
}

// raised reports whether any of the attacker's accounts weighs more than at first.
func raised(w *world) (bool, error) {
	for _, r := range w.attacks {
		if w.Accounts().Worth(r.Account) > start(w.Accounts().Policy()) {
			return true, nil
		}
	}
	return false, nil
}

// lie adds n peers whose nodes cast a false vote on a message.
func lie(v bulkhead.Vote, m mail) act {
	votes := []bulkhead.Vote{bulkhead.Spam}
	if v != bulkhead.Spam {
		votes = append(votes, v)
	}
	return func(w *world, n int) error {
		return w.liars(n, func(liar *engine.Engine, _ int) error {
			for _, v := range votes {
				if _, err := liar.Report(w.ctx, bulkhead.Report{Signatures: m.signatures(), Vote: v}); err != nil {
					return err
				}
			}
			return nil
		}, 1)
	}
}

// claimedCopies is how many deliveries of each message a lying peer claims.
const claimedCopies = 10_000

// claim has a lying node count deliveries of messages.
func claim(w *world, liar *engine.Engine, all ...mail) error {
	for _, m := range all {
		if _, err := liar.Report(w.ctx, bulkhead.Report{Signatures: m.signatures(), Count: claimedCopies}); err != nil {
			return err
		}
	}
	return nil
}

// liars adds n peers that send the same lies. On each of several days, from 0 on, lies is called with the engine of
// their node.
func (w *world) liars(n int, lies func(liar *engine.Engine, day int) error, days int) (err error) {
	var origins []engine.Origin
	for i := range n {
		origins = append(origins, engine.Origin{ID: fmt.Sprint("liar", i), Weight: peerWeight})
	}
	if err := w.SetOrigins(w.ctx, origins); err != nil {
		return err
	}
	liar, err := w.engine()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, liar.Close(w.ctx)) }()
	if err := liar.Record(w.ctx, true); err != nil {
		return err
	}
	for day := range days {
		if day > 0 {
			w.pass(dayLength)
		}
		if err := lies(liar, day); err != nil {
			return err
		}
		parts, _, err := liar.TakeRounds(w.ctx)
		if err != nil {
			return err
		}
		for _, o := range origins {
			if err := w.apply(o.ID, parts); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply applies what a peer sends.
func (w *world) apply(origin string, parts []engine.Part) error {
	var parsed []engine.Parsed
	for _, p := range parts {
		x, err := w.ParsePart(p)
		if err != nil {
			return err
		}
		parsed = append(parsed, x)
	}
	return w.ApplyRemote(w.ctx, origin, parsed)
}

// countAsPeer adds n peers that claim deliveries of a message.
func countAsPeer(m mail) act {
	return func(w *world, n int) error {
		return w.liars(n, func(liar *engine.Engine, _ int) error { return claim(w, liar, m) }, 1)
	}
}

// warmAsPeer adds n peers that claim deliveries of harmless mail of a domain on each of three days. A campaign
// from there follows, which one user and all honest ones report.
func warmAsPeer(w *world, n int) error {
	err := w.liars(n, func(liar *engine.Engine, day int) error {
		return claim(w, liar, letter(fmt.Sprint("nice ", day)).from("win", "nice.example"))
	}, 3)
	if err != nil {
		return err
	}
	return reported(w, campaignOf("nice.example"))
}

// coverAsPeer adds n peers that claim mail of twenty senders, on each of three days, all with a link that was
// reported here.
func coverAsPeer(w *world, n int) error {
	return w.liars(n, func(liar *engine.Engine, day int) error {
		var all []mail
		for i := range 20 {
			from := fmt.Sprintf("shop%d.example", i)
			all = append(all, withPart(letter(fmt.Sprint("offer ", i, day)).from("news", from).withoutLinks(), evilLink))
		}
		return claim(w, liar, all...)
	}, 3)
}

// received is the attacker's act, during which a copy of the message comes to a user.
func received(m mail, strike act) act {
	return func(w *world, n int) error {
		return errors.Join(strike(w, n), w.deliver(m, everybody()[0]))
	}
}

func is(c bulkhead.Class, m mail) func(*world) (bool, error) {
	return func(w *world) (bool, error) {
		got, err := w.class(m)
		return got == c, err
	}
}

func isNot(c bulkhead.Class, m mail) func(*world) (bool, error) {
	return func(w *world) (bool, error) {
		got, err := w.class(m)
		return got != c, err
	}
}

// says is one honest user's vote.
func says(v bulkhead.Vote, m mail) func(*world, bulkhead.Reporter) error {
	return func(w *world, by bulkhead.Reporter) error { return w.vote([]bulkhead.Reporter{by}, v, m) }
}
