// Package trial has bulkhead's test message: mail that every door of every node calls spam, and
// that cannot be reported, counted or taken off a list. It tests the path from a mail server to the
// node and back, as GTUBE and EICAR do for other programs.
//
// Mail with its text is spam. Digests of Razor and Pyzor can be forged, so mail that shares only a
// digest with it does not count as the test message if the whole mail is known.
//
// A [Prober] asks a running node about the message through each of its doors, as the door's clients
// do. For a door that fails it reports the reason and the remedy. The node counts none of these
// requests.
package trial

import (
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// Message is the test message. It is also recognised with any other header.
const Message = "From: bulkhead <test@example.com>\r\n" +
	"To: postmaster@example.com\r\n" +
	"Subject: bulkhead test message\r\n" +
	"Date: Mon, 02 Mar 2026 09:00:00 +0000\r\n" +
	"Message-ID: <bulkhead-test-message@example.com>\r\n" +
	"MIME-Version: 1.0\r\n" +
	"Content-Type: text/plain; charset=us-ascii\r\n" +
	"\r\n" + Text

// Text is the body of the test message: long enough for the digests of all protocols.
const Text = "BULKHEAD-STANDARD-TEST-MESSAGE-4c1f0d7e9b2a4835a6d8e3f75b90c214\r\n" +
	"\r\n" +
	"This is the test message of bulkhead, the collaborative spam clearinghouse. It\r\n" +
	"advertises nothing, and nobody has to do anything about it. Every bulkhead node\r\n" +
	"judges this text to be spam, whichever front door it comes through, so that an\r\n" +
	"administrator can see whether the way from the mail server to the node and back\r\n" +
	"is open: the mail should end up wherever spam ends up on this system, and a\r\n" +
	"header or a log line should name bulkhead as the reason.\r\n" +
	"\r\n" +
	"The message is never counted. Reports about it are accepted and forgotten, it is\r\n" +
	"not kept in any filter, it does not travel to other nodes, and nobody who sends\r\n" +
	"or receives it gains or loses any standing. It may therefore be sent as often as\r\n" +
	"anybody likes, from any address, to any mailbox of which the owner agrees.\r\n" +
	"\r\n" +
	"If this mail has arrived in an inbox instead, something between the mail server\r\n" +
	"and the node is not as it should be. The command bulkhead doctor sends the same\r\n" +
	"text through each door of a running node, shows which of them answer, and says\r\n" +
	"what to mend where one does not: a wrong port, missing permissions, a socket out\r\n" +
	"of reach, or a score of zero.\r\n"

// Reason is the reason in a verdict on the test message.
const Reason = "the test message of bulkhead, which is spam by definition and never counted"

// IsReason reports whether reasons are from a verdict on the test message.
func IsReason(reasons []string) bool { return slices.Contains(reasons, Reason) }

// A House is a Counter in front of another one, and recognises the test message. Its methods may be
// called concurrently.
type House struct {
	bulkhead.Counter
	exact   bulkhead.Signature
	digests []bulkhead.Signature // by which clients of other protocols recognise it
}

// New returns a House in front of another Counter. sigs are the signatures of [Message] as the node
// computes them.
func New(house bulkhead.Counter, sigs []bulkhead.Signature) *House {
	h := &House{Counter: house}
	for i := range sigs {
		switch s := sigs[i].Scheme(); {
		case s == bulkhead.Exact:
			h.exact = sigs[i]
		case digest(s):
			h.digests = append(h.digests, sigs[i])
		}
	}
	return h
}

// digest reports whether a scheme signs the whole of a text.
func digest(s bulkhead.Scheme) bool {
	switch s {
	case bulkhead.RazorE4, bulkhead.PyzorDigest, bulkhead.DCCBody, bulkhead.DCCFuz1, bulkhead.DCCFuz2, bulkhead.RspamdText:
		return true
	}
	return false
}

// one reports whether a digest is one of the test message's.
func (h *House) one(s *bulkhead.Signature) bool {
	if !digest(s.Scheme()) {
		return false
	}
	for i := range h.digests {
		if h.digests[i] == *s {
			return true
		}
	}
	return false
}

// is reports whether signatures belong to the test message. If there is a hash of the text, the
// hash decides. Otherwise there must be digests, and all of them must be the test message's.
func (h *House) is(sigs []bulkhead.Signature) bool {
	own, others := false, false
	for i := range sigs {
		switch s := sigs[i].Scheme(); {
		case s == bulkhead.Exact:
			return sigs[i] == h.exact
		case h.one(&sigs[i]):
			own = true
		case digest(s):
			others = true
		}
	}
	return own && !others
}

// verdict returns the verdict on the test message.
func verdict(sigs []bulkhead.Signature) bulkhead.Verdict {
	v := bulkhead.Verdict{Class: bulkhead.ClassSpam, Judged: bulkhead.JudgedSpam, Confidence: 100, SpamVotes: 1,
		Reasons: []string{Reason}}
	for i := range sigs {
		v.Findings = append(v.Findings, bulkhead.Finding{Signature: sigs[i], Spam: 1, Judged: bulkhead.JudgedSpam,
			Confidence: 100})
	}
	return v
}

// Check implements [bulkhead.Clearinghouse].
func (h *House) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	if h.is(q.Signatures) {
		return verdict(q.Signatures), nil
	}
	return h.Counter.Check(ctx, q)
}

