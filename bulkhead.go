package bulkhead

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Many is the largest count. It stands for "this many or more" (2^24-1).
const Many = 1<<24 - 1

// A Clearinghouse answers what is known of signatures and takes votes on them. Its
// methods may be called concurrently. Errors wrap the sentinels of this package, or
// are faults of the node itself. No result accompanies an error.
type Clearinghouse interface {
	// Check returns the verdict on a message. It changes nothing.
	Check(context.Context, Query) (Verdict, error)
	// Report counts a sighting or a vote. When it returns without an error, the
	// report is as durable as the node promises. A vote for spam must have a
	// signature that [Identifies] the message.
	Report(context.Context, Report) (Receipt, error)
}

// A Vote is the opinion that a report expresses of a message.
type Vote uint8

// The votes.
const (
	Sighting   Vote = iota // the message was seen, without an opinion
	Spam                   // the reporter calls it spam
	Ham                    // the reporter calls it not spam
	Revocation             // the reporter withdraws it from the blocklist: it does not mark spam
	NumVotes               // number of votes; not a vote
)

// String returns "sighting", "spam", "ham", "revoke", or "invalid".
func (v Vote) String() string {
	switch v {
	case Sighting:
		return "sighting"
	case Spam:
		return "spam"
	case Ham:
		return "ham"
	case Revocation:
		return "revoke"
	}
	return "invalid"
}

