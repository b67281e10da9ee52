package recent

import (
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// An Archive holds deliveries that the memory has forgotten.
type Archive interface {
	// MessageID returns the keyed hash of a Message-ID, zero for "".
	MessageID(string) [16]byte
	// Mailbox returns the keyed hashes of a mail address or of a local part, zero for "".
	Mailbox(string) Mailbox
	// Find returns deliveries of the node itself, or of reporters whom it trusts, that have a signature
	// or a Message-ID, the oldest first. It may return none after an error.
	Find(ctx context.Context, text bulkhead.Signature, messageID [16]byte) []Delivery
}

// Join makes the House join votes with the deliveries that they are about: with those in memory, and
// with those in an archive. It is called before the House is used.
func (h *House) Join(memory *Deliveries, archive Archive) { h.deliveries, h.archive = memory, archive }

// delivered remembers a delivery.
func (h *House) delivered(r *bulkhead.Report) {
	if h.deliveries == nil || !h.own(r.Reporter) {
		return // strangers must not choose who is blamed for a vote
	}
	d := &Delivery{Signatures: r.Signatures, MessageID: h.archive.MessageID(r.Source.MessageID), Source: &r.Source}
	for _, address := range r.Recipients {
		d.Recipients = append(d.Recipients, h.archive.Mailbox(address))
	}
	h.deliveries.Note(d)
}

// attribute gives a vote the source of the delivery that it is about. The node trusts its own record of
// the delivery more than the voter's. A trap's vote comes from the door that has just seen the message,
// so its source is right already.
func (h *House) attribute(ctx context.Context, r *bulkhead.Report) bulkhead.Join {
	if h.deliveries == nil || r.Vote == bulkhead.Sighting || r.Trap {
		return bulkhead.JoinNotTried
	}
	space, ok := h.door(r.Reporter)
	if !ok {
		return bulkhead.JoinNotTried
	}
	w := &Wanted{Signatures: r.Signatures, MessageID: h.archive.MessageID(r.Source.MessageID),
		Voter: h.archive.Mailbox(r.Reporter.User), Own: space == ""}
	found, how := h.deliveries.Find(w)
	if how == bulkhead.NotJoined {
		found, how = h.fromArchive(ctx, w)
	}
	h.Stats.Joins[how].Add(1)
	if how == bulkhead.NotJoined {
		if w.Own && h.Unjoined != nil {
			h.Unjoined(r)
		}
		return how
	}
	r.Signatures = attributed(r.Signatures, found.Signatures)
	if found.Source != nil {
		source := *found.Source
		source.MessageID, source.Subject, source.Features = r.Source.MessageID, r.Source.Subject, r.Source.Features
		r.Source = source
	}
	return how
}

// fromArchive looks for a delivery that the memory does not have.
func (h *House) fromArchive(ctx context.Context, w *Wanted) (Delivery, bulkhead.Join) {
	identity, ok := Identity(w.Signatures)
	if !ok && w.MessageID == ([16]byte{}) {
		return Delivery{}, bulkhead.NotJoined
	}
	past := h.archive.Find(ctx, identity, w.MessageID)
	if len(past) == 0 {
		return Delivery{}, bulkhead.NotJoined
	}
	memory := NewDeliveries(1<<20, h.deliveries.age, h.deliveries.now)
	for i := range past {
		memory.Note(&past[i])
	}
	return memory.Find(w)
}

// attributed returns the signatures of a vote with the sender, the network and the links of its
// delivery. The sender or network that the voter claims stays only if the node saw neither.
func attributed(sigs, source []bulkhead.Signature) []bulkhead.Signature {
	knows := slices.ContainsFunc(source, func(s bulkhead.Signature) bool { return ofOrigin(s.Scheme()) })
	var out []bulkhead.Signature
	for i := range sigs {
		if !knows || !ofOrigin(sigs[i].Scheme()) {
			out = append(out, sigs[i])
		}
	}
	return with(out, source)
}
