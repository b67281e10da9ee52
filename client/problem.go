package client

import (
	"errors"
	"net/http"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// A Problem is a refusal in the form of RFC 9457. It is an error, and wraps the sentinel of package
// bulkhead for its status.
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

// Unwrap returns the sentinel for the status, or nil if there is none.
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

// StatusOf returns the HTTP status of the first sentinel of package bulkhead that
// err wraps, and false if it wraps none.
func StatusOf(err error) (int, bool) {
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status, true
		}
	}
	return 0, false
}