// ParseVote returns the vote whose String is text. Its error wraps [ErrMalformed].
func ParseVote(text string) (Vote, error) {
	for v := range NumVotes {
		if v.String() == text {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%w: vote %.40q, want sighting, spam, ham or revoke", ErrMalformed, text)
}

// A Reporter identifies the client that asks or reports, as far as the front door knows it.
type Reporter struct {
	// Account is the authenticated account, "" for an anonymous client.
	Account string
	// User is the user on whose behalf the account, or the node's own client, reports. The account
	// or client has authenticated the user. "" means that it reports for itself.
	User string
	// Addr is the client's address, which distinguishes anonymous clients. The zero Addr means a
	// caller inside this process.
	Addr netip.Addr
}

// A Source is the origin of a message, as far as the caller knows it. Empty fields are unknown.
// Whitelist entries are matched against it.
type Source struct {
	Sender string     // sender, "local@domain", that the caller has verified, by SPF or DKIM for example
	Client netip.Addr // address of the SMTP client that delivered the message
	ListID string     // value of List-Id, without the angle brackets, verified likewise
	DKIM   []string   // domains whose DKIM signatures the caller has verified
	// From is the address in the header field From, if there is exactly one field with one address.
	// It is not verified by itself. It counts as the sender's address if its domain was verified.
	From string
	// ClaimedSender and ClaimedListID are taken from the envelope or the header and are not
	// verified: any sender can forge them. They match only whitelist entries that begin with
	// [Forgeable].
	ClaimedSender string
	ClaimedListID string
	// MessageID, without the angle brackets, and Subject are taken from the header. They do not
	// affect the verdict. A node may remember them for people who look for a message.
	MessageID string
	Subject   string
	// Features are the words and the style of the message that count, as a door of the node has read
	// them; nil if it has not. They do not leave the node, and never identify a message.
	Features []string
}

// Forgeable begins a whitelist entry that also matches the unverified claims of a
// [Source]. Such an entry clears any mail that carries the name.
const Forgeable = "forgeable:"

// A Query asks for the verdict on one message.
type Query struct {
	Signatures []Signature // of the message; their order is kept in the verdict
	Source     Source
	Reporter   Reporter
	// Mailbox is the first mailbox that the message is for, in the form of [Mailbox]; "" if the door
	// does not know it. It does not affect the verdict: at an edge of a site with several nodes, it
	// decides which node is asked.
	Mailbox   string
	Threshold uint32 // count at which the message is bulk; 0 means the node's own
	// Terse leaves the Reasons of the verdict empty, for front doors whose protocol
	// has no room for words.
	Terse bool
}

// A Report is one vote on one message.
type Report struct {
	Signatures []Signature
	Vote       Vote
	// Count is the number of recipients of a sighting. 0 means 1; [Many] and above mean Many. A
	// vote, and a sighting by a stranger, counts once.
	Count uint32
	// Recipients are the mailboxes to which the message of a sighting is delivered, in the form of
	// [Mailbox] and as far as the door knows them. A sighting by the node or a trusted account is a
	// delivery: each recipient counts once a day, however many copies of a text, or messages from a
	// sender, arrive. If Recipients is empty, Count deliveries are counted. At most
	// [MaxRecipients].
	Recipients []string
	// Trap marks a spam vote that no person cast: the message came to an address that receives only
	// spam. A sender who finds the address can send it a copy of legitimate mail. A trap vote
	// therefore has half its reporter's weight. All trap votes on mail from one network
	// (Source.Client) count once, and they cannot list a signature unless another reporter also
	// votes spam.
	Trap     bool
	Source   Source
	Reporter Reporter
	// ID makes a sighting by the node or a trusted account idempotent: as long as the first one counts, a
	// second sighting by the same reporter with the same ID and signatures counts nothing. The node
	// remembers IDs, and its peers do not: a node that has lost its store, or another node, counts the
	// second sighting. A vote needs no ID, and its ID is ignored: a voice has one vote, so a vote that is
	// sent twice replaces itself. A repeated vote that arrives after the voter's change of mind counts as
	// the latest one. A stranger's sighting of a text counts once a generation, whatever its ID is. The ID
	// has at most [MaxID] bytes, and is empty for a report that is never sent twice.
	ID string
}

// MaxID is the largest number of bytes in the ID of a [Report].
const MaxID = 255

// MaxRecipients is the largest number of Recipients of a [Report].
const MaxRecipients = 1000

// Mailbox returns the address in lower case, without an extension of its local part (the "+shops" of
// "ann+shops@example.com") and without a dot at the end of its domain, so that one mailbox does not look
// like many.
func Mailbox(address string) string {
	address = strings.ToLower(address)
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return address
	}
	address = strings.TrimSuffix(address, ".")
	if plus := strings.IndexByte(address[:at], '+'); plus > 0 {
		return address[:plus] + address[at:]
	}
	return address
}

// A Join is the way in which a vote was joined with the delivery that it is about. A joined vote
// counts for the network, the verified senders and the links of its delivery.
type Join uint8

// The joins.
const (
	JoinNotTried Join = iota // the report is no vote, or the node does not know deliveries
	JoinedByID               // by Message-ID, and by text or voter
	JoinedByText             // by the same text
	JoinedByNear             // by a text that is nearly the same
	NotJoined                // no delivery was found: the vote counts for what it carries
	NumJoins                 // number of joins; not a join
)

// String returns "", "message-id", "text", "near", "unknown", or "invalid".
func (j Join) String() string {
	switch j {
	case JoinNotTried:
		return ""
	case JoinedByID:
		return "message-id"
	case JoinedByText:
		return "text"
	case JoinedByNear:
		return "near"
	case NotJoined:
		return "unknown"
	}
	return "invalid"
}

// ParseJoin returns the join whose String is text. Its error wraps [ErrMalformed].
func ParseJoin(text string) (Join, error) {
	for j := range NumJoins {
		if j.String() == text {
			return j, nil
		}
	}
	return 0, fmt.Errorf("%w: join %.40q, want message-id, text, near or unknown", ErrMalformed, text)
}

// A Receipt is the outcome of a report. All fields but Delivery are numbers of signatures.
type Receipt struct {
	Counted   int // counted by this report
	Duplicate int // counted before for this reporter in this generation
	// Pending signatures wait for more trust: votes that are counted and do not list yet, and
	// sightings by strangers beyond those that count.
	Pending     int
	Listed      int // newly on the blocklist
	Revoked     int // newly off the blocklist
	Whitelisted int // not counted: the sender or the signature is whitelisted
	// Delivery is how a vote was joined with its delivery. Of a vote on several messages it is the
	// weakest.
	Delivery Join
}

// Refused reports whether nothing of a report was counted because nothing in it may be listed: the
// sender or all signatures are whitelisted, or the signatures do not distinguish the message from
// others.
func (r *Receipt) Refused() bool {
	return r.Whitelisted > 0 && r.Counted+r.Duplicate+r.Pending+r.Listed+r.Revoked == 0
}

// Refusals returns the signatures of a spam vote that may not be listed, given the receipt for the
// vote. The vote is on several messages, with one signature each. If the receipt does not decide,
// Refusals asks house.
func Refusals(ctx context.Context, house Clearinghouse, r *Report, got *Receipt) ([]Signature, error) {
	switch {
	case r.Vote != Spam || got.Whitelisted == 0:
		return nil, nil
	case got.Refused():
		return r.Signatures, nil
	}
	queries, verdicts := make([]Query, len(r.Signatures)), make([]Verdict, len(r.Signatures))
	for i := range queries {
		queries[i] = Query{Signatures: r.Signatures[i : i+1], Source: r.Source, Reporter: r.Reporter, Terse: true}
	}
	if err := CheckBatch(ctx, house, queries, verdicts); err != nil {
		return nil, err
	}
	var refused []Signature
	for i := range verdicts {
		if verdicts[i].Whitelisted != "" {
			refused = append(refused, r.Signatures[i])
		}
	}
	return refused, nil
}

// A Judgement is the state of a signature in the blocklist book.
type Judgement uint8

// The judgements.
const (
	Unjudged   Judgement = iota // no trusted reporter has called it spam
	JudgedSpam                  // called spam and not revoked
	Revoked                     // called spam and revoked since
)

// String returns "none", "spam" or "revoked".
func (j Judgement) String() string {
	switch j {
	case JudgedSpam:
		return "spam"
	case Revoked:
		return "revoked"
	}
	return "none"
}

// A Finding is what is known of one signature. Counts saturate at [Many]. They are never lower than
// what was reported while its generations live, and are higher with the probability that the
// verdict states. The counts of peers are multiplied by the peers' weights. Peers that may not list
// alone add no more than their weights' share of the threshold.
type Finding struct {
	Signature  Signature
	Sightings  uint32
	Spam       uint32 // voters who called it spam, including those who changed their mind
	Ham        uint32 // voters who called it ham, likewise
	Judged     Judgement
	Contested  bool      // both spam and ham votes, neither far ahead
	Confidence int       // that the signature marks spam, 0 to 100
	Bulk       bool      // Sightings at or above the threshold
	First      time.Time // start of the oldest generation that holds it; zero if none
	Last       time.Time // start of the newest generation that holds it; zero if none
	// Error is the probability, at the present fill of the filters, that an unreported message
	// would get this answer or a worse one. If a revocation decided, or a listing after a
	// revocation, Error adds the probability that a signature that was not revoked, or not listed
	// again, would get this answer.
	Error float64
}

// Known reports whether anything at all is known of the signature.
func (f *Finding) Known() bool {
	return f.Sightings > 0 || f.Spam > 0 || f.Ham > 0 || f.Judged != Unjudged
}

// A Verdict is the answer to a [Query]. Fields that a Finding also has are about the
// message as a whole.
type Verdict struct {
	Findings    []Finding // one for each signature of the query, in its order
	Class       Class     // of the message, whitelists included
	Judged      Judgement
	Confidence  int       // that the message is spam, 0 to 100
	Bulk        bool      // seen at least Threshold times
	Threshold   uint32    // the threshold that was applied
	Sightings   uint32    // of the message: the most that one whole-message signature shows
	SpamVotes   uint32    // likewise
	HamVotes    uint32    // likewise
	First       time.Time // zero if the message is unknown
	Whitelisted string    // which whitelist entry matched, "" for none
	// Learned is the score of the message's words and style, from -1, like mail that is never reported,
	// to 1, like reported mail; 0 if there is none. It alone never makes a signature.
	Learned float64
	Rule    string   // name of the rule that decided, for example "exact-text"; "" if the node has none
	Reasons []string // in words, the weightiest first; never empty unless the query is Terse
	// Error is the probability that the filters are wrong: that an unreported message would get
	// this answer. If revocations decided, Error adds the probability that the revocation, or the
	// listing that overrules it, is due to chance.
	Error float64
}

// Spam reports whether to treat the message as spam: it is judged spam and not
// whitelisted.
func (v *Verdict) Spam() bool { return v.Judged == JudgedSpam && v.Whitelisted == "" }

// Unwanted reports whether the message is spam, or bulk and neither whitelisted nor good.
func (v *Verdict) Unwanted() bool {
	return v.Spam() || v.Bulk && v.Whitelisted == "" && v.Class != ClassGood
}
