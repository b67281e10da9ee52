package client

import (
	"context"
	"net/url"
	"time"
)

// A VerdictsQuery says of which time the numbers are wanted, and in which steps.
type VerdictsQuery struct {
	Since time.Time // zero: a day before Until
	Until time.Time // zero: now
	Slot  string    // "10m", of the last day alone; "1h", "" too; or "24h"
}

// Verdicts are how many checks and votes came through each door over time, as far as the
// node remembers: 30 days, whether or not it keeps a history of mail.
type Verdicts struct {
	Slot  int64         `json:"slot_seconds" doc:"Length of a slot."`
	Slots []VerdictSlot `json:"slots" doc:"The oldest first. Those in which nothing happened are left out."`
}

// A VerdictSlot is the numbers of one stretch of time.
type VerdictSlot struct {
	Start time.Time          `json:"start" doc:"Slots of a day begin at midnight UTC."`
	Doors map[string]DoorSum `json:"doors" doc:"By the key of the door in the configuration."`
}

// A DoorSum is what the clients of a door asked and reported.
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

// Verdicts returns how many verdicts there were over time.
func (c *Client) Verdicts(ctx context.Context, q VerdictsQuery) (*Verdicts, error) {
	v := make(url.Values)
	setTimes(v, q.Since, q.Until)
	setText(v, "slot", q.Slot)
	return call[*Verdicts](ctx, c, exchange{method: "GET", path: "/v1/verdicts", query: v})
}
