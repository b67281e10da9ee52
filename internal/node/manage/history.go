package manage

import (
	"context"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/recent"
)

// History is the history of mail for the API: [api.History].
type History struct {
	Book *logbook.Book
	// Space returns the part of the history that a reporter may name, and false if it has no vote.
	Space func(bulkhead.Reporter) (string, bool)
	// Judge judges messages of the history. It neither records nor remembers them.
	Judge bulkhead.Clearinghouse
}

// History implements [api.History].
func (h *History) History(ctx context.Context, q admin.HistoryQuery) (admin.HistoryPage, error) {
	want := logbook.Query{
		Since: q.Since, Until: q.Until, Door: q.Door, Reporter: q.Reporter, Domain: q.Domain,
		From: q.From, Link: q.Link,
		Message: h.Book.MessageID(q.MessageID), Before: uint64(max(0, q.Before)), Limit: q.Limit,
	}
	if q.Kind != "" {
		kind, err := logbook.ParseKind(q.Kind)
		if err != nil {
			return admin.HistoryPage{}, err
		}
		want.Kind = &kind
	}
	if q.Class != "" {
		class, err := bulkhead.ParseClass(q.Class)
		if err != nil {
			return admin.HistoryPage{}, err
		}
		want.Class = &class
	}
	waiting := q.Outcome == "waiting"
	if waiting {
		q.Outcome = logbook.Reported.String()
	}
	outcome, err := logbook.ParseOutcome(q.Outcome)
	if err != nil {
		return admin.HistoryPage{}, err
	}
	want.Outcome = outcome
	if q.Signature != "" {
		sig, err := bulkhead.ParseSignature(q.Signature)
		if err != nil {
			return admin.HistoryPage{}, err
		}
		want.Signature = &sig
	}
	page, err := h.Book.Search(ctx, want)
	if err != nil {
		return admin.HistoryPage{}, err
	}
	out := admin.HistoryPage{Entries: make([]admin.HistoryEntry, len(page.Entries)), Next: int64(page.Next),
		Read: page.Read}
	if waiting {
		if page.Entries, err = h.stillWaiting(ctx, page.Entries); err != nil {
			return admin.HistoryPage{}, err
		}
		out.Entries = out.Entries[:len(page.Entries)]
	}
	for i := range page.Entries {
		out.Entries[i] = historyEntry(&page.Entries[i])
		out.Entries[i].Signatures = nil
	}
	return out, nil
}

// stillWaiting returns the reports of messages that are suspected at present, or whose report counted and
// lists nothing yet.
func (h *History) stillWaiting(ctx context.Context, all []logbook.Entry) (waiting []logbook.Entry, err error) {
	for i := range all {
		v, err := h.Judge.Check(ctx, bulkhead.Query{Signatures: all[i].Signatures(), Terse: true})
		if err != nil {
			return nil, err
		}
		taken := slices.ContainsFunc(v.Findings,
			func(f bulkhead.Finding) bool { return f.Judged == bulkhead.Revoked })
		if v.Class == bulkhead.ClassSuspected || all[i].Waits && v.Class != bulkhead.ClassSpam && !taken {
			waiting = append(waiting, all[i])
		}
	}
	return waiting, nil
}

// Explain implements [api.History].
func (h *History) Explain(ctx context.Context, id int64) (client.Verdict, bool, error) {
	e, ok, err := h.Book.Get(uint64(max(0, id)))
	if err != nil || !ok {
		return client.Verdict{}, false, err
	}
	// Behind the history and the memory of messages: looking at an entry is not sending mail.
	v, err := h.Judge.Check(ctx, bulkhead.Query{Signatures: e.Signatures()})
	if err != nil {
		return client.Verdict{}, false, err
	}
	return *client.NewVerdict(&v), true, nil
}

// HistoryEntry implements [api.History].
func (h *History) HistoryEntry(_ context.Context, id int64) (admin.HistoryEntry, bool, error) {
	e, ok, err := h.Book.Get(uint64(max(0, id)))
	return historyEntry(&e), ok, err
}

func historyEntry(e *logbook.Entry) admin.HistoryEntry {
	sigs := e.Signatures()
	out := admin.HistoryEntry{
		ID: int64(e.ID), Time: e.Time(), Door: e.Door, Kind: e.Kind.String(), Confidence: e.Confidence,
		Whitelisted: e.White, Trap: e.Trap, Waits: e.Waits, Post: e.Post,
		Reasons: append([]string{}, e.Reasons...), Count: e.Count, Listed: e.Listed,
		Revoked: e.Revoked,
		Account: e.Account, User: e.User, Network: e.Network, From: e.From, Domains: append([]string{}, e.Domains...),
		MessageID: e.Message != logbook.MessageID{}, Subject: e.Subject, SignatureCount: len(sigs), Signatures: sigs,
	}
	if e.Kind == logbook.Checked {
		out.Class = e.Class.String()
	}
	return out
}

