package ratelimit

import (
	"fmt"
	"slices"
)

// The things that a rule can count, as Exim names them.
const (
	PerConn = "conn" // connections
	PerCmd  = "cmd"  // requests
	PerMail = "mail" // messages
	PerRcpt = "rcpt" // recipients
	PerAddr = "addr" // different recipients
	PerByte = "byte" // bytes of messages
)

// A measure is the meaning of a value of Per.
type measure struct {
	states        []string // the states in which it can be counted, the usual one first
	unique, count string
}

var measures = map[string]measure{
	PerConn: {states: []string{StateConnect}},
	PerCmd:  {states: []string{AnyState, StateConnect, StateEhlo, StateMail, StateRcpt, StateData, StateEnd}},
	PerMail: {states: []string{StateMail, StateRcpt, StateData, StateEnd}},
	PerRcpt: {states: []string{StateRcpt, StateData, StateEnd}},
	PerAddr: {states: []string{StateRcpt}, unique: "{recipient}"},
	PerByte: {states: []string{StateEnd, StateMail}, count: "{size}"},
}

// spell fills in the fields that Per stands for.
func (r *Rule) spell() error {
	if r.Per == "" {
		return nil
	}
	m, ok := measures[r.Per]
	if !ok {
		return fmt.Errorf("per %.40q is none of conn, cmd, mail, rcpt, addr, byte", r.Per)
	}
	if r.State == "" {
		r.State = m.states[0]
	}
	if !slices.Contains(m.states, r.State) {
		return fmt.Errorf("state %.40q: per %q is counted in %q", r.State, r.Per, m.states)
	}
	switch {
	case m.unique != "" && r.Unique != "":
		return fmt.Errorf("unique is %s with per %q", m.unique, r.Per)
	case m.unique != "":
		r.Unique = m.unique
	case r.Per == PerMail && r.State == StateRcpt && r.Unique == "":
		r.Unique = "{instance}" // a message has several requests in this state
	}
	if r.Count == "" {
		r.Count = m.count
		if r.Per == PerRcpt && r.State != StateRcpt {
			r.Count = "{recipient_count}"
		}
	}
	return nil
}
