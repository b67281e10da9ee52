package attack

import (
	"fmt"
	"log/slog"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/live"
)

// The messages that attacks by campaigns are about.
var (
	victimLink    = bulkhead.NamedSignature(bulkhead.Link, "paper.example")
	victimFile    = bulkhead.NamedSignature(bulkhead.Attachment, fmt.Sprintf("%-32s", "a form that many attach"))
	victimPicture = bulkhead.NamedSignature(bulkhead.Image, fmt.Sprintf("%-32s", "a logo that many show"))
	victimContact = bulkhead.NamedSignature(bulkhead.Contact, "+15550100199")

	linkTip = withPart(letter("a tip").from("bob", "friend.example").withoutLinks(), victimLink)

	evilLink = bulkhead.NamedSignature(bulkhead.Link, "pills.example")
)

// byCampaigns returns the attacks of those who send mail, and have neither accounts nor peers.
func byCampaigns() []Scenario {
	all := []Scenario{
		snowshoe("below a free suffix", func(i int) string { return fmt.Sprintf("win%d.github.io", i) }),
		snowshoe("of free tenants", func(i int) string { return fmt.Sprintf("win%d.onmicrosoft.com", i) }),
		snowshoe("of fresh domains", func(i int) string { return fmt.Sprintf("win%d.example", i) }),
		{Name: "age names, then send a reported campaign from each", Means: Names,
			strike: aged(harmless, copyFrom(agedName)), holds: notSpamOf(copyFrom(agedName)),
			mend: reportOf(copyFrom(agedName))},
		{Name: "age linked names and networks, then send a reported campaign without verified senders", Means: Names,
			daily: dailyNewsletter, strike: aged(earlyLinked, linkedCopy), holds: notSpamOf(linkedCopy),
			mend: reportOf(linkedCopy)},
		{Name: "hide pages of a domain by mail to own mailboxes, then send links to them", Means: Inboxes,
			daily: dailyNewsletter, strike: agePages, holds: notSpamOf(linkedPage), mend: reportOf(linkedPage)},
		{Name: "imitate a service, then send what is reported", Means: Inboxes, strike: imitateService,
			holds: notSpamOf(serviceCopy), mend: reportOf(serviceCopy)},
		{Name: "be of good standing as a list, then send what is reported", Means: Inboxes, strike: warmList,
			holds: isNot(bulkhead.ClassSpam, campaignOfList()), mend: says(bulkhead.Spam, campaignOfList())},
		{Name: "cover a listed link with others", Means: Links, daily: dailyNewsletter, before: listLink, strike: cover,
			holds: covered, mend: reportCovered},
		{Name: "have the network of a person suspected whose mail is not verified", Means: Spams,
			daily: unverifiedLetters, before: likes(unsigned), strike: fromNetwork,
			holds: is(bulkhead.ClassSuspected, hisNext), mend: says(bulkhead.Ham, hisNext)},
		{Name: "have a provider's other customer suspected by spam from accounts there", Means: Spams,
			daily: providerMail, before: likes(personal), strike: fromProvider, holds: unwanted(herNext),
			mend: says(bulkhead.Ham, herNext)},
		{Name: "have a person suspected by copies of a letter that the person signed", Means: Spams,
			daily: letters, before: likes(personal), strike: replay, holds: unwanted(herNext),
			mend: says(bulkhead.Ham, herNext)},
		{Name: "have the link that mail shares listed in the live DNS zone", Means: Spams,
			daily: sharing(victimLink), before: likes(linkTip), strike: misuse(victimLink), holds: zoned,
			mend: says(bulkhead.Ham, linkTip)},
	}
	for _, part := range []struct {
		what string
		sig  bulkhead.Signature
	}{{"link", victimLink}, {"attachment", victimFile}, {"picture", victimPicture}, {"contact", victimContact}} {
		tip := withPart(letter("a tip").from("bob", "friend.example").withoutLinks(), part.sig)
		all = append(all, Scenario{Name: "have mail listed by the " + part.what + " that it shares", Means: Spams,
			daily: sharing(part.sig), before: likes(tip), strike: misuse(part.sig), holds: is(bulkhead.ClassSpam, tip),
			mend: says(bulkhead.Ham, tip)})
	}
	return all
}

