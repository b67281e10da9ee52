package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A town is a node with many users that has verified mail of its own every day.
type town struct {
	*testing.T
	*clock
	*Engine
	texts int // that were sent
}

func newTown(t *testing.T) *town {
	c := newClock()
	w := &town{T: t, clock: c, Engine: open(t, Options{
		Now:   c.Now,
		Tally: BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 100_000, Error: 1e-4},
		Block: BookOptions{Generation: 7 * 24 * time.Hour, Keep: 8, Capacity: 50_000, Error: 1e-6},
	})}
	if err := w.PutAccount(t.Context(), trust.Account{Name: "site", Role: trust.Trusted, Weight: 1}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		for i := range 60 {
			w.deliver(i, w.text(bulkhead.NamedSignature(bulkhead.Sender, fmt.Sprint("usual", i, ".example"))))
		}
		c.Advance(24 * time.Hour)
	}
	return w
}

// text returns the signatures of a new text, together with others.
func (w *town) text(others ...bulkhead.Signature) []bulkhead.Signature {
	w.texts++
	out := []bulkhead.Signature{sig(bulkhead.Exact, w.texts)}
	for i := range 20 {
		out = append(out, sig(bulkhead.Near, 100*w.texts+i))
	}
	return append(out, others...)
}

func (w *town) reporter(user int) bulkhead.Reporter {
	return bulkhead.Reporter{Account: "site", User: fmt.Sprint("user", user)}
}

// deliver checks a message, counts it as one to a user, and returns its class.
func (w *town) deliver(user int, sigs []bulkhead.Signature) bulkhead.Class {
	w.Helper()
	class := verdictOf(w, w.Engine, sigs...).Class
	report(w, w.Engine, bulkhead.Report{
		Signatures: sigs, Reporter: bulkhead.Reporter{Account: "site"},
		Recipients: []string{fmt.Sprintf("user%d@here.example", user)},
	})
	return class
}

func (w *town) complain(user int, sigs []bulkhead.Signature) {
	w.Helper()
	report(w, w.Engine, bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam, Reporter: w.reporter(user)})
}

// TestCommonLinks: forty verified senders have linked to a mail service, a form host or a
// shortener, and six users report one spam each that links there. Mail of twenty further
// verified senders with such a link is not spam; nor is it after five deliveries alone.
func TestCommonLinks(t *testing.T) {
	for _, links := range [][]string{
		{"list-manage.com", "list-manage.com/%d"}, {"google.com", "docs.google.com/forms-%d"}, {"bit.ly", "bit.ly/%d"},
	} {
		for _, before := range []int{5, 40} {
			for _, verified := range []bool{false, true} {
				t.Run(fmt.Sprint(links[0], before, verified), func(t *testing.T) {
					w := newTown(t)
					mail := func(n int, who string) []bulkhead.Signature {
						sigs := w.text(bulkhead.NamedSignature(bulkhead.Link, links[0]),
							bulkhead.NamedSignature(bulkhead.Link, fmt.Sprintf(links[1], n)))
						if who == "" {
							return append(sigs, bulkhead.NamedSignature(bulkhead.Network, fmt.Sprintf("198.51.%d.0/24", n%250)))
						}
						return append(sigs, bulkhead.NamedSignature(bulkhead.Sender, who),
							bulkhead.NamedSignature(bulkhead.Sender, "news@"+who))
					}
					for i := range before {
						if c := w.deliver(i, mail(i, fmt.Sprint("shop", i, ".example"))); c >= bulkhead.ClassSuspected {
							t.Fatalf("%v before any report", c)
						}
						w.Advance(12 * 24 * time.Hour / time.Duration(before))
					}
					for i := range 6 {
						who := ""
						if verified {
							who = fmt.Sprint("evil", i, ".example")
						}
						spam := mail(1000+i, who)
						w.deliver(100+i, spam)
						w.complain(100+i, spam)
					}
					for i := range 20 {
						if c := w.deliver(200+i, mail(2000+i, fmt.Sprint("firm", i, ".example"))); c == bulkhead.ClassSpam {
							t.Errorf("mail of firm%d.example is spam", i)
						}
					}
				})
			}
		}
	}
}

// TestCommonParts: unrelated verified senders attach the same icon, or have the same number by which meetings are
// joined, and six users report one spam each that has it. Further mail with it is neither spam nor suspected if five
// senders or more were seen. A file or contact of fewer senders condemns.
func TestCommonParts(t *testing.T) {
	for _, part := range []bulkhead.Signature{sig(bulkhead.Attachment, 1),
		bulkhead.NamedSignature(bulkhead.Contact, "tel:15550100")} {
		for senders, want := range map[int]bool{4: true, 5: false, 12: false} {
			w := newTown(t)
			mail := func(who string) []bulkhead.Signature {
				return w.text(part, bulkhead.NamedSignature(bulkhead.Sender, who))
			}
			for i := range senders {
				w.deliver(i, mail(fmt.Sprint("firm", i, ".example")))
				w.Advance(24 * time.Hour)
			}
			w.Advance(12 * time.Hour) // the last sender counts from noon on
			for i := range 6 {
				w.complain(i, mail(fmt.Sprint("evil", i, ".example")))
			}
			if v := verdictOf(t, w.Engine, mail("other.example")...); v.Class >= bulkhead.ClassSuspected != want {
				t.Errorf("%v of %d senders: %v by %s: %q", part.Scheme(), senders, v.Class, v.Rule, v.Reasons)
			}
		}
	}
}

