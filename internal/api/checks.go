package api

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

func (s *Server) check(r *request) (any, error) {
	switch t := r.mediaType(); t {
	case mailType:
		return s.checkMail(r)
	case requestType:
		return s.checkReady(r)
	default:
		return nil, wrongType(t, mailType, requestType)
	}
}

func (s *Server) checkMail(r *request) (any, error) {
	threshold := number(r.query, "threshold")
	box, err := mailbox(r.query.Get("mailbox"))
	if err != nil {
		return nil, err
	}
	sigs, source, err := s.mail(r)
	if err != nil {
		return nil, err
	}
	if len(sigs) == 0 {
		return client.NewVerdict(&bulkhead.Verdict{Threshold: threshold, Reasons: []string{noSignature}}), nil
	}
	v, err := s.ask(r, bulkhead.Query{Signatures: sigs, Source: source, Reporter: r.who, Mailbox: box,
		Threshold: threshold}, len(sigs))
	if err == nil && v.Class == bulkhead.ClassUnknown.String() && !bulkhead.Identifies(sigs) {
		v.Reasons = append(v.Reasons, noSignature)
	}
	return v, err
}

// mailbox returns the mailbox of a check in the form of [bulkhead.Mailbox]; "" if there is none.
func mailbox(address string) (string, error) {
	if len(address) > maxName {
		return "", fmt.Errorf("%w: a mailbox of %d bytes, limit %d", bulkhead.ErrMalformed, len(address), maxName)
	}
	return bulkhead.Mailbox(address), nil
}

// ask asks the house, and returns the verdict with at most the given number of findings.
func (s *Server) ask(r *request, q bulkhead.Query, findings int) (*client.Verdict, error) {
	v, err := s.house.Check(r.Context(), q)
	if err != nil {
		return nil, err
	}
	s.metrics.verdict(&v)
	v.Findings = v.Findings[:min(findings, len(v.Findings))]
	return client.NewVerdict(&v), nil
}

// A checkBody is a [client.Check] whose source is not decoded yet. The types of the other fields have
// the limits of their schema, so only the source is validated by its schema. Parsing the whole check a
// second time for that took a sixth of a request.
type checkBody struct {
	Signatures []bulkhead.Signature `json:"signatures"`
	Source     json.RawMessage      `json:"source"`
	Mailbox    string               `json:"mailbox"`
	Threshold  uint32               `json:"threshold"`
	Terse      bool                 `json:"terse"`
	Brief      bool                 `json:"brief"`
}

// source decodes and validates the source of a message; there may be none.
func (r *request) source(text json.RawMessage) (bulkhead.Source, error) {
	if len(text) == 0 || string(text) == "null" {
		return bulkhead.Source{}, nil
	}
	var value any
	var source client.Source
	for _, out := range []any{&value, &source} {
		if err := json.Unmarshal(text, out); err != nil {
			return bulkhead.Source{}, fmt.Errorf("%w: body: source: %v", bulkhead.ErrMalformed, err)
		}
	}
	schema := r.schemas.Schema(reflect.TypeFor[client.Source](), true, "")
	return source.Bulkhead(), validate(r.schemas, schema, "body: source", value)
}

func (s *Server) checkReady(r *request) (any, error) {
	if err := r.noQuery(); err != nil {
		return nil, err
	}
	body, err := r.jsonBody()
	if err != nil {
		return nil, err
	}
	items, batch, err := parse[checkBody](body, r.set.MaxBatch)
	if err != nil {
		return nil, err
	}
	queries, total := make([]bulkhead.Query, len(items)), 0
	for i := range items {
		c := &items[i]
		if err := r.signatures(c.Signatures); err != nil {
			return nil, at(err, i, batch)
		}
		source, err := r.source(c.Source)
		if err != nil {
			return nil, at(err, i, batch)
		}
		if total += len(c.Signatures); total > max(client.MaxBatchSignatures, r.set.MaxSignatures) {
			return nil, at(fmt.Errorf("%w: more than %d signatures up to here", bulkhead.ErrMalformed,
				client.MaxBatchSignatures), i, batch)
		}
		box, err := mailbox(c.Mailbox)
		if err != nil {
			return nil, at(err, i, batch)
		}
		queries[i] = bulkhead.Query{Signatures: s.withSenders(r, c.Signatures, source), Source: source, Reporter: r.who,
			Mailbox: box, Threshold: c.Threshold, Terse: c.Terse || c.Brief}
	}
	answers := make([]client.BatchVerdict, len(queries))
	for i := range queries {
		findings := len(items[i].Signatures) // without findings on added signatures
		if items[i].Brief {
			findings = 0
		}
		v, err := s.ask(r, queries[i], findings)
		if err != nil && !batch {
			return nil, err
		}
		answers[i] = client.BatchVerdict{Verdict: v, Problem: s.batchProblem(err)}
	}
	if !batch {
		return answers[0].Verdict, nil
	}
	return answers, nil
}
