package client

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A Source is the origin of a message; see [bulkhead.Source].
type Source struct {
	Sender        string     `json:"sender,omitempty" maxLength:"998" doc:"Sender, local@domain, that the caller has verified."`
	Client        netip.Addr `json:"client,omitzero" doc:"Address of the SMTP client that delivered the message."`
	ListID        string     `json:"list_id,omitempty" maxLength:"998" doc:"Value of List-Id, without the angle brackets, that the caller has verified."`
	DKIM          []string   `json:"dkim,omitempty" maxItems:"1024" doc:"Domains whose DKIM signatures the caller has verified."`
	From          string     `json:"from,omitempty" maxLength:"998" doc:"Address of the header field From, if there is one with one address; by itself it is not verified."`
	ClaimedSender string     `json:"claimed_sender,omitempty" maxLength:"998" doc:"Envelope or header sender, not verified."`
	ClaimedListID string     `json:"claimed_list_id,omitempty" maxLength:"998" doc:"Value of List-Id, not verified."`
	MessageID     string     `json:"message_id,omitempty" maxLength:"998" doc:"Message-ID, without the angle brackets, for the history: it decides nothing."`
	Subject       string     `json:"subject,omitempty" maxLength:"998" doc:"Subject, for the history of a node that keeps it: it decides nothing."`
}

// UnmarshalJSON implements [json.Unmarshaler]. If a source is given twice, the second replaces the
// first.
func (s *Source) UnmarshalJSON(text []byte) error {
	type plain Source
	var p plain
	err := json.Unmarshal(text, &p)
	*s = Source(p)
	return err
}

// Bulkhead returns s in the form of the root package. A nil source is an unknown one.
func (s *Source) Bulkhead() bulkhead.Source {
	if s == nil {
		return bulkhead.Source{}
	}
	return bulkhead.Source{
		Sender: s.Sender, Client: s.Client, ListID: s.ListID, DKIM: s.DKIM, From: s.From, ClaimedSender: s.ClaimedSender,
		ClaimedListID: s.ClaimedListID, MessageID: s.MessageID, Subject: s.Subject,
	}
}

// NewSource returns s in the form of the JSON interface, which has no field for features.
func NewSource(s *bulkhead.Source) Source {
	return Source{
		Sender: s.Sender, Client: s.Client, ListID: s.ListID, DKIM: s.DKIM, From: s.From, ClaimedSender: s.ClaimedSender,
		ClaimedListID: s.ClaimedListID, MessageID: s.MessageID, Subject: s.Subject,
	}
}

// sourceOf returns the fields of s by which a node judges. The fields that are only remembered are
// not sent, nor are names that are too long for the node, and domains beyond its limit.
func sourceOf(s *bulkhead.Source) *Source {
	if s.Sender == "" && !s.Client.IsValid() && s.ListID == "" && len(s.DKIM) == 0 && s.From == "" &&
		s.ClaimedSender == "" && s.ClaimedListID == "" {
		return nil
	}
	out := NewSource(s)
	out.MessageID, out.Subject = "", ""
	for _, name := range []*string{&out.Sender, &out.ListID, &out.From, &out.ClaimedSender, &out.ClaimedListID} {
		*name = fitting(*name)
	}
	out.DKIM = out.DKIM[:min(len(out.DKIM), maxDomains)]
	return &out
}

// A Lesson is what [Client.LearnMessage] has the node learn.
type Lesson struct {
	Features int `json:"features" doc:"Words and idioms of style of the message that count, at most 200."`
}

// A Check asks about one message, whose signatures are given.
type Check struct {
	Signatures []bulkhead.Signature `json:"signatures" doc:"Signatures of the message, each as SCHEME:HEX."`
	Source     *Source              `json:"source,omitempty" doc:"What whitelists look at."`
	Mailbox    string               `json:"mailbox,omitempty" maxLength:"998" doc:"First mailbox that the message is for. It does not affect the verdict: at an edge of a site with several nodes, it decides which node is asked."`
	Threshold  uint32               `json:"threshold,omitempty" doc:"Count at which the message is bulk; 0 or absent: the node's own."`
	Terse      bool                 `json:"terse,omitempty" doc:"Leave the reasons empty."`
	Brief      bool                 `json:"brief,omitempty" doc:"Leave the reasons and the findings empty."`
}