// withPart returns the mail with one more signature.
func withPart(m mail, part ...bulkhead.Signature) mail {
	m.meta = append(m.meta[:len(m.meta):len(m.meta)], part...)
	return m
}

// snowshoe is a campaign of near copies, each from a verified name of its own. The first reader and all
// honest ones report a copy each; n names later, a copy from a fresh name is not spam.
func snowshoe(what string, name func(int) string) Scenario {
	return Scenario{Name: "send a reported campaign from names " + what, Means: Names,
		strike: func(w *world, n int) error {
			for i := range n {
				if err := w.send(copyFrom(name)(i), i); err != nil {
					return err
				}
			}
			return w.reportCopies(copyFrom(name), 1+len(w.honest), n)
		},
		holds: notSpamOf(copyFrom(name)), mend: reportOf(copyFrom(name))}
}

// copyFrom returns the copies of the campaign: the i'th name sends the i'th, with a link to that name.
func copyFrom(name func(int) string) func(i int) mail {
	return func(i int) mail { return copyOf("a snowshoe campaign", fmt.Sprint(i)).from("win", name(i)) }
}

// serviceCopy returns the i'th copy of a campaign from one address, under the name of one of twelve customers.
func serviceCopy(i int) mail {
	m := copyOf("an invitation to sign", fmt.Sprint(i)).from("win", "nice.example").withoutLinks()
	return m.named(fmt.Sprint("customer ", i%12))
}

// imitateService sends copies to n mailboxes of the attacker's on three days, and then to others. The first reader and
// all honest ones report a copy each.
func imitateService(w *world, n int) error {
	own := inboxes(n)
	for day := range 3 {
		for i := range n {
			if err := w.deliver(serviceCopy(day*n+i), own[i]); err != nil {
				return err
			}
		}
		w.pass(dayLength)
	}
	users := 1 + len(w.honest)
	for i := range users {
		if err := w.send(serviceCopy(3*n+i), i); err != nil {
			return err
		}
	}
	return w.reportCopies(func(i int) mail { return serviceCopy(3*n + i) }, users, users)
}

// send delivers a message to one subscriber.
func (w *world) send(m mail, i int) error {
	all := everybody()
	return w.deliver(m, all[i%len(all)])
}

// reportCopies has each of several users report one of the copies, in turn.
func (w *world) reportCopies(copies func(int) mail, users, n int) error {
	for i := range users {
		by := []bulkhead.Reporter{w.user("reader", i)}
		if err := w.vote(by, bulkhead.Spam, copies(i%n)); err != nil {
			return err
		}
	}
	return nil
}

// unusedName is the number of a name, or a copy, that was not sent.
const unusedName = MaxMeans + 1

// notSpamOf reports whether another copy is not spam. Aged names are all used, so their last one is meant.
func notSpamOf(copies func(int) mail) func(*world) (bool, error) {
	return func(w *world) (bool, error) {
		w.helped = max(w.helped, unusedName)
		got, err := w.class(copies(w.helped))
		return got != bulkhead.ClassSpam, err
	}
}

// reportOf has a user report the copy that is not spam, after which another one is sent.
func reportOf(copies func(int) mail) func(*world, bulkhead.Reporter) error {
	return func(w *world, by bulkhead.Reporter) error {
		m := copies(w.helped)
		if err := w.send(m, w.helped); err != nil {
			return err
		}
		w.helped++
		return w.vote([]bulkhead.Reporter{by}, bulkhead.Spam, m)
	}
}

// agedName is the domain of a name that was used for harmless mail first.
func agedName(i int) string { return fmt.Sprintf("nice%d.example", i) }

// harmless is a mail of a name before a campaign.
func harmless(i, day int) mail {
	return letter(fmt.Sprintf("harmless %d %d", i, day)).from("win", agedName(i))
}

// linkedCopy returns the i'th copy of a campaign without verified senders. It links to a name of its own, and comes
// from a network of its own.
func linkedCopy(i int) mail { return copyOf("a linked campaign", fmt.Sprint(i)).linked(i) }

