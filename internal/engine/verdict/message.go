package verdict

import (
	"github.com/bulkhead-mail/bulkhead"
)

// A Pair is a text together with a sender or link, as indices of their signatures.
type Pair struct{ Text, Context int }

// Pairs is asked for what was voted on pairs, and only where a message's text is
// listed: out[i] is to be of pairs[i].
type Pairs interface {
	Pairs(pairs []Pair, out []Evidence)
}

// A Decider puts the findings of messages together. It keeps its buffers; one goroutine
// uses it at a time.
type Decider struct {
	Policy   Policy
	parts    Parts
	contexts []int
	pairs    []Pair
	paired   []Evidence
	tops     tops
}

// An Outcome is what a verdict rests on, beside what it says.
type Outcome struct {
	// By is the facet that made the message spam or suspected, [bulkhead.NoFacet] if it
	// is neither. It is the text only where no other facet is listed.
	By bulkhead.Facet
	// Sender is the index of the signature that speaks for the sender, -1 if none does.
	Sender     int
	SenderGood bool // it is of good standing
}

// A Case is all that is known of one message.
type Case struct {
	Signatures []bulkhead.Signature
	Findings   []bulkhead.Finding // of the signatures, complete
	Evidence   []Evidence         // likewise
	Pairs      Pairs
	Contents   Contents
	Terse      bool // no reasons are wanted
}

// Message fills in what v says of the message as a whole. v.Threshold and
// v.Whitelisted are set.
func (j *Decider) Message(v *bulkhead.Verdict, c *Case) Outcome {
	d := decision{Decider: j, Case: c, text: j.text(c.Findings, c.Evidence), finding: -1}
	if d.text.judged == bulkhead.Unjudged && c.Contents != nil {
		j.contained(&d.text, c.Contents)
	}
	v.Sightings, v.SpamVotes, v.HamVotes = d.text.sightings, d.text.spam, d.text.ham
	v.Bulk = v.Sightings >= v.Threshold
	v.First = d.text.first.time()
	j.parts.Set(c.Signatures)
	d.decide(v.Bulk)
	v.Class = d.class
	v.Judged = bulkhead.Unjudged
	switch {
	case d.class == bulkhead.ClassSpam:
		v.Judged = bulkhead.JudgedSpam
	case d.text.judged == bulkhead.Revoked:
		v.Judged = bulkhead.Revoked
	}
	v.Confidence, v.Error = d.confidence(), d.error()
	if v.Whitelisted != "" {
		v.Class = bulkhead.ClassGood
	}
	if !c.Terse {
		v.Reasons = d.reasons(v)
	}
	out := Outcome{Sender: d.sender, SenderGood: d.senderGood}
	if d.class >= bulkhead.ClassSuspected {
		out.By = d.facet()
	}
	return out
}
