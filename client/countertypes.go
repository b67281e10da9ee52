package client

import "github.com/bulkhead-mail/bulkhead"

// The largest requests, as the OpenAPI document states them.
const (
	MaxLooks  = 4096  // signatures in a LookRequest
	MaxCounts = 65536 // signatures in a CountRequest
)

// A LookRequest asks about signatures by themselves; see [bulkhead.Counter].
type LookRequest struct {
	Signatures []bulkhead.Signature `json:"signatures" minItems:"1" maxItems:"4096" nullable:"false" doc:"Each as SCHEME:HEX."`
	Counts     bool                 `json:"counts,omitempty" doc:"Say sightings, first and error."`
	Judgements bool                 `json:"judgements,omitempty" doc:"Say judged, spam and confidence; first too of what is judged."`
	Aside      bool                 `json:"aside,omitempty" doc:"A further question about what was asked before: not counted as a check."`
}

// Looks is the answer to a LookRequest.
type Looks struct {
	Looks []Look `json:"looks" nullable:"false" doc:"One for each signature, in their order."`
}

// A Look is what is known of one signature by itself; see [bulkhead.Look]. Absent
// fields are 0.
type Look struct {
	Sightings uint32 `json:"sightings,omitempty"`
	Spam      uint32 `json:"spam,omitempty" doc:"Spam votes."`
	Judged    string `json:"judged,omitempty" enum:"spam,revoked" doc:"Absent: not judged, or whitelisted."`
	// Confidence is 0 unless the signature is judged spam.
	Confidence int     `json:"confidence,omitempty" minimum:"0" maximum:"100" doc:"That the signature marks spam."`
	First      int64   `json:"first,omitempty" doc:"Start of the oldest generation that holds the signature, seconds since 1970."`
	Error      float64 `json:"error,omitempty" minimum:"0" maximum:"1" doc:"Probability that a signature that was never counted would be shown with such counts."`
}

// NewLook returns l in the form of the JSON interface.
func NewLook(l *bulkhead.Look) Look {
	out := Look{Sightings: l.Sightings, Spam: l.Spam, Confidence: l.Confidence, First: l.First, Error: l.Error}
	if l.Judged != bulkhead.Unjudged {
		out.Judged = l.Judged.String()
	}
	return out
}

// Bulkhead returns l in the form of the root package, or an error if its judgement is unknown.
func (l *Look) Bulkhead() (bulkhead.Look, error) {
	out := bulkhead.Look{Sightings: l.Sightings, Spam: l.Spam, Confidence: l.Confidence, First: l.First, Error: l.Error}
	if l.Judged == "" {
		return out, nil
	}
	judged, err := parseJudgement(l.Judged)
	out.Judged = judged
	return out, err
}

// A CountRequest counts sightings of signatures, all or none.
type CountRequest struct {
	Signatures []bulkhead.Signature `json:"signatures" minItems:"1" maxItems:"65536" nullable:"false" doc:"Each as SCHEME:HEX."`
	Counts     []uint32             `json:"counts" minItems:"1" maxItems:"65536" minimum:"1" maximum:"16777215" nullable:"false" doc:"How often each was seen."`
}
