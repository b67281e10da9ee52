package api

import (
	"cmp"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// verdictNumbers answers with the numbers of verdicts over time.
func (s *Server) verdictNumbers(r *request) (any, error) {
	since, until, _, _, err := pageOf(r.query)
	if err != nil {
		return nil, err
	}
	if s.opts.Verdicts == nil {
		return nil, newProblem(http.StatusNotFound, "this server keeps no numbers of verdicts")
	}
	slot, _ := time.ParseDuration(cmp.Or(r.query.Get("slot"), "1h")) // validated
	numbers := s.opts.Verdicts(since, until, slot)
	return &numbers, nil
}

// overview answers with the numbers of the last day. Only administrators see the actions of administrators.
func (s *Server) overview(r *request) (any, error) {
	if s.opts.Overview == nil {
		return nil, newProblem(http.StatusNotFound, "this server keeps no numbers of verdicts")
	}
	o, err := s.opts.Overview(r.Context(), s.mayAdminister(r.Context(), r.who) == nil)
	if err != nil {
		return nil, err
	}
	return &o, nil
}

func verdictParams() []*huma.Param {
	slot := queryParam("slot", "string",
		"Length of a slot; absent: 1h. Those of 1m are remembered for three hours, those of 10m for a day, others for "+
			"90 days.")
	slot.Schema.Enum = []any{"1m", "10m", "1h", "24h"}
	return []*huma.Param{
		bounded(queryParam("since", "string",
			"Time at or after which the first slot begins, for example 2006-01-02T15:04:05Z; absent: a day before until."), 64),
		bounded(queryParam("until", "string", "Time before which the last slot begins; absent: now."), 64),
		slot,
	}
}
