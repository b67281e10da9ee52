package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/bulkhead-mail/bulkhead/client"
)

// problem turns an error into the client's problem document. No other function maps errors to
// statuses. The text of an internal error of the node stays private.
func problem(err error) *client.Problem {
	var p *client.Problem
	if errors.As(err, &p) {
		return p
	}
	if status, ok := client.StatusOf(err); ok {
		return newProblem(status, err.Error())
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return newProblem(http.StatusServiceUnavailable, "the request was not finished in time")
	}
	return newProblem(http.StatusInternalServerError, "internal error; the node's log says more")
}

func newProblem(status int, detail string) *client.Problem {
	return &client.Problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

func writeProblem(w http.ResponseWriter, p *client.Problem) {
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
		return // cannot happen: the fields are strings and a number
	}
	w.Write(append(body, '\n'))
}
