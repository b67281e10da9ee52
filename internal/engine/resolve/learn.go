package resolve

import (
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
)

// Certain is the score from which a message is not learnt as delivered, unless its sender is of good standing.
// Otherwise unreported spam would soon look like wanted mail: readers do not report what is marked already. Mail of
// senders of good standing is not marked.
const Certain = 0.99

// beginLearning starts the decisions of a batch on what is learnt.
func (r *Resolver) beginLearning(v evidence.View) {
	if r.learns() {
		r.opts.Learned.Begin(&r.out.Learned, uint64(max(0, r.opts.Now().Unix())), v.Tally.Live[0].CountsGeometry.KeyID)
	}
}

func (r *Resolver) learns() bool { return r.opts.Learned != nil && r.opts.Learned.On() }

// exactOf returns the index of the signature of a message's exact text, -1 if there is none.
func exactOf(m *Message) int {
	return slices.IndexFunc(m.Signatures, func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.Exact })
}

// learnDelivery learns from a delivered message. The node's own verdicts are not learnt: what it called
// spam, or what its score condemns, counts neither way. It is remembered for votes.
func (r *Resolver) learnDelivery(m *Message) {
	i := exactOf(m)
	switch {
	case !r.learns() || i < 0:
	case m.Seen.Caught || m.Seen.Learned >= Certain && (m.Seen.Flagged || !m.Seen.GoodSender):
		r.opts.Learned.Remember(TextOf(m.Keys[i]), m.Tokens)
	default:
		r.opts.Learned.Deliver(TextOf(m.Keys[i]), m.Tokens, r.recipient(m))
	}
}

// recipient returns in whose mail a delivered message was: the first recipient's. Without recipients it is
// unknown, since the reporter is then a program: two programs may serve one person.
func (r *Resolver) recipient(m *Message) lesson.Person {
	if len(m.Recipients) == 0 {
		return 0
	}
	return r.opts.Learned.Person(m.Recipients[0], true)
}

// person returns the person who has voted. A user is one person, whatever service reports for them.
func (r *Resolver) person(voice, user string) lesson.Person {
	if user != "" {
		voice = bulkhead.Mailbox(user)
	}
	return r.opts.Learned.Person(voice, false)
}

// Learn learns from a message of a collection, by the token of its text. It takes a root.
func (r *Resolver) Learn(who bulkhead.Reporter, text learn.Token, tokens []learn.Token, spam bool) error {
	standing, err := r.opts.Accounts.Standing(who)
	switch {
	case err != nil:
		return err
	case !standing.Root || standing.Weight <= 0:
		return fmt.Errorf("%w: to learn from mail takes a trusted account", bulkhead.ErrForbidden)
	}
	person := r.person(standing.Voice, who.User)
	if spam {
		r.opts.Learned.Report(text, tokens, person)
	} else {
		r.opts.Learned.Deliver(text, tokens, person)
	}
	return nil
}

// TextOf returns the token of a message's text by the key of its exact signature.
func TextOf(exact filter.Key) learn.Token { return learn.Token(exact.Hi) }

// learnVote learns from a vote of a root. A message counts as reported while the votes on its text are
// for spam. The vote of a trap is not learnt, because senders choose what a trap receives.
func (r *Resolver) learnVote(m *Message, who *voter) {
	i := exactOf(m)
	if !r.learns() || i < 0 || !who.Root || who.units == 0 || m.Trap {
		return
	}
	text, votes := TextOf(m.Keys[i]), r.items[i].record.Votes
	if m.Vote == bulkhead.Spam {
		if votes.Spam > votes.Ham {
			r.opts.Learned.Report(text, m.Tokens, r.person(who.voice(), who.reporter.User))
		}
		return
	}
	if votes.Spam <= votes.Ham {
		r.opts.Learned.Withdraw(text, m.Tokens)
	}
	if m.Vote == bulkhead.Ham {
		r.opts.Learned.Deliver(text, m.Tokens, r.person(who.voice(), who.reporter.User))
	}
}

// learnRetraction forgets the report of a message whose votes were taken back. Items of other kinds
// than an exact text are not known by their tokens.
func (r *Resolver) learnRetraction(it *item) {
	if votes := it.record.Votes; r.learns() && !it.pair() && it.facet == bulkhead.TextFacet && votes.Spam <= votes.Ham {
		r.opts.Learned.Withdraw(TextOf(it.key), nil)
	}
}
