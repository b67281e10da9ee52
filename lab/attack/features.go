package attack

import (
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
)

// learnBytes is the memory for words of a node that learns.
const learnBytes = 8 << 20

// careless is the largest step of wanted_lost.
const careless = 5

// wantedText is a letter of a sender of whom a node has seen nothing.
var wantedText = worded(letter("a first letter").from("eve", "new.example").withoutLinks(), "minutes")

// wantedNamed is such a letter with a claimed name.
var wantedNamed = wantedText.named("the new bakery")

// byFeatures returns the attacks on what a node does beside counting votes: learning words, counting the copies of
// a text, keeping votes for later, and being as careful as its operator wants.
func byFeatures() []Scenario {
	return []Scenario{
		{Name: "have a new sender's mail suspected by its words", Means: Spams, learns: true, daily: wordedMail,
			before: likes(wantedText), strike: poison, holds: unwanted(wantedText), mend: says(bulkhead.Ham, wantedText)},
		{Name: "have a new sender's mail suspected by its words", Means: Mailboxes, learns: true, daily: wordedMail,
			before: likes(wantedText), strike: condemnWords, holds: unwanted(wantedText), mend: says(bulkhead.Ham, wantedText)},
		{Name: "list a new sender's mail by its words and its claimed name", Means: Mailboxes, learns: true,
			daily: wordedMail, before: likes(wantedNamed), strike: condemnNamed, holds: is(bulkhead.ClassSpam, wantedNamed),
			mend: says(bulkhead.Ham, wantedNamed)},
		{Name: "hide spam by chaff in mail to one's own mailbox", Means: Sendings, learns: true, daily: wordedMail,
			strike: chaff, holds: hidden, mend: reportHidden},
		{Name: "hide spam by votes for its words", Means: Mailboxes, learns: true, daily: wordedMail,
			strike: vouchWords, holds: hidden, mend: reportHidden},
		{Name: "hide changed copies of a reported text by copies to own mailboxes", Means: Inboxes, daily: dailyNewsletter,
			strike: dilute, holds: diluted, mend: reportDiluted},
		{Name: "list an issue of an established newsletter", Means: Repeats, daily: newsletter, before: likes(issue),
			strike: repeat, holds: is(bulkhead.ClassSpam, issue), mend: says(bulkhead.Ham, issue)},
		{Name: "list an issue where wanted_lost is largest", Means: Mailboxes, daily: newsletter, before: carelessly(issue),
			strike: accuse(issue), holds: is(bulkhead.ClassSpam, issue), mend: says(bulkhead.Ham, issue)},
		{Name: "list a bank's statements by clones where wanted_lost is largest", Means: Mailboxes, daily: statements,
			before: carelessly(statement), strike: accuseClones, holds: is(bulkhead.ClassSpam, statement),
			mend: says(bulkhead.Ham, statement)},
	}
}

// worded returns the mail with words of a kind.
func worded(m mail, kind string) mail {
	m.words = nil
	for i := range 20 {
		m.words = append(m.words, fmt.Sprintf("w:%s%d", kind, i))
	}
	return m
}

// spamOf returns a spam of a domain of its own, with words of a kind.
func spamOf(name, kind string) mail {
	return worded(letter("spam "+name).from("win", name+".example").withoutLinks(), kind)
}

