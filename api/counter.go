package api

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

// look answers what is known of signatures by themselves.
func (s *Server) look(r *request) (any, error) {
	in, err := one[client.LookRequest](r)
	if err != nil {
		return nil, err
	}
	if err := valid(in.Signatures); err != nil {
		return nil, err
	}
	var what bulkhead.Aspect
	if in.Counts {
		what |= bulkhead.Counts
	}
	if in.Judgements {
		what |= bulkhead.Judgements
	}
	if in.Aside {
		what |= bulkhead.Aside
	}
	looks := make([]bulkhead.Look, len(in.Signatures))
	if err := s.house.Look(r.Context(), in.Signatures, looks, what); err != nil {
		return nil, err
	}
	out := &client.Looks{Looks: make([]client.Look, len(looks))}
	for i := range looks {
		out.Looks[i] = client.NewLook(&looks[i])
	}
	return out, nil
}

// count counts signatures by themselves. None of the bounds of strangers holds for
// such counts: they are taken from those only who may count without.
func (s *Server) count(r *request) (any, error) {
	if err := s.maySpeak(r); err != nil {
		return nil, err
	}
	in, err := one[client.CountRequest](r)
	if err != nil {
		return nil, err
	}
	if err := valid(in.Signatures); err != nil {
		return nil, err
	}
	if len(in.Counts) != len(in.Signatures) {
		return nil, fmt.Errorf("%w: %d counts of %d signatures", bulkhead.ErrMalformed, len(in.Counts), len(in.Signatures))
	}
	for i, n := range in.Counts {
		if n == 0 {
			return nil, fmt.Errorf("%w: count %d of %d is 0", bulkhead.ErrMalformed, i+1, len(in.Counts))
		}
		in.Counts[i] = min(n, bulkhead.Many)
	}
	ctx, cancel := r.voteContext()
	defer cancel()
	return nil, s.house.Count(ctx, in.Signatures, in.Counts)
}
