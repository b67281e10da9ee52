package api

import (
	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

// look returns the counts and judgements of single signatures.
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

// count counts single signatures. The limits on strangers do not apply to such counts, so only
// clients without these limits may send them.
func (s *Server) count(r *request) (any, error) {
	if err := s.maySpeak(r); err != nil {
		return nil, err
	}
	in, err := one[client.CountRequest](r)
	if err != nil {
		return nil, err
	}
	if err := bulkhead.ValidCounts(in.Signatures, in.Counts); err != nil {
		return nil, err
	}
	ctx, cancel := r.voteContext()
	defer cancel()
	return nil, s.house.Count(ctx, in.Signatures, in.Counts)
}