// wordedMail is a day of wanted mail of ten senders, and of four spams, of which two are reported.
func wordedMail(w *world, day int) error {
	for i := range 10 {
		m := letter(fmt.Sprint("mail ", i, " of day ", day)).from("bob", fmt.Sprintf("friend%d.example", i)).withoutLinks()
		if err := w.send(worded(m, "minutes"), 10*day+i); err != nil {
			return err
		}
	}
	for i := range 4 {
		m := spamOf(fmt.Sprint("evil", 4*day+i), "prize")
		if err := w.send(m, 4*day+i); err != nil {
			return err
		}
		if i%2 == 0 {
			if err := w.vote([]bulkhead.Reporter{w.user("reader", 4*day+i)}, bulkhead.Spam, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// poison sends n spams with the words of wanted mail, which readers report.
func poison(w *world, n int) error {
	for i := range n {
		m := spamOf(fmt.Sprint("poison", i), "minutes")
		if err := errors.Join(w.send(m, i), w.vote([]bulkhead.Reporter{w.user("reader", i)}, bulkhead.Spam, m)); err != nil {
			return err
		}
	}
	return nil
}

// condemnWords has each of the attacker's mailboxes report a mail of its own with the words of wanted mail.
func condemnWords(w *world, _ int) error {
	for i, by := range w.attacks {
		if err := w.vote([]bulkhead.Reporter{by}, bulkhead.Spam, spamOf(fmt.Sprint("poison", i), "minutes")); err != nil {
			return err
		}
	}
	return nil
}

// condemnNamed has the first of the attacker's mailboxes report a mail with the claimed name of wanted mail, and all of
// them mails with its words.
func condemnNamed(w *world, n int) error {
	if err := w.vote(w.attacks[:1], bulkhead.Spam, spamOf("named", "minutes").named("the new bakery")); err != nil {
		return err
	}
	return condemnWords(w, n)
}

// chaff sends n mails with the words of spam to a mailbox of the attacker's own, each from another domain.
func chaff(w *world, n int) error {
	if err := w.known(); err != nil {
		return err
	}
	for i := range n {
		if err := w.deliver(spamOf(fmt.Sprint("chaff", i), "prize"), "mallory@here.example"); err != nil {
			return err
		}
	}
	return nil
}

// vouchWords has each of the attacker's mailboxes vote for a mail of its own with the words of spam.
func vouchWords(w *world, _ int) error {
	if err := w.known(); err != nil {
		return err
	}
	for i, by := range w.attacks {
		m := spamOf(fmt.Sprint("chaff", i), "prize")
		if err := errors.Join(w.deliver(m, by.User+"@here.example"), w.vote([]bulkhead.Reporter{by}, bulkhead.Ham, m)); err !=
			nil {
			return err
		}
	}
	return nil
}

// known returns an error unless a node suspects spam by its words before the attack.
func (w *world) known() error {
	if is, err := hidden(w); err != nil || !is {
		return err
	}
	return errors.New("attack: the words of spam are not known: nothing would be measured")
}

// hidden reports whether fresh spam is not suspected by its words.
func hidden(w *world) (bool, error) {
	got, err := w.class(spamOf(fmt.Sprint("fresh", unusedName+w.helped), "prize"))
	return got != bulkhead.ClassSpam && got != bulkhead.ClassSuspected, err
}

// reportHidden has a user report such a spam, after which another one is sent.
func reportHidden(w *world, by bulkhead.Reporter) error {
	m := spamOf(fmt.Sprint("fresh", unusedName+w.helped), "prize")
	w.helped++
	return errors.Join(w.send(m, w.helped), w.vote([]bulkhead.Reporter{by}, bulkhead.Spam, m))
}

// bareCopy returns a changed copy of a text without links, of a sender of whom nothing is verified.
func bareCopy(template string, i int) mail {
	return copyOf(template, fmt.Sprint(i)).unverified("203.0.113.0/24")
}

// dilute has n changed copies of a text delivered to mailboxes of the attacker's, and further copies to one reader
// and all honest ones, who report them.
func dilute(w *world, n int) error {
	for i, template := range []string{"a text without copies", "a diluted text"} {
		for k := range i * n {
			if err := w.deliver(bareCopy(template, k), fmt.Sprintf("mallory%d@here.example", k)); err != nil {
				return err
			}
		}
		for k := range 1 + len(w.honest) {
			m, by := bareCopy(template, n+k), w.user("reader", k)
			if err := errors.Join(w.send(m, k), w.vote([]bulkhead.Reporter{by}, bulkhead.Spam, m)); err != nil {
				return err
			}
		}
	}
	if got, err := w.class(bareCopy("a text without copies", unusedName)); err != nil || got != bulkhead.ClassSpam {
		return errors.Join(err, fmt.Errorf("attack: a changed copy is %v without the attack: nothing would be measured", got))
	}
	return nil
}

// diluted reports whether the next changed copy is not spam.
func diluted(w *world) (bool, error) {
	got, err := w.class(bareCopy("a diluted text", unusedName+w.helped))
	return got != bulkhead.ClassSpam, err
}

// reportDiluted has a user report the next changed copy.
func reportDiluted(w *world, by bulkhead.Reporter) error {
	m := bareCopy("a diluted text", unusedName+w.helped)
	w.helped++
	return errors.Join(w.send(m, w.helped), w.vote([]bulkhead.Reporter{by}, bulkhead.Spam, m))
}

// repeat has one mailbox report a message n times, a day apart, as a spool of votes that is brought again does. The
// newsletter goes on.
func repeat(w *world, n int) error {
	for i := range n {
		if err := w.vote([]bulkhead.Reporter{w.user("mallory", 0)}, bulkhead.Spam, issue); err != nil {
			return err
		}
		if err := newsletter(w, agedDays+i); err != nil {
			return err
		}
		w.pass(dayLength)
	}
	return nil
}

// carelessly sets the largest step of wanted_lost, and lets all honest users vote for a message.
func carelessly(m mail) func(*world) error {
	return func(w *world) error {
		w.SetWantedLost(careless)
		return likes(m)(w)
	}
}
