package api

import "net/http"

// examination makes the node read its files. It serves one request at a time, because each keeps a
// disk busy.
func (s *Server) examination(r *request) (any, error) {
	if s.opts.Examine == nil {
		return nil, newProblem(http.StatusNotFound, "this server has no files to examine")
	}
	if !s.reading.TryLock() {
		return nil, newProblem(http.StatusConflict, "an examination is running: try again later")
	}
	defer s.reading.Unlock()
	return s.opts.Examine(r.Context())
}
