package admin

import (
	"encoding/json"
	"time"
)

// A RateRequest is one event to be counted.
type RateRequest struct {
	Attributes Attributes `json:"attributes" minProperties:"1" maxProperties:"64" doc:"Attributes of the Postfix policy protocol, for example sasl_username and recipient."`
	Readonly   bool       `json:"readonly,omitempty" doc:"Count nothing; the rates are those without this event."`
}

// Attributes are values by their names.
type Attributes map[string]string

// UnmarshalJSON implements [json.Unmarshaler]. If a JSON object has the attributes
// twice, the second replaces the first.
func (a *Attributes) UnmarshalJSON(text []byte) error {
	var m map[string]string
	err := json.Unmarshal(text, &m)
	*a = m
	return err
}

// A RateDecision is the action for an event.
type RateDecision struct {
	Action string        `json:"action" enum:"dunno,defer,reject,hold,delay"`
	Text   string        `json:"text,omitempty" doc:"For the client; of a delay, the seconds."`
	Rules  []RateOutcome `json:"rules" doc:"The rules that apply to the event, in their order."`
}

// A RateOutcome is the result of one rule for an event.
type RateOutcome struct {
	Rule  string  `json:"rule"`
	Key   string  `json:"key"`
	Rate  float64 `json:"rate" doc:"In a period, this event included."`
	Limit float64 `json:"limit"`
	Over  bool    `json:"over"`
	New   bool    `json:"new" doc:"Whether the item was not yet seen in this period."`
}

// A RateLimit is one rule and the resources that it uses.
type RateLimit struct {
	Name    string  `json:"name"`
	Key     string  `json:"key"`
	Unique  string  `json:"unique,omitempty"`
	Reads   string  `json:"reads,omitempty" doc:"The rule whose counts it judges, without any of its own."`
	Limit   float64 `json:"limit"`
	Period  string  `json:"period"`
	Action  string  `json:"action"`
	Keys    int     `json:"keys" doc:"Keys that have a state."`
	Bytes   int64   `json:"bytes" doc:"Memory of the states."`
	Evicted int64   `json:"evicted" doc:"Keys that gave way because the memory was spent."`
	Dropped int64   `json:"dropped" doc:"Keys that were idle."`
}

// A RateKey is the state of one key in one rule.
type RateKey struct {
	Rule   string  `json:"rule"`
	Rate   float64 `json:"rate" doc:"In a period, as decayed until now."`
	Limit  float64 `json:"limit"`
	Period string  `json:"period"`
	Items  float64 `json:"items" doc:"Different items in the filter, estimated from its fill."`
}

// A RateReset is the number of rules in which a key was forgotten.
type RateReset struct {
	Reset int `json:"reset"`
}

// A List is one list.
type List struct {
	Name    string    `json:"name"`
	Tone    string    `json:"tone" enum:"black,white,grey"`
	Entries uint64    `json:"entries" doc:"Different elements, too low by about the error rate."`
	Allowed int       `json:"allowed" doc:"Entries of the exact allow list beside it."`
	Bytes   uint64    `json:"bytes" doc:"Memory of the filter."`
	Error   float64   `json:"error" doc:"Probability that one element which was never added is found."`
	Updated time.Time `json:"updated"`
	Fault   string    `json:"fault,omitempty" doc:"Why the file that is there now cannot be read: the node goes on with what it had."`
	Unknown bool      `json:"unknown,omitempty" doc:"The file could not be read since the node started: nothing is found in the list, whatever it should hold."`
}

// A ListMatch describes how an entry was found in a list.
type ListMatch struct {
	List    string    `json:"list"`
	Tone    string    `json:"tone" enum:"black,white,grey"`
	Element string    `json:"element" doc:"What was found: the entry, a parent domain, a network, a folder."`
	Reason  string    `json:"reason,omitempty"`
	Updated time.Time `json:"updated"`
	Error   float64   `json:"error" doc:"Probability that an entry which was never added would have been found."`
}

// A ListEdit adds entries to a list and removes entries from it. A removed entry goes into the allow list
// beside the list.
type ListEdit struct {
	Add    []string `json:"add,omitempty" maxItems:"10000" doc:"Entries as in a text file of entries; at most 10,000 with remove."`
	Remove []string `json:"remove,omitempty" maxItems:"10000"`
	Dry    bool     `json:"dry,omitempty" doc:"Only determine the result."`
}

// A ListEdited is the result of a [ListEdit].
type ListEdited struct {
	Added    []string `json:"added" doc:"Entries that are new in the list."`
	Restored []string `json:"restored" doc:"Entries that are out of the allow list."`
	Removed  []string `json:"removed" doc:"Entries that are new in the allow list."`
	Known    int      `json:"known" doc:"Entries to add that the list finds already."`
	Absent   int      `json:"absent" doc:"Entries to remove that the list does not find."`
}