// A Report is one vote on one message, whose signatures are given. In a request to /v1/revoke, Vote
// is absent.
type Report struct {
	Signatures []bulkhead.Signature `json:"signatures" doc:"Signatures of the message, each as SCHEME:HEX."`
	Vote       string               `json:"vote,omitempty" enum:"sighting,spam,ham,revoke" default:"spam" doc:"What the reporter says of the message."`
	Count      uint32               `json:"count,omitempty" doc:"Recipients of the message; 0 or absent: 1. 16777215 and more: many."`
	Recipients []string             `json:"recipients,omitempty" maxItems:"1000" doc:"Mailboxes that a sighting was delivered to, each counted once a day; absent: count of them."`
	Trap       bool                 `json:"trap,omitempty" doc:"A spam vote that no person cast: the message came to an address that takes no mail but spam."`
	Source     *Source              `json:"source,omitempty" doc:"What whitelists look at."`
	Reporter   netip.Addr           `json:"reporter,omitzero" doc:"Address of the stranger for whom the report is made; absent: the report is the client's own. Only trusted accounts and administrators may name one."`
	User       string               `json:"user,omitempty" maxLength:"128" doc:"User on whose behalf the report is, whom the client has authenticated: each has one voice. Only the node's own services and trusted accounts may name one."`
	ID         string               `json:"id,omitempty" maxLength:"255" doc:"Makes a sighting idempotent as long as it counts; a repeated vote replaces itself. See the header Idempotency-Key."`
}

// A MessageVote is a vote on the message with a Message-ID that the node has seen lately.
type MessageVote struct {
	MessageID string `json:"message_id" minLength:"1" maxLength:"998" doc:"Message-ID, with or without its angle brackets."`
	Vote      string `json:"vote,omitempty" enum:"spam,ham,revoke" default:"spam" doc:"What the reporter says of the message."`
	User      string `json:"user,omitempty" maxLength:"128" doc:"User on whose behalf the report is, as in a report with signatures."`
	ID        string `json:"id,omitempty" maxLength:"255" doc:"Makes the report idempotent, as in a report with signatures."`
}

// A Finding is what is known of one signature; see [bulkhead.Finding].
type Finding struct {
	Signature  bulkhead.Signature `json:"signature"`
	Sightings  uint32             `json:"sightings"`
	Spam       uint32             `json:"spam" doc:"Spam votes."`
	Ham        uint32             `json:"ham" doc:"Ham votes."`
	Judged     string             `json:"judged" enum:"none,spam,revoked"`
	Contested  bool               `json:"contested" doc:"Both spam and ham votes, neither far ahead."`
	Confidence int                `json:"confidence" minimum:"0" maximum:"100" doc:"That the signature marks spam."`
	Bulk       bool               `json:"bulk" doc:"Seen or reported at least threshold times."`
	First      time.Time          `json:"first_seen,omitzero" doc:"Start of the oldest generation that holds the signature; absent if none does."`
	Last       time.Time          `json:"last_seen,omitzero" doc:"Start of the newest generation that holds the signature; absent if none does."`
	Error      float64            `json:"error" minimum:"0" maximum:"1" doc:"Probability that a message that was never reported would have been given this answer or a worse one, or, after a revocation, that the revocation is an error of the filter."`
}