// Remembered implements [api.History].
func (h *History) Remembered(ctx context.Context, who bulkhead.Reporter, messageID string,
	entry int64) ([]bulkhead.Signature, error) {
	space, ok := h.Space(who)
	if !ok {
		return nil, fmt.Errorf("%w: this reporter has no vote", bulkhead.ErrForbidden)
	}
	found, whole, err := h.find(ctx, messageID, entry)
	if err != nil {
		return nil, err
	}
	// As with digests, see package recent. A user trusted by the administrator may name any entry, and
	// sees its reporter.
	found = slices.DeleteFunc(found, func(e logbook.Entry) bool {
		return e.Space != "" && e.Space != space && (space != "" || entry == 0)
	})
	message, err := h.meant(ctx, found, whole, who.User)
	if err != nil {
		return nil, err
	}
	var best []bulkhead.Signature
	white := false
	for i := range found {
		if sigs := found[i].Signatures(); sameText(sigs, message) {
			white = white || found[i].White
			if len(sigs) > len(best) {
				best = sigs
			}
		}
	}
	switch {
	case white:
		return nil, api.ErrWhite
	case len(best) == 0:
		return nil, api.ErrNotRemembered
	}
	return best, nil
}

// meant returns a message with the text that a vote by Message-ID is about. Senders choose the Message-IDs of
// their mail, so several texts are no reason to refuse a vote. The texts that were delivered to the user count,
// or else the texts that were delivered to others, or else the texts that were checked. Of several, the vote is
// on the latest whose standing is the lowest. A spammer who sends wanted mail once more, with the Message-ID of
// its spam, therefore turns no report of the spam against that mail. If found is not whole, it may lack what was
// delivered to the user, and other texts do not count in its place.
func (h *History) meant(ctx context.Context, found []logbook.Entry, whole bool,
	user string) ([]bulkhead.Signature, error) {
	voter := recent.Mailbox(h.Book.Mailbox(user))
	var mine, delivered, checked [][]bulkhead.Signature
	for i := range found { // the latest first
		sigs := found[i].Signatures()
		d, ok := DeliveryIn(&found[i], sigs)
		switch _, has := recent.Identity(sigs); {
		case !has:
		case ok && d.To(voter):
			mine = another(mine, sigs)
		case ok:
			delivered = another(delivered, sigs)
		default:
			checked = another(checked, sigs)
		}
	}
	if !whole && user != "" {
		delivered, checked = nil, nil
	}
	for _, texts := range [][][]bulkhead.Signature{mine, delivered, checked} {
		if len(texts) > 0 {
			return h.lowest(ctx, texts)
		}
	}
	return nil, nil
}

// maxTexts is the largest number of texts with one Message-ID that are judged for a vote.
const maxTexts = 16

// another appends the signatures of a text that is not among texts yet.
func another(texts [][]bulkhead.Signature, sigs []bulkhead.Signature) [][]bulkhead.Signature {
	same := func(t []bulkhead.Signature) bool { return sameText(t, sigs) }
	if len(texts) == maxTexts || slices.ContainsFunc(texts, same) {
		return texts
	}
	return append(texts, sigs)
}

// sameText reports whether two messages have the same text, or the same first file or picture without one.
func sameText(a, b []bulkhead.Signature) bool {
	x, _ := recent.Identity(a) // invalid for none
	y, _ := recent.Identity(b)
	return x == y
}

// lowest returns the first of the texts whose standing is the lowest. Good mail has the highest, then mail that
// many received.
func (h *History) lowest(ctx context.Context, texts [][]bulkhead.Signature) (message []bulkhead.Signature, err error) {
	least := 0
	for _, sigs := range texts {
		standing := 1
		if len(texts) > 1 {
			v, err := h.Judge.Check(ctx, bulkhead.Query{Signatures: sigs, Terse: true})
			if err != nil {
				return nil, err
			}
			switch {
			case v.Whitelisted != "" || v.Class == bulkhead.ClassGood:
				standing = 3
			case v.Class == bulkhead.ClassBulk:
				standing = 2
			}
		}
		if least == 0 || standing < least {
			message, least = sigs, standing
		}
	}
	return message, nil
}

// DeliveryIn returns the delivery that an entry of the history records. sigs are the signatures of
// the entry. ok is false for a vote, for a message that was checked and not delivered, and for the
// message of a stranger.
func DeliveryIn(e *logbook.Entry, sigs []bulkhead.Signature) (d recent.Delivery, ok bool) {
	if e.Count == 0 || e.Kind != logbook.Checked && e.Kind != logbook.Sighted || e.Space != "" || !recent.Whole(sigs) {
		return d, false
	}
	d = recent.Delivery{Signatures: sigs, MessageID: e.Message, Seen: e.Time()}
	for _, m := range e.Recipients {
		d.Recipients = append(d.Recipients, recent.Mailbox(m))
	}
	return d, true
}

// find returns entries of one message. whole reports whether these are all of them.
func (h *History) find(ctx context.Context, messageID string, entry int64) (found []logbook.Entry, whole bool,
	err error) {
	if messageID == "" {
		e, ok, err := h.Book.Get(uint64(max(0, entry)))
		if !ok || err != nil {
			return nil, false, err
		}
		return []logbook.Entry{e}, true, nil
	}
	id := h.Book.MessageID(messageID)
	if id == (logbook.MessageID{}) {
		return nil, false, fmt.Errorf("%w: empty Message-ID", bulkhead.ErrMalformed)
	}
	q := logbook.Query{Message: id, Limit: logbook.MaxPage}
	for range maxWithID / logbook.MaxPage { // others may send many messages with this Message-ID
		page, err := h.Book.Search(ctx, q)
		if err != nil {
			return nil, false, err
		}
		found = append(found, page.Entries...)
		if q.Before = page.Next; q.Before == 0 {
			return found, true, nil
		}
	}
	return found, false, nil
}

// maxWithID is the largest number of entries with one Message-ID that are read.
const maxWithID = 10_000