// earlyLinked is a copy of that campaign before it begins, with such a link and from such a network.
func earlyLinked(i, day int) mail {
	return copyOf("a linked campaign", fmt.Sprint(i, " on ", day)).linked(i)
}

// linked returns the mail as it comes from the i'th network, without a verified sender, and with a link of its own.
func (m mail) linked(i int) mail {
	return withPart(m.unverified(fmt.Sprintf("%v/24", network(i))), bulkhead.NamedSignature(bulkhead.Link, agedName(i)))
}

// linkedPage is the i'th spam that links to one domain, in a text and at a page of its own.
func linkedPage(i int) mail {
	return withPart(letter(fmt.Sprint("spam with a page ", i)).unverified(fmt.Sprintf("%v/24", network(i))), evilLink,
		bulkhead.NamedSignature(bulkhead.Link, fmt.Sprintf("pills.example/%d", i)))
}

// agePages sends a mail with each page to n mailboxes of the attacker's. Then the first reader and all honest ones
// report one spam each. The pages that later spams link to were delivered as well.
func agePages(w *world, n int) error {
	users := 1 + len(w.honest)
	early := func(i int) error {
		m := linkedPage(i)
		m.text = letter(fmt.Sprint("early mail with a page ", i)).text
		return w.deliver(m, inboxes(n)...)
	}
	for i := range users {
		if err := early(i); err != nil {
			return err
		}
	}
	for i := range answers(len(w.honest), n) {
		if err := early(unusedName + i); err != nil {
			return err
		}
	}
	for i := range users {
		if err := w.send(linkedPage(i), i); err != nil {
			return err
		}
	}
	return w.reportCopies(linkedPage, users, users)
}

// aged sends early mail from n names to two mailboxes of the attacker's on three days, and then a
// campaign from each. The first reader and all honest ones report a copy each. The names that
// send later copies have aged as well.
func aged(early func(i, day int) mail, copies func(i int) mail) act {
	return func(w *world, n int) error {
		for day := range 3 {
			for i := range n {
				if err := w.deliver(early(i, day), inboxes(2)...); err != nil {
					return err
				}
			}
			for i := range answers(len(w.honest), n) {
				if err := w.deliver(early(unusedName+i, day), inboxes(2)...); err != nil {
					return err
				}
			}
			w.pass(dayLength)
		}
		for i := range n {
			if err := w.send(copies(i), i); err != nil {
				return err
			}
		}
		return w.reportCopies(copies, 1+len(w.honest), n)
	}
}

// listMail returns the mail with the identifier of a list at its sender's domain.
func listMail(m mail) mail {
	return withPart(m, bulkhead.NamedSignature(bulkhead.Sender, "news.nice.example|nice.example"))
}

func campaignOfList() mail { return listMail(campaignOf("nice.example")) }

// warmList does what warm does, as a list.
func warmList(w *world, n int) error {
	for day := range 3 {
		m := listMail(letter(fmt.Sprint("nice list ", day)).from("win", "nice.example"))
		if err := w.deliver(m, inboxes(n)...); err != nil {
			return err
		}
		w.pass(dayLength)
	}
	return reported(w, campaignOfList())
}

// sharing is a daily newsletter, and mail of four others, of which all share a part.
func sharing(part bulkhead.Signature) func(*world, int) error {
	return func(w *world, day int) error {
		if err := dailyNewsletter(w, day); err != nil {
			return err
		}
		from := fmt.Sprintf("friend%d.example", day%4)
		m := withPart(letter(fmt.Sprint("mail of day ", day)).from("bob", from).withoutLinks(), part)
		return w.send(m, day)
	}
}

// misuse sends n spams with a part of mail that others send, each from a fresh verified domain. A
// reader reports each.
func misuse(part bulkhead.Signature) act {
	return func(w *world, n int) error {
		for i := range n {
			m := withPart(letter(fmt.Sprint("spam ", i)).from("win", fmt.Sprintf("evil%d.example", i)).withoutLinks(), part)
			if err := w.send(m, i); err != nil {
				return err
			}
			if err := w.vote([]bulkhead.Reporter{w.user("reader", i)}, bulkhead.Spam, m); err != nil {
				return err
			}
		}
		return nil
	}
}