// A Verdict is the answer to a check; see [bulkhead.Verdict].
type Verdict struct {
	Spam        bool      `json:"spam" doc:"To be treated as spam: of class spam."`
	Unwanted    bool      `json:"unwanted" doc:"Spam, or bulk that is not whitelisted."`
	Judged      string    `json:"judged" enum:"none,spam,revoked"`
	Class       string    `json:"class" enum:"unknown,good,bulk,suspected,spam" doc:"The answer in one word: spam; suspected, on too little evidence to refuse it; bulk, seen by many and not judged; good, whitelisted or of a sender that is known; unknown."`
	Confidence  int       `json:"confidence" minimum:"0" maximum:"100" doc:"That the message is spam."`
	Bulk        bool      `json:"bulk" doc:"Seen at least threshold times."`
	Threshold   uint32    `json:"threshold" doc:"The threshold that was applied."`
	Sightings   uint32    `json:"sightings"`
	SpamVotes   uint32    `json:"spam_votes"`
	HamVotes    uint32    `json:"ham_votes"`
	First       time.Time `json:"first_seen,omitzero" doc:"Start of the oldest generation that holds the message; absent if none does."`
	Whitelisted string    `json:"whitelisted,omitempty" doc:"The whitelist entry that matched."`
	Learned     float64   `json:"learned,omitempty" minimum:"-1" maximum:"1" doc:"Score of the words and the style: 1 like reported mail, -1 like mail that is never reported; absent if there is none."`
	Rule        string    `json:"rule,omitempty" doc:"Name of the rule that decided; docs/judgement.md has the list."`
	Reasons     []string  `json:"reasons" doc:"In words, the weightiest first."`
	Error       float64   `json:"error" minimum:"0" maximum:"1" doc:"Probability that this answer is a filter error."`
	Findings    []Finding `json:"findings" doc:"One for each signature, in the order of the request."`
}

// NewVerdict returns v in the form of the JSON interface.
func NewVerdict(v *bulkhead.Verdict) *Verdict {
	out := &Verdict{
		Class: v.Class.String(), Spam: v.Spam(), Unwanted: v.Unwanted(), Judged: v.Judged.String(), Confidence: v.Confidence,
		Bulk: v.Bulk, Threshold: v.Threshold, Sightings: v.Sightings, SpamVotes: v.SpamVotes,
		HamVotes: v.HamVotes, First: v.First, Whitelisted: v.Whitelisted, Rule: v.Rule, Reasons: v.Reasons,
		Learned: v.Learned,
		Error:   v.Error, Findings: make([]Finding, len(v.Findings)),
	}
	if out.Reasons == nil {
		out.Reasons = []string{}
	}
	for i := range v.Findings {
		f := &v.Findings[i]
		out.Findings[i] = Finding{
			Signature: f.Signature, Sightings: f.Sightings, Spam: f.Spam, Ham: f.Ham,
			Judged: f.Judged.String(), Contested: f.Contested, Confidence: f.Confidence,
			Bulk: f.Bulk, First: f.First, Last: f.Last, Error: f.Error,
		}
	}
	return out
}

// Bulkhead returns v in the form of the root package, or an error if its judgement or class is
// unknown.
func (v *Verdict) Bulkhead() (bulkhead.Verdict, error) {
	judged, err := parseJudgement(v.Judged)
	if err != nil {
		return bulkhead.Verdict{}, err
	}
	class, err := parseClass(v)
	if err != nil {
		return bulkhead.Verdict{}, err
	}
	out := bulkhead.Verdict{
		Class: class, Judged: judged, Confidence: v.Confidence, Bulk: v.Bulk, Threshold: v.Threshold, Sightings: v.Sightings,
		SpamVotes: v.SpamVotes, HamVotes: v.HamVotes, First: v.First, Whitelisted: v.Whitelisted, Rule: v.Rule,
		Learned: v.Learned, Error: v.Error, Findings: make([]bulkhead.Finding, len(v.Findings)),
	}
	if len(v.Reasons) > 0 {
		out.Reasons = v.Reasons
	}
	for i := range v.Findings {
		f := &v.Findings[i]
		if judged, err = parseJudgement(f.Judged); err != nil {
			return bulkhead.Verdict{}, err
		}
		out.Findings[i] = bulkhead.Finding{
			Signature: f.Signature, Sightings: f.Sightings, Spam: f.Spam, Ham: f.Ham,
			Judged: judged, Contested: f.Contested, Confidence: f.Confidence,
			Bulk: f.Bulk, First: f.First, Last: f.Last, Error: f.Error,
		}
	}
	return out, nil
}

