package bulkhead

import (
	"context"
	"net/netip"
	"strings"
	"time"
)

// Many is the largest count. It stands for "this many or more" (2^24-1).
const Many = 1<<24 - 1

// A Clearinghouse answers what is known of signatures and takes votes on them.
// Its methods may be called concurrently. Errors wrap the sentinels of this
// package; no result accompanies an error.
type Clearinghouse interface {
	// Check says what is known of a message. It changes nothing.
	Check(context.Context, Query) (Verdict, error)
	// Report counts a sighting or a vote, as the Vote of the report says. When it
	// returns without an error, the votes are as durable as the node promises.
	Report(context.Context, Report) (Receipt, error)
}

// A Vote is what a report says of a message.
type Vote uint8

// The votes.
const (
	Sighting   Vote = iota // the message was seen; nobody judged it
	Spam                   // somebody judged it spam
	Ham                    // somebody judged it not spam
	Revocation             // somebody withdrew it from the blocklist: it does not mark spam
	NumVotes               // how many votes there are; not a vote
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

// A Reporter is who asks or reports, as established by the front door.
type Reporter struct {
	// Account is the authenticated account, "" for an anonymous client.
	Account string
	// User is on whose behalf the account, or the node's own client, reports: a user
	// that it has authenticated. "" if it speaks for itself.
	User string
	// Addr is the client's address. Anonymous clients are told apart by it.
	// The zero Addr means a caller inside this process.
	Addr netip.Addr
}

// A Source says where a message came from, as far as the caller knows; empty
// fields are unknown. It is what whitelists look at.
type Source struct {
	Sender string     // sender, "local@domain", that the caller has verified, by SPF or DKIM for example
	Client netip.Addr // address of the SMTP client that delivered the message
	ListID string     // value of List-Id, without the angle brackets, verified likewise
	DKIM   []string   // domains whose DKIM signatures the caller has verified
	// From is the address of the header field From, if there is one field with one
	// address. Nobody has verified it by itself: it is the sender's where a verified
	// domain is its own.
	From string
	// ClaimedSender and ClaimedListID are what the envelope or the header says and
	// nobody has verified: anybody can write them. They match only such entries of
	// a whitelist as ask for that.
	ClaimedSender string
	ClaimedListID string
}

// Forgeable begins an entry of a whitelist that matches the claims of a [Source]
// too: it clears the mail of whoever writes that name into it.
const Forgeable = "forgeable:"

// A Query asks for the verdict on one message.
type Query struct {
	Signatures []Signature // of the message; their order is kept in the verdict
	Source     Source
	Reporter   Reporter
	Threshold  uint32 // count at which the message is bulk; 0 means the node's own
	// Terse leaves Reasons of the verdict empty: for front doors whose protocol
	// has no room for words.
	Terse bool
}

// A Report is one vote on one message.
type Report struct {
	Signatures []Signature
	Vote       Vote
	Count      uint32 // recipients of a sighting; 0 means 1; Many and more mean Many. A vote, and a stranger's sighting, is one
	// Recipients of a sighting, as far as the door knows them: the addresses to which
	// mail is delivered there, see [Mailbox]. A root's sighting is a delivery; each
	// recipient is counted for one once a day, however many copies of a text, or
	// messages of a sender, arrive. Empty: Count deliveries. At most [MaxRecipients].
	Recipients []string
	// Trap says of a spam vote that nobody cast it: the message came to an address
	// that takes no mail but spam. Anybody who finds the address can send it a copy of
	// another's mail, so such a vote weighs half of its reporter's, is one voice for a
	// network of clients (Source.Client), and lists only what somebody else speaks
	// against, too.
	Trap     bool
	Source   Source
	Reporter Reporter
	// ID makes a report idempotent: within one generation, a second report of
	// the same reporter with the same ID and signatures changes nothing.
	// Empty for a report that is never sent twice, [MaxID] bytes at most.
	ID string
}

// MaxID is the largest number of bytes in the ID of a [Report].
const MaxID = 255

// MaxRecipients is the largest number of Recipients of a [Report].
const MaxRecipients = 1000

// Mailbox returns what tells the mailbox of an address from others: the address in
// lower case, without an extension of its local part ("ann+shops@example.com"), so
// that one mailbox does not look like many.
func Mailbox(address string) string {
	address = strings.ToLower(address)
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return address
	}
	if plus := strings.IndexByte(address[:at], '+'); plus > 0 {
		return address[:plus] + address[at:]
	}
	return address
}

// A Receipt says what a report did. Counts are numbers of signatures.
type Receipt struct {
	Counted     int // counted by this report
	Duplicate   int // counted before for this reporter in this generation
	Pending     int // waiting for more trust: votes that are counted and judge nothing yet, sightings of strangers beyond those that count
	Listed      int // newly on the blocklist
	Revoked     int // newly off the blocklist
	Whitelisted int // not counted: the sender or the signature is white-listed
}

// A Judgement is the state of a signature in the blocklist book.
type Judgement uint8

// The judgements.
const (
	Unjudged   Judgement = iota // nobody whom the node trusts has called it spam
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

// A Finding is what is known of one signature. Counts saturate at [Many] and
// are never lower than what was reported while its generations live; they are
// higher with the probability that the verdict states.
type Finding struct {
	Signature  Signature
	Sightings  uint32
	Spam       uint32 // voters who called it spam, also those who changed their mind
	Ham        uint32 // likewise ham
	Judged     Judgement
	Contested  bool      // both spam and ham votes, neither far ahead
	Confidence int       // that the signature marks spam, 0 to 100
	Bulk       bool      // Sightings at or above the threshold
	First      time.Time // start of the oldest generation that holds it; zero if none
	Last       time.Time // start of the newest generation that holds it; zero if none
	// Error is the probability that a message nobody ever reported would have
	// been given this answer or a worse one, at the present fill.
	Error float64
}

// Known reports whether anything at all is known of the signature.
func (f *Finding) Known() bool {
	return f.Sightings > 0 || f.Spam > 0 || f.Ham > 0 || f.Judged != Unjudged
}

// A Verdict is the answer to a [Query]. The fields that Finding has too speak
// for the message as a whole.
type Verdict struct {
	Findings    []Finding // one for each signature of the query, in its order
	Class       Class     // of the message, white-lists included
	Judged      Judgement
	Confidence  int       // that the message is spam, 0 to 100
	Bulk        bool      // seen at least Threshold times
	Threshold   uint32    // the threshold that was applied
	Sightings   uint32    // of the message: the most that one whole-message signature shows
	SpamVotes   uint32    // likewise
	HamVotes    uint32    // likewise
	First       time.Time // zero if the message is unknown
	Whitelisted string    // which whitelist entry matched, "" for none
	Reasons     []string  // in words, the weightiest first; never empty unless the query is Terse
	// Error is the probability that this answer is a filter error: that a
	// message nobody ever reported would have been given it.
	Error float64
}

// Spam reports whether the message is to be treated as spam: judged, and not
// white-listed.
func (v *Verdict) Spam() bool { return v.Judged == JudgedSpam && v.Whitelisted == "" }

// Unwanted reports whether the message is spam, or bulk that is not
// white-listed.
func (v *Verdict) Unwanted() bool { return v.Spam() || v.Bulk && v.Whitelisted == "" }
