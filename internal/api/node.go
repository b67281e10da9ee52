package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// A Node describes itself. Its methods may be called concurrently. State should take no more than a
// few milliseconds, because /metrics calls it.
type Node interface {
	State(ctx context.Context) admin.NodeState
	// ConfirmClock accepts the present time of a clock that looked implausible, so that generations
	// age again.
	ConfirmClock(ctx context.Context) error
	// BringBack opens the generations again that have aged out lately and have not expired by the present
	// time. It returns how many it opened, and how many have expired.
	BringBack(ctx context.Context) (opened, expired int, err error)
	// Promote makes a node that follows another one decide in its place.
	Promote(ctx context.Context) error
	// Learn learns the words and the style of a message, of spam or of delivered mail, from a reporter
	// whom the node trusts.
	Learn(ctx context.Context, who bulkhead.Reporter, sigs []bulkhead.Signature, features []string, spam bool) error
	// Rules returns the rules of the judgement with what became of their decisions.
	Rules(days int) []admin.Rule
}

func (s *Server) state(r *request) (any, error) {
	if s.opts.Node == nil {
		return nil, newProblem(http.StatusNotFound, "this server describes no node")
	}
	state := s.opts.Node.State(r.Context())
	state.Relayed = s.relayed.Load()
	return &state, nil
}

// ruleDays is the largest number of days whose decisions are counted.
const ruleDays = 28

func (s *Server) rules(r *request) (any, error) {
	if s.opts.Node == nil {
		return nil, newProblem(http.StatusNotFound, "this server describes no node")
	}
	return s.opts.Node.Rules(int(cmp.Or(number(r.query, "days"), ruleDays))), nil
}

func (s *Server) bringBack(r *request) (any, error) {
	if s.opts.Node == nil {
		return nil, newProblem(http.StatusNotFound, "this server describes no node")
	}
	n, expired, err := s.opts.Node.BringBack(r.Context())
	r.did = []any{"generations", n, "expired", expired}
	if err != nil {
		return nil, err
	}
	return &admin.BroughtBack{Generations: n, Expired: expired}, nil
}

func (s *Server) confirmClock(r *request) (any, error) {
	if s.opts.Node == nil {
		return nil, newProblem(http.StatusNotFound, "this server describes no node")
	}
	if a := s.opts.Node.State(r.Context()).Ageing; a != nil {
		r.did = []any{"clock", a.Clock, "newest_record", a.Newest, "expired_tally", a.Tally, "expired_blocklist", a.Blocklist}
	}
	if err := s.opts.Node.ConfirmClock(r.Context()); err != nil {
		return nil, err
	}
	return s.state(r)
}

// promote makes a second node of a pair the first.
func (s *Server) promote(r *request) (any, error) {
	if s.opts.Node == nil {
		return nil, newProblem(http.StatusNotFound, "this server describes no node")
	}
	if p := s.opts.Node.State(r.Context()).Standby; p != nil {
		r.did = []any{"term", p.Term, "last", p.Last, "lag", p.Lag}
	}
	if err := s.opts.Node.Promote(r.Context()); err != nil {
		return nil, err
	}
	return s.state(r)
}

// learn learns from a message of a collection.
func (s *Server) learn(r *request) (any, error) {
	if s.opts.Node == nil {
		return nil, newProblem(http.StatusNotFound, "this server describes no node")
	}
	if t := r.mediaType(); t != mailType {
		return nil, wrongType(t, mailType)
	}
	as := r.query.Get("as")
	if as != "spam" && as != "delivered" {
		return nil, fmt.Errorf("%w: learn as %.40q, want spam or delivered", bulkhead.ErrMalformed, as)
	}
	sigs, source, err := s.mail(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := r.voteContext()
	defer cancel()
	if err := s.opts.Node.Learn(ctx, r.who, sigs, source.Features, as == "spam"); err != nil {
		return nil, err
	}
	return &client.Lesson{Features: len(source.Features)}, nil
}

func (s *Server) healthz(*request) (any, error) {
	return text{"text/plain; charset=utf-8", "ok\n"}, nil
}

func (s *Server) readyz(r *request) (any, error) {
	if err := s.opts.Ready(); err != nil {
		return nil, newProblem(http.StatusServiceUnavailable, err.Error())
	}
	answer := "ready\n" // exactly this: older clients expect it
	if s.opts.Node != nil && r.URL.Query().Has("verbose") {
		switch state := s.opts.Node.State(r.Context()); { // the reason is for an administrator, in GET /v1/node
		case state.ReadOnly == "":
			answer += "reports are taken\n"
		case state.Journal != nil && state.Journal.Problem != "":
			answer += "reports are refused: the stream of the journal takes none\n"
		default:
			answer += "reports are refused\n"
		}
	}
	return text{"text/plain; charset=utf-8", answer}, nil
}

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
