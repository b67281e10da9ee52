package api

import (
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// Whitelist holds the signatures that administrators put on the whitelist while the node runs. Its
// methods may be called concurrently.
type Whitelist interface {
	// Cleared returns the whitelisted signatures, the latest last.
	Cleared() []admin.Cleared
	// Clear adds the text signatures among sigs and returns the ones it added. Its error wraps
	// bulkhead.ErrMalformed if none of sigs identifies a whole text, and bulkhead.ErrOverLimit if the
	// list is full.
	Clear(sigs []bulkhead.Signature, by, note string) ([]admin.Cleared, error)
	// Unclear removes a signature. It returns false if the signature was not on the list.
	Unclear(sig bulkhead.Signature) (bool, error)
}

func (s *Server) wavePage(r *request) (any, error) {
	h, err := s.remembers()
	if err != nil {
		return nil, err
	}
	page, err := h.Waves(r.Context(), admin.WaveQuery{Class: r.query.Get("class"), Sort: r.query.Get("sort"),
		Posts: r.query.Get("posts") == "true",
		Limit: int(number(r.query, "limit"))})
	if page.Waves == nil {
		page.Waves = []admin.Wave{}
	}
	return &page, err
}

func (s *Server) wave(r *request) (any, error) {
	return remembered(s, r, History.Wave, "there is no wave %d: others may have taken its place")
}

func (s *Server) whitelist() (Whitelist, error) {
	if s.opts.Whitelist == nil {
		return nil, newProblem(http.StatusNotFound, "this node has no whitelist of its own")
	}
	return s.opts.Whitelist, nil
}

func (s *Server) showWhitelist(*request) (any, error) {
	white, err := s.whitelist()
	if err != nil {
		return nil, err
	}
	return append([]admin.Cleared{}, white.Cleared()...), nil
}

// clear puts the text of an entry on the whitelist.
func (s *Server) clear(r *request) (any, error) {
	c, err := one[admin.Clear](r)
	if err != nil {
		return nil, err
	}
	white, err := s.whitelist()
	if err != nil {
		return nil, err
	}
	h, err := s.remembers()
	if err != nil {
		return nil, err
	}
	r.did = []any{"entry", c.Entry}
	e, ok, err := h.HistoryEntry(r.Context(), c.Entry)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, newProblem(http.StatusNotFound, fmt.Sprintf("entry %d is not in the history", c.Entry))
	}
	added, err := white.Clear(e.Signatures, r.who.Account, c.Note)
	for i := range added {
		r.did = append(r.did, fmt.Sprintf("signature %d", i+1), added[i].Signature)
	}
	return append([]admin.Cleared{}, added...), err
}

func (s *Server) unclear(r *request) (any, error) {
	white, err := s.whitelist()
	if err != nil {
		return nil, err
	}
	sig, err := bulkhead.ParseSignature(r.query.Get("signature"))
	if err != nil {
		return nil, err
	}
	r.did = []any{"signature", sig}
	ok, err := white.Unclear(sig)
	if err == nil && !ok {
		err = newProblem(http.StatusNotFound, fmt.Sprintf("%v was not put on the whitelist here", sig))
	}
	return nil, err
}

func waveParams() []*huma.Param {
	class := queryParam("class", "string", "Latest answer to a check of the wave's messages.")
	class.Schema.Enum = []any{"unknown", "good", "bulk", "suspected", "spam"}
	order := queryParam("sort", "string",
		"Which are first: the largest, those with the most messages in the last hour, those with the latest message, or "+
			"those that began last.")
	order.Schema.Enum = []any{"size", "growth", "recent", "new"}
	posts := queryParam("posts", "string", "true: with the posts of mailing lists.")
	posts.Schema.Enum = []any{"true", "false"}
	return []*huma.Param{class, order, posts, queryParam("limit", "integer", "Most waves.")}
}

func signatureParam() *huma.Param {
	p := bounded(queryParam("signature", "string", "SCHEME:HEX."), 200)
	p.Required = true
	return p
}