// fromNetwork sends n spams from a person's network, and a reader reports each.
func fromNetwork(w *world, n int) error {
	for i := range n {
		m := letter(fmt.Sprint("spam ", i)).unverified(neighbours)
		if err := w.send(m, i); err != nil {
			return err
		}
		if err := w.vote([]bulkhead.Reporter{w.user("reader", i)}, bulkhead.Spam, m); err != nil {
			return err
		}
	}
	return nil
}

// unwanted reports whether a message is spam or suspected.
func unwanted(m mail) func(*world) (bool, error) {
	return func(w *world) (bool, error) {
		got, err := w.class(m)
		return got == bulkhead.ClassSpam || got == bulkhead.ClassSuspected, err
	}
}

// providerMail is mail of a provider's customers: of one every third day, and of four others every day.
func providerMail(w *world, day int) error {
	for i := range 4 {
		m := letter(fmt.Sprint("customer ", i, " on day ", day)).from(fmt.Sprint("customer", i), "home.example")
		if err := w.send(m.withoutLinks(), 4*day+i); err != nil {
			return err
		}
	}
	return letters(w, day)
}

// fromProvider sends n spams from as many accounts of the provider, each with a link of its own. A reader
// reports each.
func fromProvider(w *world, n int) error {
	for i := range n {
		m := letter(fmt.Sprint("spam ", i)).from(fmt.Sprint("mallory", i), "home.example").withoutLinks()
		m = withPart(m, bulkhead.NamedSignature(bulkhead.Link, fmt.Sprintf("evil%d.example", i)))
		if err := w.send(m, i); err != nil {
			return err
		}
		if err := w.vote([]bulkhead.Reporter{w.user("reader", i)}, bulkhead.Spam, m); err != nil {
			return err
		}
	}
	return nil
}

// replay sends a letter that a person signed, and the attacker received, to n readers, who report it.
func replay(w *world, n int) error {
	signed := letter("what she wrote to the attacker").from("ann", "home.example").withoutLinks()
	for i := range n {
		if err := w.send(signed, i); err != nil {
			return err
		}
		if err := w.vote([]bulkhead.Reporter{w.user("reader", i)}, bulkhead.Spam, signed); err != nil {
			return err
		}
	}
	return nil
}

// zoned reports whether the live DNS zone of the node lists the link that mail shares.
func zoned(w *world) (bool, error) {
	return live.List{Judge: w.Engine, Log: slog.New(slog.DiscardHandler)}.HasDomain(string(victimLink.Sum())), nil
}

// coveredMail returns a spam with a listed link and n links that others use.
func coveredMail(i, n int) mail {
	m := withPart(letter(fmt.Sprint("pills ", i)).unverified("203.0.113.0/24"), evilLink)
	for k := range n {
		m = withPart(m, bulkhead.NamedSignature(bulkhead.Link, fmt.Sprintf("known%d.example", k%64)))
	}
	return m
}

// listLink has three readers and all honest users report a spam each, all with one link.
func listLink(w *world) error {
	users := append(w.honest[:len(w.honest):len(w.honest)], w.user("reader", 0), w.user("reader", 1), w.user("reader", 2))
	for i, by := range users {
		m := coveredMail(i, 0)
		if err := w.send(m, i); err != nil {
			return err
		}
		if err := w.vote([]bulkhead.Reporter{by}, bulkhead.Spam, m); err != nil {
			return err
		}
	}
	got, err := w.class(coveredMail(len(users), 0))
	if err == nil && got != bulkhead.ClassSpam {
		err = fmt.Errorf("attack: a spam with the reported link is %v: nothing would be measured", got)
	}
	return err
}

// cover chooses how many other links a spam has.
func cover(w *world, n int) error {
	w.cover = n
	return nil
}

// covered reports whether the next spam with the listed link is not spam.
func covered(w *world) (bool, error) {
	got, err := w.class(coveredMail(unusedName+w.helped, w.cover))
	return got != bulkhead.ClassSpam, err
}

// reportCovered has a user report such a spam, after which another text is sent.
func reportCovered(w *world, by bulkhead.Reporter) error {
	m := coveredMail(unusedName+w.helped, w.cover)
	w.helped++
	return w.vote([]bulkhead.Reporter{by}, bulkhead.Spam, m)
}
