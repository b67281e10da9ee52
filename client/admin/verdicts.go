package admin

import (
	"context"
	"net/url"
	"time"
)

// A VerdictsQuery selects the time of the numbers, and their steps.
type VerdictsQuery struct {
	Since time.Time // zero: a day before Until
	Until time.Time // zero: now
	Slot  string    // "1m", for the last three hours only; "10m", for the last day only; "1h", the meaning of ""; or "24h"
}

// Verdicts are the numbers of checks and votes that came through each door over time. A node
// remembers 90 days, whether or not it keeps a history of mail.
type Verdicts struct {
	Slot  int64         `json:"slot_seconds" doc:"Length of a slot."`
	Slots []VerdictSlot `json:"slots" doc:"The oldest first. Those in which nothing happened are left out."`
}

// A VerdictSlot holds the numbers of one interval of time.
type VerdictSlot struct {
	Start time.Time          `json:"start" doc:"Slots of a day begin at midnight UTC."`
	Doors map[string]DoorSum `json:"doors" doc:"By the key of the door in the configuration."`
}

// A DoorSum counts the checks and reports of the clients of a door.
type DoorSum struct {
	Spam        uint64 `json:"spam" doc:"Checks of messages that were answered so, as those up to unknown."`
	Suspected   uint64 `json:"suspected"`
	Bulk        uint64 `json:"bulk"`
	Good        uint64 `json:"good"`
	Unknown     uint64 `json:"unknown"`
	Looks       uint64 `json:"looks" doc:"Checks of single signatures, which have no class."`
	Sightings   uint64 `json:"sightings" doc:"Reports that messages were seen."`
	SpamVotes   uint64 `json:"spam_votes"`
	TrapVotes   uint64 `json:"trap_votes" doc:"Of these, votes of spam traps."`
	HamVotes    uint64 `json:"ham_votes"`
	Revocations uint64 `json:"revocations"`
}

// Checks returns the checks of messages.
func (s *DoorSum) Checks() uint64 { return s.Spam + s.Suspected + s.Bulk + s.Good + s.Unknown }

// Add adds n to s.
func (s *DoorSum) Add(n DoorSum) {
	s.Spam += n.Spam
	s.Suspected += n.Suspected
	s.Bulk += n.Bulk
	s.Good += n.Good
	s.Unknown += n.Unknown
	s.Looks += n.Looks
	s.Sightings += n.Sightings
	s.SpamVotes += n.SpamVotes
	s.TrapVotes += n.TrapVotes
	s.HamVotes += n.HamVotes
	s.Revocations += n.Revocations
}

// Verdicts returns the numbers of verdicts over time.
func (c *Client) Verdicts(ctx context.Context, q VerdictsQuery) (*Verdicts, error) {
	v := make(url.Values)
	setTimes(v, q.Since, q.Until)
	setText(v, "slot", q.Slot)
	return call[*Verdicts](ctx, c, "GET", "/v1/verdicts", v, nil)
}

// An Overview holds what an administrator asks first: how the last 24 hours went, against the same hours
// a week before.
type Overview struct {
	Since   time.Time  `json:"since" doc:"Start of the 24 hours."`
	Now     DayNumbers `json:"now" doc:"The 24 hours until now, in whole hours."`
	Before  DayNumbers `json:"before" doc:"The same hours a week before."`
	Known   bool       `json:"known" doc:"The node counted a week before; otherwise Before is 0 because nothing is known."`
	Waiting *int       `json:"waiting,omitempty" doc:"Reports of the last 7 days on messages that wait for a second voice; absent if the node keeps no history."`
	More    bool       `json:"more" doc:"There are more such reports than were read."`
	Events  []Event    `json:"events" doc:"What may explain a change in the numbers, the oldest first."`
}

// A DayNumbers holds the numbers of a day.
type DayNumbers struct {
	Checked    uint64 `json:"checked" doc:"Messages that were checked."`
	Caught     uint64 `json:"caught" doc:"Of these, answered with spam or suspected."`
	Reported   uint64 `json:"reported" doc:"Reports of people, and not of spam traps, that a message is spam: what slipped through."`
	Complained uint64 `json:"complained" doc:"Reports that a message is wanted, or is to be taken off the blocklist."`
}

// An Event is something that may explain a change in a node's numbers.
type Event struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind" enum:"start,list,undo,reload,peer"`
	Text string    `json:"text"`
}

// Overview returns how the last day went.
func (c *Client) Overview(ctx context.Context) (*Overview, error) {
	return call[*Overview](ctx, c, "GET", "/v1/overview", nil, nil)
}
