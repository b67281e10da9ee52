package admin

import (
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

// A Wave is a group of messages with the same or nearly the same text that a node has seen lately.
// Its numbers begin with its first message, or with the oldest that the node remembers.
type Wave struct {
	ID         int64        `json:"id" doc:"ID of its first entry. In /v1/waves/{id}, the ID of any entry of the wave that is in the history names the wave."`
	First      time.Time    `json:"first_seen"`
	Last       time.Time    `json:"last_seen"`
	Messages   uint64       `json:"messages" doc:"Checks, and recipients of sightings that followed none."`
	Spam       uint64       `json:"spam_votes"`
	Ham        uint64       `json:"ham_votes"`
	Revoked    uint64       `json:"revocations"`
	Class      string       `json:"class" enum:"unknown,good,bulk,suspected,spam" doc:"The latest answer to a check."`
	Confidence int          `json:"confidence" minimum:"0" maximum:"100" doc:"Of that answer."`
	Entry      int64        `json:"entry" doc:"Of the history: a message that stands for the wave, on which one may vote."`
	Slot       int64        `json:"slot_seconds" doc:"Time that each number of growth is for."`
	Growth     []uint64     `json:"growth" doc:"Messages in each slot, from the first."`
	Doors      []NamedCount `json:"doors" doc:"By entries, the most frequent first, as senders and domains."`
	Senders    []NamedCount `json:"senders" doc:"Domains of senders."`
	Domains    []NamedCount `json:"domains" doc:"Hosts of links."`
	Reporters  []NamedCount `json:"reporters" doc:"Who voted: accounts, users and networks."`
	Subject    string       `json:"subject,omitempty" doc:"Of the message that stands for it; absent unless the node is configured to keep it."`
	Recent     uint64       `json:"recent" doc:"Messages of the last hour, to the length of a slot: what the order growth goes by."`
}

// A NamedCount is a count and the name of the counted thing.
type NamedCount struct {
	Name  string `json:"name"`
	Count uint64 `json:"count" doc:"Too high by at most a sixteenth of all, if there are more than sixteen names; never too low."`
}

// A WaveQuery selects waves. Empty fields exclude nothing.
type WaveQuery struct {
	Class string // of the latest answer
	Sort  string // "size", the meaning of ""; "growth", "recent" or "new"
	Posts bool   // with the posts of mailing lists
	Limit int    // of waves, up to 500; 0: 50
}

// A WavePage holds waves.
type WavePage struct {
	Waves []Wave    `json:"waves"`
	Of    int       `json:"of" doc:"Waves of the class, of which waves has the first."`
	Posts int       `json:"posts" doc:"Waves left out because they are posts of mailing lists: every message has a List-Id, and none was called spam or suspected, or reported."`
	Upto  time.Time `json:"upto,omitzero" doc:"Time of the latest check or vote that was read for the page."`
	Whole bool      `json:"whole" doc:"Everything that the node remembers was read. After a start this takes a while."`
	Since time.Time `json:"since,omitzero" doc:"Until then, time of the oldest check or vote that the waves are of, if these are the latest ones alone."`
}

// A WaveDetail is one wave, and the node's present verdict on it.
type WaveDetail struct {
	Wave    Wave            `json:"wave"`
	Subject string          `json:"subject,omitempty" doc:"Of the message that stands for it; absent unless the node is configured to keep it."`
	Verdict *client.Verdict `json:"verdict,omitempty" doc:"Of that message; absent if the history no longer has it."`
}

// A Cleared is a signature that an administrator put on the whitelist while the node ran, in
// addition to the signatures of the configuration.
type Cleared struct {
	Signature bulkhead.Signature `json:"signature"`
	By        string             `json:"by" doc:"Account."`
	Time      time.Time          `json:"time"`
	Note      string             `json:"note,omitempty"`
}

// A Clear puts the text of a remembered message on the whitelist.
type Clear struct {
	Entry int64  `json:"entry" minimum:"1" doc:"Of the history."`
	Note  string `json:"note,omitempty" maxLength:"200" doc:"Why, for those who read the list later."`
}
