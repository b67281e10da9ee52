// Package consequence describes the effect of changes that are hard to undo, with the numbers. The
// pages and the command line show the description and ask before they make the change.
package consequence

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// A Question asks whether to make a change.
type Question struct {
	Title string   // for example "Undo the votes of ann?"
	Verb  string   // label of the button: "Undo votes"
	Facts []string // effects of the change, a sentence each
}

// Undo asks whether to take back the votes that name gave at or after a time.
func Undo(name string, since time.Time, u *admin.Undone) Question {
	q := Question{Title: "Undo the votes of " + name + "?", Verb: "Undo votes"}
	if u.Votes == 0 {
		q.add("No vote of %s since %s is remembered, so nothing changes.", name, minute(since))
	} else {
		q.add("Undo takes back the votes of %s on %s.", name, plural(u.Votes, "signature"))
		q.add("%s from the blocklist; %s to it.", removed(u.Off), returned(u.On))
	}
	if u.Oldest.After(since) {
		q.add("Votes before %s are not remembered, and stay.", minute(u.Oldest))
	} else {
		q.add("Votes before %s stay.", minute(since))
	}
	q.add("Later votes of %s count as before.", name)
	return q
}

// Evict asks whether to drop a peer.
func Evict(name string, l *admin.PeerLoss) Question {
	q := Question{Title: "Evict " + name + "?", Verb: "Evict"}
	q.add("Evict drops what %s counted: %s.", name, counts(l))
	q.add("Messages of %s are refused from then on.", name)
	q.add("To come back, %s needs a new invitation, or \"bulkhead peer add\" with its key.", name)
	return q
}

// Forget asks whether to drop what is kept of incarnations that a peer has lost with its store.
func Forget(name string, former []admin.Incarnation) Question {
	q := Question{Title: "Forget what " + name + " has lost?", Verb: "Forget"}
	if len(former) == 0 {
		q.add("Nothing is kept of former incarnations of %s, so nothing changes.", name)
		return q
	}
	for _, f := range former {
		q.add("Forget drops the incarnation of %s: %s, %s.", minute(time.UnixMilli(int64(f.Incarnation))),
			plural(f.Keys-min(f.Keys, f.Listed), "key"), plural(f.Listed, "listing"))
	}
	q.add("This node may have the only copy. %s cannot take back from it what is dropped.", name)
	q.add("What %s has counted since stays.", name)
	return q
}

// Rollback asks whether to drop the generations of a peer since a time.
func Rollback(name string, since time.Time, l *admin.PeerLoss) Question {
	q := Question{Title: "Roll back " + name + "?", Verb: "Roll back"}
	q.add("Roll back drops what %s counted in generations that began since %s: %s.", name, minute(since), counts(l))
	q.add("These generations are not fetched again.")
	q.add("Earlier generations stay, and generations that begin later count.")
	return q
}

// Close asks whether to close an account.
func Close(name string, c *admin.Closing) Question {
	q := Question{Title: "Close the account " + name + "?", Verb: "Close account"}
	q.add("%s can no longer check, report or log in; %s now.", name, ended(c.Sessions))
	if len(c.AnswersFor) > 0 {
		q.add("Reports of %s weigh nothing while it is closed: %s answers for them.", strings.Join(c.AnswersFor, ", "), name)
	}
	q.add("Its votes on %s stay; Undo takes them back.", plural(c.Votes, "signature"))
	q.add("The name stays reserved, and the account can be opened again.")
	return q
}

// NewToken asks whether to replace the token of an account.
func NewToken(name string) Question {
	q := Question{Title: "Make a new token for " + name + "?", Verb: "Make a new token"}
	q.add("The present token of %s stops working at once, in every program that has it.", name)
	q.add("The new token is shown once.")
	return q
}

// RemoveSecret asks whether to remove the secret of an account for a protocol.
func RemoveSecret(name, protocol string) Question {
	q := Question{Title: fmt.Sprintf("Remove the secret of %s for %s?", name, protocol), Verb: "Remove"}
	if protocol == "pages" {
		q.add("%s can no longer log in with a name and password.", name)
	} else {
		q.add("The %s clients of %s are no longer known as %s: their reports are refused, or count as anonymous.", protocol,
			name, name)
	}
	q.add("The secret cannot be shown or restored; a new one can be set.")
	return q
}

// Withdraw asks whether to make an invitation void.
func Withdraw(i *admin.Invitation) Question {
	name := i.Name
	if name == "" {
		name = i.ID
	}
	q := Question{Title: "Withdraw the invitation of " + name + "?", Verb: "Withdraw"}
	q.add("No node can join with it any more. It has been shown %s, of %s allowed.", plural(len(i.Joiners), "time"),
		number(i.Uses))
	q.add("Nodes that joined with it stay peers.")
	return q
}

// Reload asks whether to read the configuration file again.
func Reload(c *admin.ConfigCheck) Question {
	q := Question{Title: "Read the configuration file again?", Verb: "Read the file"}
	q.add("%s at once.", takesEffect(len(c.Changed)))
	if len(c.Restart) > 0 {
		q.add("%s until a restart: %s.", waits(len(c.Restart)), strings.Join(c.Restart, ", "))
	}
	return q
}

func takesEffect(n int) string {
	if n == 1 {
		return "1 key takes effect"
	}
	return number(n) + " keys take effect"
}

func waits(n int) string {
	if n == 1 {
		return "1 key waits"
	}
	return number(n) + " keys wait"
}

func (q *Question) add(format string, args ...any) {
	q.Facts = append(q.Facts, fmt.Sprintf(format, args...))
}

// counts lists the counts of a peer that would be dropped.
func counts(l *admin.PeerLoss) string {
	if l.Arrays == 0 {
		return "nothing, since this node holds none of it"
	}
	return fmt.Sprintf("%s, %s, %s", plural(l.Counted, "key"), plural(l.Listed, "listing"),
		plural(l.Revoked, "revocation"))
}

func removed(n int) string {
	if n == 1 {
		return "1 listing is removed"
	}
	return number(n) + " listings are removed"
}

func returned(n int) string {
	if n == 1 {
		return "1 returns"
	}
	return number(n) + " return"
}

func ended(n int) string {
	if n == 1 {
		return "1 log-in ends"
	}
	return number(n) + " log-ins end"
}

// minute formats a time to the minute.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

func plural[N int | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}

// number formats a non-negative number with commas between thousands.
func number[N int | uint64](n N) string {
	digits := strconv.FormatUint(uint64(n), 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
