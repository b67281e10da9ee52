package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// maxKeep is the largest number of generations in a question about sizes. The configuration has a
// limit of its own.
const maxKeep = 1000

// sizeParams are the parameters of /v1/size.
func sizeParams() []*huma.Param {
	signatures := queryParam("signatures", "integer", "Different signatures a day.")
	signatures.Required, *signatures.Schema.Minimum = true, 1
	params := []*huma.Param{signatures, queryParam("listed", "integer",
		"Of these, how many are voted spam a day; absent: 1 %.")}
	for _, p := range []struct{ name, doc string }{
		{"count_error", "Accepted probability that a count is wrong; absent: the node's."},
		{"list_error", "Accepted probability that an unreported signature is found listed; absent: the node's."},
	} {
		param := queryParam(p.name, huma.TypeNumber, p.doc)
		least, most := 0.0, 1.0
		param.Schema.ExclusiveMinimum, param.Schema.ExclusiveMaximum = &least, &most
		params = append(params, param)
	}
	for _, p := range []struct{ name, doc string }{
		{"tally_keep", "Generations of the tally; absent: the node's."},
		{"blocklist_keep", "Generations of the blocklist; absent: the node's."},
	} {
		param := queryParam(p.name, "integer", p.doc)
		*param.Schema.Minimum, *param.Schema.Maximum = 1, maxKeep
		params = append(params, param)
	}
	return params
}

// size answers how much memory and disk the node would need for another load.
func (s *Server) size(r *request) (any, error) {
	if !r.query.Has("signatures") {
		return nil, fmt.Errorf("%w: no signatures", bulkhead.ErrMalformed)
	}
	if s.opts.Sizes == nil {
		return nil, newProblem(http.StatusNotFound, "this server calculates no sizes")
	}
	sizes, err := s.opts.Sizes(sizeQuestion(r.query))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
	}
	return &sizes, nil
}

// sizeQuestion builds the question from parameters that were validated.
func sizeQuestion(q url.Values) admin.SizeQuestion {
	of := admin.SizeQuestion{Signatures: uint64(number(q, "signatures")), CountError: fraction(q, "count_error"),
		ListError: fraction(q, "list_error"), TallyKeep: int(number(q, "tally_keep")),
		BlocklistKeep: int(number(q, "blocklist_keep"))}
	if q.Has("listed") {
		listed := uint64(number(q, "listed"))
		of.Listed = &listed
	}
	return of
}

// fraction returns a parameter as a real number, or 0 if it is absent. [request.query] has validated it.
func fraction(q url.Values, name string) float64 {
	f, _ := parseFraction(q, name)
	return f
}

func parseFraction(q url.Values, name string) (float64, error) {
	v := q.Get(name)
	if v == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || f-f != 0 { // schemas cannot exclude infinities and NaN
		return 0, fmt.Errorf("%w: %s %.40q is not a number", bulkhead.ErrMalformed, name, v)
	}
	return f, nil
}
