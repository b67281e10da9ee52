package verdict

import (
	"github.com/bulkhead-mail/bulkhead"
)

// A Pair is a text together with a sender or link, as indexes of their signatures.
type Pair struct{ Text, Context int }

// Pairs looks up what few messages need.
type Pairs interface {
	// Pairs looks up the votes on pairs, and sets out[i] for pairs[i]. It is called only if a message's
	// text is listed, or is bulk from a sender of good standing.
	Pairs(pairs []Pair, out []Evidence)
	// Senders returns a lower bound of the number of distinct senders of a link, claimed name or file,
	// given by the index of its signature, at the node and its peers. It is called only for one that is
	// reported.
	Senders(i int) uint32
	// Vouched reports whether mail with a link, sender or network, given by the index of its signature, was delivered
	// at a peer of full weight, at least half a day ago. It is called only for changed copies of listed texts, and for
	// first mail with the words of reported mail.
	Vouched(i int) bool
}

// A Decider combines the findings of messages. It reuses its buffers; only one goroutine at a time
// may use it.
type Decider struct {
	Policy   Policy
	parts    Parts
	contexts []int
	pairs    []Pair
	paired   []Evidence
	counted  []int // links, names and files whose senders at peers were looked up
	tops     tops
}

// An Outcome has the basis of a verdict, in addition to the verdict itself.
type Outcome struct {
	// By is the facet that made the message spam or suspected, or [bulkhead.NoFacet] if it is
	// neither. It is the text only if no other facet is listed.
	By bulkhead.Facet
	// Sender is the index of the sender's signature, -1 without one.
	Sender     int
	SenderGood bool // it is of good standing
	// History is the number of messages of a sender of good standing that were delivered on earlier
	// days.
	History uint32
	// Accused is the index of the signature on which the lists of peers weigh most, or -1 if peers
	// list none. It is a signature that this node does not list, and that many received, or a text
	// that a sender of good standing sent. Peers is the weight of these lists, in promotion
	// weights. Received is the number of deliveries of the signature.
	Accused  int
	Peers    float64
	Received uint32
}

// Many is the number of deliveries from which a signature is not listed lightly.
const Many = 20

// A Case holds all results for one message.
type Case struct {
	Signatures []bulkhead.Signature
	Findings   []bulkhead.Finding // of the signatures, complete
	Evidence   []Evidence         // likewise
	Pairs      Pairs
	Contents   Contents
	Revoked    float64 // see [Odds.Revoked]
	Terse      bool    // no reasons are needed
	Inside     bool    // the client has a private address, and so no network
	Learned    Learned
}

// Message fills in v for the message as a whole. v.Threshold and v.Whitelisted are set.
func (j *Decider) Message(v *bulkhead.Verdict, c *Case) Outcome {
	d := decision{Decider: j, Case: c, text: j.text(c.Findings, c.Evidence), turned: j.turned(c.Findings, c.Evidence),
		finding: -1}
	switch {
	case c.Contents == nil:
	case d.text.judged == bulkhead.Unjudged:
		d.samples = c.Contents.Matches()
		j.contained(&d.text, d.samples)
	case d.text.shingled():
		best := j.bestOf(c.Contents.Matches())
		d.text.quoted = best != nil && best.Quoted
	}
	v.Sightings, v.SpamVotes, v.HamVotes = d.text.sightings, d.text.spam, d.text.ham
	v.Bulk = v.Sightings >= v.Threshold
	v.First = d.text.first
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
	v.Rule = string(d.rule())
	if v.Whitelisted != "" {
		v.Class, v.Rule = bulkhead.ClassGood, string(byWhitelist)
	}
	if !c.Terse {
		v.Reasons = d.withLearned(d.reasons(v))
	}
	v.Learned = c.Learned.Score
	out := Outcome{Sender: d.sender, SenderGood: d.senderGood}
	d.accused(&out)
	if d.senderGood {
		out.History = d.Evidence[d.sender].Old
	}
	if d.class >= bulkhead.ClassSuspected {
		out.By = d.facet()
	}
	return out
}

// accused sets [Outcome].Accused, Peers and Received.
func (d *decision) accused(out *Outcome) {
	out.Accused = -1
	most := 0.0
	for i := range d.Evidence {
		e := &d.Evidence[i]
		if e.Peers.Spam <= most || e.Own == Listed {
			continue
		}
		if n := e.Old + e.New; n >= Many || d.senderGood && d.Signatures[i].Scheme().Facet() == bulkhead.TextFacet {
			most = e.Peers.Spam
			out.Accused, out.Received, out.Peers = i, n, most/d.Policy.Promotion
		}
	}
}