// parseClass returns the class of a verdict. Nodes from before classes send none; the class then
// follows from the other fields.
func parseClass(v *Verdict) (bulkhead.Class, error) {
	switch {
	case v.Class != "":
	case v.Whitelisted != "":
		return bulkhead.ClassGood, nil
	case v.Spam:
		return bulkhead.ClassSpam, nil
	case v.Bulk:
		return bulkhead.ClassBulk, nil
	default:
		return bulkhead.ClassUnknown, nil
	}
	return bulkhead.ParseClass(v.Class)
}

func parseJudgement(text string) (bulkhead.Judgement, error) {
	for _, j := range []bulkhead.Judgement{bulkhead.Unjudged, bulkhead.JudgedSpam, bulkhead.Revoked} {
		if j.String() == text {
			return j, nil
		}
	}
	return 0, fmt.Errorf("client: unknown judgement %.40q", text)
}

// A Receipt is the outcome of a report; see [bulkhead.Receipt].
type Receipt struct {
	Signatures  int `json:"signatures" doc:"Signatures of the message."`
	Counted     int `json:"counted" doc:"Counted by this report."`
	Duplicate   int `json:"duplicate" doc:"Counted before for this reporter in this generation."`
	Pending     int `json:"pending" doc:"Waiting for more trust: counted votes that judge nothing yet, sightings of strangers beyond those that count."`
	Listed      int `json:"listed" doc:"Newly on the blocklist."`
	Revoked     int `json:"revoked" doc:"Newly off the blocklist."`
	Whitelisted int `json:"whitelisted" doc:"Not counted: the sender or the signature is whitelisted."`
	// Delivery is "message-id", "text", "near" or "unknown"; "" for a sighting.
	Delivery string `json:"delivery,omitempty" enum:"message-id,text,near,unknown" doc:"How the node found the delivery that the vote is about. The vote counts for the network, the verified senders and the links of that delivery. unknown: the vote counts for what it carries."`
}

// NewReceipt returns r in the form of the JSON interface. signatures is the number of signatures of
// the message.
func NewReceipt(r bulkhead.Receipt, signatures int) *Receipt {
	return &Receipt{
		Signatures: signatures, Counted: r.Counted, Duplicate: r.Duplicate, Pending: r.Pending,
		Listed: r.Listed, Revoked: r.Revoked, Whitelisted: r.Whitelisted, Delivery: r.Delivery.String(),
	}
}

// Bulkhead returns r in the form of the root package.
func (r *Receipt) Bulkhead() bulkhead.Receipt {
	delivery, _ := bulkhead.ParseJoin(r.Delivery) // a word of a newer server is as good as none
	return bulkhead.Receipt{
		Counted: r.Counted, Duplicate: r.Duplicate, Pending: r.Pending,
		Listed: r.Listed, Revoked: r.Revoked, Whitelisted: r.Whitelisted, Delivery: delivery,
	}
}

// A BatchVerdict is the answer to one message of a batch: a verdict or a
// problem, never both.
type BatchVerdict struct {
	Verdict *Verdict `json:"verdict,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// A BatchReceipt is the answer to one report of a batch: a receipt or a
// problem, never both.
type BatchReceipt struct {
	Receipt *Receipt `json:"receipt,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// Signatures is the answer of /v1/signatures.
type Signatures struct {
	Signatures []bulkhead.Signature `json:"signatures" doc:"Empty if the message has too little text to be distinguished from others."`
	Source     Source               `json:"source" doc:"Source according to the headers, not verified."`
}
