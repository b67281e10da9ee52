package api

import (
	"context"
	"net/http"

	"github.com/bulkhead-mail/bulkhead/client"
)

// A Node describes itself. Its method may be called concurrently. It should take no
// more than a few milliseconds, since /metrics calls it, too.
type Node interface {
	State(ctx context.Context) client.NodeState
}

func (s *Server) state(r *request) (any, error) {
	if s.node == nil {
		return nil, newProblem(http.StatusNotFound, "this server describes no node")
	}
	state := s.node.State(r.Context())
	state.Relayed = s.relayed.Load()
	return &state, nil
}

func (s *Server) healthz(*request) (any, error) {
	return text{"text/plain; charset=utf-8", "ok\n"}, nil
}

func (s *Server) readyz(*request) (any, error) {
	if err := s.ready(); err != nil {
		return nil, newProblem(http.StatusServiceUnavailable, err.Error())
	}
	return text{"text/plain; charset=utf-8", "ready\n"}, nil
}
