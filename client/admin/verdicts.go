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
	Slot  string    // "10m", for the last day only; "1h", the meaning of ""; or "24h"
}

// Verdicts are the numbers of checks and votes that came through each door over time. A node
// remembers 30 days, whether or not it keeps a history of mail.
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
