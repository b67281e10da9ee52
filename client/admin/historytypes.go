package admin

import (
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A HistoryEntry is one check or vote that a node remembers.
type HistoryEntry struct {
	ID             int64                `json:"id" doc:"Names the entry, in /v1/history/{id} and in votes. Later ones are larger."`
	Time           time.Time            `json:"time"`
	Door           string               `json:"door" doc:"Key of the door in the configuration."`
	Kind           string               `json:"kind" enum:"check,sighting,spam,ham,revoke" doc:"A check, or the vote of a report."`
	Class          string               `json:"class,omitempty" enum:"unknown,good,bulk,suspected,spam" doc:"Answer to a check."`
	Confidence     int                  `json:"confidence" minimum:"0" maximum:"100" doc:"Of that answer: that the message is spam."`
	Whitelisted    bool                 `json:"whitelisted" doc:"A whitelist has the message."`
	Trap           bool                 `json:"trap" doc:"The vote of a spam trap."`
	Waits          bool                 `json:"waits" doc:"The vote listed nothing when it came, for want of other voters."`
	Post           bool                 `json:"post" doc:"The message has a List-Id, which can be forged."`
	Reasons        []string             `json:"reasons" doc:"The weightiest four of the answer."`
	Count          uint32               `json:"count" doc:"Recipients: of a sighting, or of one that followed the check within seconds. 0: it was not counted."`
	Listed         int                  `json:"listed" doc:"Signatures that the vote put on the blocklist."`
	Revoked        int                  `json:"revoked" doc:"Signatures that the vote took off the blocklist."`
	Account        string               `json:"account,omitempty" doc:"Of the reporter."`
	User           string               `json:"user,omitempty" doc:"On whose behalf it reported."`
	Network        string               `json:"network,omitempty" doc:"First address of the network of a reporter without an account on another machine."`
	From           string               `json:"from,omitempty" doc:"Domain of the sender."`
	Domains        []string             `json:"domains" doc:"Hosts of links."`
	MessageID      bool                 `json:"message_id" doc:"The message had a Message-ID, by which it is found."`
	Subject        string               `json:"subject,omitempty" doc:"Absent unless the node is configured to keep it."`
	SignatureCount int                  `json:"signature_count"`
	Signatures     []bulkhead.Signature `json:"signatures,omitempty" doc:"Only of a single entry."`
}

// Answer returns the answer or action in a few words.
func (e *HistoryEntry) Answer() string {
	switch {
	case e.Whitelisted:
		return "whitelisted"
	case e.Class != "" && e.Confidence > 0:
		return fmt.Sprintf("%s %d", e.Class, e.Confidence)
	case e.Class != "":
		return e.Class
	case e.Listed > 0:
		return fmt.Sprintf("%d listed", e.Listed)
	case e.Revoked > 0:
		return fmt.Sprintf("%d taken off", e.Revoked)
	}
	return "counted"
}

// Reporter returns the account or network that asked or voted, after the user on whose behalf it
// did. It returns "" if neither is known.
func (e *HistoryEntry) Reporter() string {
	switch who := e.Account + e.Network; {
	case e.User != "" && who != "":
		return e.User + " by " + who
	case e.User != "":
		return e.User
	default:
		return who
	}
}

// A HistoryQuery selects entries. Empty fields exclude nothing.
type HistoryQuery struct {
	Since, Until time.Time // from Since to before Until
	Door         string    // key in the configuration
	Kind         string    // as in HistoryEntry
	Class        string    // of the answer to a check
	Outcome      string    // caught, reported, complained or waiting, as in Overview
	Reporter     string    // account, user or network
	Domain       string    // of the sender or a link, or one above it
	From         string    // domain of the sender, or one above it
	Link         string    // domain of a link, or one above it
	MessageID    string    // with or without angle brackets
	Signature    string    // SCHEME:HEX
	Before       int64     // Next of the page before
	Limit        int       // of entries, up to 500; 0: 50
}

// A HistoryPage holds entries, the latest first.
type HistoryPage struct {
	Entries []HistoryEntry `json:"entries"`
	Next    int64          `json:"next,omitempty" doc:"For the parameter before of the next page; absent: there is none. A page with few entries, or none, may have one: the search was long and goes on there."`
	Read    int            `json:"read" doc:"Entries that were read for the page."`
}

// A RememberedVote is a vote on a message that the node has seen lately.
type RememberedVote struct {
	Vote string `json:"vote,omitempty" enum:"spam,ham,revoke" default:"spam" doc:"What the reporter says of the message."`
	User string `json:"user,omitempty" maxLength:"128" doc:"User on whose behalf the report is, as in a report with signatures."`
	ID   string `json:"id,omitempty" maxLength:"255" doc:"Makes the report idempotent, as in a report with signatures."`
}

// An AuditEntry is something that an administrator did, or a log-in.
type AuditEntry struct {
	ID      int64             `json:"id"`
	Time    time.Time         `json:"time"`
	Account string            `json:"account,omitempty" doc:"Account that did it; absent if it is unknown."`
	From    string            `json:"from,omitempty" doc:"Address of the client."`
	Door    string            `json:"door" doc:"Door, or \"signal\" or \"command\" for what was done on the machine."`
	Action  string            `json:"action" doc:"ID of the operation in the OpenAPI document, or start, login, logout, loginFailed, refused (what is for administrators alone), reload, repair, restore, recover."`
	About   map[string]string `json:"about,omitempty" doc:"What it was done to, and how."`
	Error   string            `json:"error,omitempty" doc:"Why it failed; absent: it succeeded."`
}

// An AuditQuery selects entries. Empty fields exclude nothing.
type AuditQuery struct {
	Since, Until    time.Time // from Since to before Until
	Account, Action string
	Before          int64 // Next of the page before
	Limit           int   // of entries, up to 1000; 0: 100
}

// An AuditPage holds entries, the latest first.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    int64        `json:"next,omitempty" doc:"For the parameter before of the next page; absent: there is none."`
}
