package admin

import (
	"net/netip"
	"time"
)

// A User is an account as administrators see it.
type User struct {
	Name      string     `json:"name"`
	Role      string     `json:"role" enum:"anonymous,reporter,trusted,admin"`
	Weight    float64    `json:"weight" minimum:"0" maximum:"1" doc:"What an administrator gave, or what a reporter started with."`
	Worth     float64    `json:"worth" minimum:"0" maximum:"1" doc:"What a report weighs at present."`
	Created   time.Time  `json:"created"`
	From      netip.Addr `json:"from,omitzero" doc:"Address that registered the account, if it registered itself."`
	Closed    bool       `json:"closed" doc:"A closed account keeps its name and may do nothing."`
	Person    string     `json:"person,omitempty" doc:"All accounts of one person are one voter."`
	Parent    string     `json:"parent,omitempty" doc:"Account that answers for it."`
	Confirmed uint32     `json:"confirmed" doc:"Reports that others confirmed."`
	Days      uint32     `json:"confirmed_days" doc:"Days with a report that others confirmed: what earns weight."`
	Reverted  uint32     `json:"reverted" doc:"Reports that were revoked."`
	Token     bool       `json:"token" doc:"Whether it has a bearer token."`
	Protocols []string   `json:"protocols" doc:"Protocols that it has a secret for."`
}

// Accuracy returns the share of right reports, from 0 to 1, among the account's reports that others
// have confirmed or revoked, and the number of these reports. Without any, the share is 0.
func (u *User) Accuracy() (share float64, of uint64) {
	of = uint64(u.Confirmed) + uint64(u.Reverted)
	if of == 0 {
		return 0, 0
	}
	return float64(u.Confirmed) / float64(of), of
}

// A NewUser is an account to create.
type NewUser struct {
	Name   string   `json:"name" minLength:"1" maxLength:"128"`
	Role   string   `json:"role,omitempty" enum:"anonymous,reporter,trusted,admin" default:"reporter"`
	Weight *float64 `json:"weight,omitempty" minimum:"0" maximum:"1" doc:"Absent: what the configuration gives to the role."`
}

// A UserChange is a change of an account. Absent fields stay as they are.
type UserChange struct {
	Role   *string  `json:"role,omitempty" enum:"anonymous,reporter,trusted,admin"`
	Weight *float64 `json:"weight,omitempty" minimum:"0" maximum:"1"`
	Closed *bool    `json:"closed,omitempty"`
	Person *string  `json:"person,omitempty" maxLength:"128" doc:"\"\": the account is a person of its own."`
	Parent *string  `json:"parent,omitempty" maxLength:"128" doc:"\"\": the account answers for itself."`
}

// An Undo is the time from which the votes of an account or person are taken back.
type Undo struct {
	Since time.Time `json:"since" doc:"Votes given at or after it are taken back."`
}

// Undone is the outcome of taking votes back. Numbers are of signatures, and of texts together with
// a link or sender.
type Undone struct {
	Votes  int       `json:"votes" doc:"What the votes were on."`
	Off    int       `json:"off" doc:"Of these, newly off the blocklist."`
	On     int       `json:"on" doc:"Of these, newly on it: only the votes against had taken them off."`
	Oldest time.Time `json:"oldest,omitzero" doc:"Time of the oldest vote of any account that the node remembers; older votes stand."`
}

// A Closing is the effect that closing an account would have.
type Closing struct {
	Votes      int      `json:"votes" doc:"Signatures, and texts together with a link or sender, on which its remembered votes are. These votes stay."`
	Sessions   int      `json:"sessions" doc:"Log-ins of browsers and log-in links that end."`
	AnswersFor []string `json:"answers_for" doc:"Accounts for which it answers: their reports weigh nothing while it is closed."`
}

// A Token is a bearer token. It is returned once; the node keeps only its hash.
type Token struct {
	Name  string `json:"name"`
	Token string `json:"token"`
}

// A Secret is shared by an account and the clients of a protocol.
type Secret struct {
	Secret string `json:"secret" maxLength:"1024" doc:"\"\" removes it."`
}

// A LoginLink logs a browser in, once.
type LoginLink struct {
	Path    string    `json:"path" doc:"Path and query, below the address of the node."`
	Expires time.Time `json:"expires"`
}

// A Viewer is the identity that a client has for the node, with its rights.
type Viewer struct {
	Account string `json:"account,omitempty" doc:"Absent: it has no token."`
	Local   bool   `json:"local" doc:"It is on the node's own machine."`
	Check   bool   `json:"check" doc:"It may check."`
	Report  bool   `json:"report" doc:"It may report."`
	Admin   bool   `json:"admin" doc:"It may administer."`
}