// CheckBatch checks queries[i] into verdicts[i]; see [House.Check].
func (h *House) CheckBatch(ctx context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	if !slices.ContainsFunc(queries, func(q bulkhead.Query) bool { return h.is(q.Signatures) }) {
		return bulkhead.CheckBatch(ctx, h.Counter, queries, verdicts)
	}
	for i := range queries {
		v, err := h.Check(ctx, queries[i])
		if err != nil {
			return err
		}
		verdicts[i] = v
	}
	return nil
}

// Report implements [bulkhead.Clearinghouse]. A report of the test message is accepted and changes
// nothing.
func (h *House) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	return h.CountAndReport(ctx, nil, nil, r)
}

// CountAndReport implements [bulkhead.CountReporter]. See [House.Count] and [House.Report].
func (h *House) CountAndReport(ctx context.Context, sigs []bulkhead.Signature, n []uint32,
	r bulkhead.Report) (bulkhead.Receipt, error) {
	sigs, n = h.others(sigs, n)
	if !h.is(r.Signatures) {
		return bulkhead.CountAndReport(ctx, h.Counter, sigs, n, r)
	}
	if len(sigs) > 0 {
		if err := h.Counter.Count(ctx, sigs, n); err != nil {
			return bulkhead.Receipt{}, err
		}
	}
	return bulkhead.Receipt{Whitelisted: len(r.Signatures)}, nil
}

// Look implements [bulkhead.Counter].
func (h *House) Look(ctx context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	if err := h.Counter.Look(ctx, sigs, out, what); err != nil || what&bulkhead.Judgements == 0 {
		return err
	}
	for i := range sigs {
		if h.one(&sigs[i]) {
			out[i].Spam, out[i].Judged, out[i].Confidence = 1, bulkhead.JudgedSpam, 100
		}
	}
	return nil
}

// Count implements [bulkhead.Counter]. Digests of the test message are left out.
func (h *House) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	sigs, n = h.others(sigs, n)
	return h.Counter.Count(ctx, sigs, n)
}

// others returns the signatures that are no digests of the test message, with their numbers.
func (h *House) others(sigs []bulkhead.Signature, n []uint32) ([]bulkhead.Signature, []uint32) {
	first := 0
	for first < len(sigs) && !h.one(&sigs[first]) {
		first++
	}
	if first == len(sigs) || len(sigs) != len(n) {
		return sigs, n
	}
	others, counts := slices.Clone(sigs[:first]), slices.Clone(n[:first])
	for i := first; i < len(sigs); i++ {
		if !h.one(&sigs[i]) {
			others, counts = append(others, sigs[i]), append(counts, n[i])
		}
	}
	return others, counts
}
