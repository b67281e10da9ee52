package api

import (
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A Clock is the time of a node with an adjustable clock.
type Clock struct {
	Now time.Time `json:"now" doc:"Time of the node, after it was moved."`
}

// clockRoutes returns POST /v1/clock, for a node with an adjustable clock.
func (s *Server) clockRoutes() []route {
	if s.opts.Advance == nil {
		return nil
	}
	by := queryParam("advance", "string", "How far forward, for example 24h.")
	back := queryParam("back", "string", "How far back; either this or advance.")
	jump := queryParam("jump", "string", "How far forward without that time having passed: the clock is wrong.")
	return []route{s.route("POST /v1/clock", "advanceClock", "Move the clock of the node.", report, s.moveClock,
		params(by, back, jump), gives(s.schema(Clock{})))}
}

func (s *Server) moveClock(r *request) (any, error) {
	if err := s.mayMoveClock(r); err != nil {
		return nil, err
	}
	text, sign := r.query.Get("advance"), time.Duration(1)
	switch {
	case r.query.Has("advance"):
	case r.query.Has("jump"):
		text = r.query.Get("jump")
	default:
		text, sign = r.query.Get("back"), -1
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || len(r.query) != 1 {
		return nil, fmt.Errorf("%w: want one of advance, back and jump, a duration like 24h, and not %.40q",
			bulkhead.ErrMalformed, text)
	}
	d *= sign
	ctx, cancel := r.voteContext()
	defer cancel()
	now, err := s.opts.Advance(ctx, d, r.query.Has("jump"))
	if err != nil {
		return nil, err
	}
	s.opts.Log.Info("clock moved", "by", d, "now", now)
	return &Clock{Now: now}, nil
}

// mayMoveClock returns an error if a client may not move the clock. Administrators may, and so may
// clients of this machine without a token.
func (s *Server) mayMoveClock(r *request) error {
	if r.who.Account == "" && r.local {
		return nil
	}
	return s.mayAdminister(r.Context(), r.who)
}