// TestUsualFile: a bank has its logo in the mail of four days, and users report phishing that imitates it with the
// same file. The bank's own mail stays wanted until there are more reports than such mail. A file that its accounts
// send on a single day is no usual one, and mail of other senders with the logo is spam.
func TestUsualFile(t *testing.T) {
	const perDay = 5
	for _, tt := range []struct{ days, spared, spam int }{{4, 4 * perDay, 4*perDay + 2}, {1, 0, 4}} {
		w := newTown(t)
		from := func(who string) []bulkhead.Signature {
			return w.text(sig(bulkhead.Attachment, 1), bulkhead.NamedSignature(bulkhead.Sender, who))
		}
		for day := range 4 {
			for i := range perDay {
				if mail := from("bank.example"); day < 4-tt.days {
					w.deliver(i, append(mail[:21:21], mail[22:]...)) // without the file
				} else {
					w.deliver(i, mail)
				}
			}
			w.Advance(24 * time.Hour)
		}
		w.Advance(12 * time.Hour) // the last day is settled from noon on
		for i := range 30 {
			w.complain(i, from(fmt.Sprint("evil", i, ".example")))
			v := verdictOf(t, w.Engine, from("bank.example")...)
			if spam := v.Class == bulkhead.ClassSpam; spam && i < tt.spared || !spam && i+1 >= tt.spam {
				t.Errorf("a file of %d days after %d reports: the bank's mail is %v by %s", tt.days, i+1, v.Class, v.Rule)
			}
		}
		if v := verdictOf(t, w.Engine, from("other.example")...); v.Class != bulkhead.ClassSpam {
			t.Errorf("a file of %d days: mail of another sender is %v by %s, want spam", tt.days, v.Class, v.Rule)
		}
	}
}

// TestGateway: five deliveries of a gateway's network and six reports make nothing spam.
func TestGateway(t *testing.T) {
	w := newTown(t)
	gateway := bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24")
	for i := range 5 {
		w.deliver(i, w.text(gateway))
	}
	for i := range 6 {
		w.complain(10+i, w.text(gateway))
	}
	if c := w.deliver(30, w.text(gateway)); c != bulkhead.ClassSuspected {
		t.Errorf("the gateway's next mail is %v, want suspected", c)
	}
}

// TestListServer: more than two thirds of the mail of a list server's network is spam, and no
// sender is verified. No ham of the lists is ever spam. Copies of spam that were caught are
// deliveries of the network, and count as long as votes do, so that the ham is not suspected once
// the reports have ended and few of the network's mails were reported.
func TestListServer(t *testing.T) {
	w := newTown(t)
	server := bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24")
	week := func(reported int) (suspected int) {
		for day := range 7 {
			for i := range 7 {
				user := 100*i + 7*reported + day
				spam := w.text(server)
				w.deliver(user, spam)
				if i < reported {
					w.complain(user, spam)
				}
				for copies := range 8 {
					w.deliver(user+50+copies, spam)
				}
				switch w.deliver(user+500, w.text(server)) {
				case bulkhead.ClassSpam:
					t.Errorf("ham of day %d is spam, with %d of 7 texts reported", day, reported)
				case bulkhead.ClassSuspected:
					suspected++
				}
			}
			w.Advance(24 * time.Hour)
		}
		return suspected
	}
	if n := week(7); n == 0 {
		t.Error("no ham of a network that was reported often is suspected")
	}
	for range 3 {
		week(0)
	}
	if n := week(0); n > 0 {
		t.Errorf("%d of 49 hams are suspected four weeks after the last report", n)
	}
}

// TestTwoMistakes: people of one provider, or lists of one server, write to the same fifty readers on
// one day. Two of the readers report one of them by mistake. Further mail of that one is not spam,
// because all fifty deliveries count for it.
func TestTwoMistakes(t *testing.T) {
	for _, tt := range []struct {
		name string
		mail func(w *town, who int) []bulkhead.Signature
	}{
		{"provider", func(w *town, who int) []bulkhead.Signature {
			return w.text(bulkhead.NamedSignature(bulkhead.Sender, "provider.example"),
				bulkhead.NamedSignature(bulkhead.Sender, fmt.Sprintf("person%d@provider.example", who)))
		}},
		{"list server", func(w *town, who int) []bulkhead.Signature {
			return w.text(bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24"),
				bulkhead.NamedSignature(bulkhead.Link, "server.example"),
				bulkhead.NamedSignature(bulkhead.Link, fmt.Sprint("server.example/list", who)))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTown(t)
			for who := range 6 {
				mail := tt.mail(w, who)
				for user := range 50 {
					w.deliver(user, mail)
				}
				if who == 5 {
					w.complain(1, mail)
					w.complain(2, mail)
				}
			}
			for user := range 50 {
				if v := verdictOf(w, w.Engine, tt.mail(w, 5)...); v.Class == bulkhead.ClassSpam {
					t.Fatalf("to user %d: %v by %s: %q", user, v.Class, v.Rule, v.Reasons)
				}
			}
		})
	}
}
