package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// A Problem is a refusal, told as RFC 9457 asks. It is an error, and wraps the
// sentinel of package bulkhead that its status stands for.
type Problem struct {
	Title  string `json:"title" doc:"The meaning of the status in words."`
	Status int    `json:"status" minimum:"400" maximum:"599" doc:"HTTP status."`
	Detail string `json:"detail,omitempty" doc:"What is wrong with this request."`
}

// Error returns the detail, or the title if there is none.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return strings.ToLower(p.Title)
}

// Unwrap returns the sentinel that the status stands for, nil for none.
func (p *Problem) Unwrap() error {
	for _, s := range statuses {
		if s.status == p.Status {
			return s.err
		}
	}
	switch {
	case p.Status == http.StatusRequestEntityTooLarge:
		return bulkhead.ErrOverLimit
	case p.Status >= 400 && p.Status < 500:
		return bulkhead.ErrMalformed
	}
	return nil
}

// statuses maps the sentinels to HTTP, both ways.
var statuses = []struct {
	err    error
	status int
}{
	{bulkhead.ErrMalformed, http.StatusBadRequest},
	{bulkhead.ErrUnauthorised, http.StatusUnauthorized},
	{bulkhead.ErrForbidden, http.StatusForbidden},
	{bulkhead.ErrOverLimit, http.StatusTooManyRequests},
	{bulkhead.ErrGeometry, http.StatusPreconditionFailed},
	{bulkhead.ErrReadOnly, http.StatusServiceUnavailable},
}

// problem turns an error into what the client is told, the one place that maps
// errors to statuses. The text of a fault of the node itself stays private.
func problem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return newProblem(s.status, err.Error())
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return newProblem(http.StatusServiceUnavailable, "the request was not finished in time")
	}
	return newProblem(http.StatusInternalServerError, "internal error; the node's log says more")
}

func newProblem(status int, detail string) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

func (p *Problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="bulkhead"`)
	case http.StatusTooManyRequests:
		h.Set("Retry-After", "1")
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "10")
	}
	w.WriteHeader(p.Status)
	body, err := json.Marshal(p)
	if err != nil {
		return // out of reach: the fields are strings and a number
	}
	w.Write(append(body, '\n'))
}
