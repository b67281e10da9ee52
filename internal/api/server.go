package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/door"
)

// Options are the settings of a [Server]. Clearinghouse and Read are required.
type Options struct {
	// Clearinghouse answers the requests.
	Clearinghouse bulkhead.Clearinghouse
	// Read returns the signatures of a whole message and its source by its headers. It
	// must not keep raw, and ends with ctx.
	Read func(ctx context.Context, raw []byte) ([]bulkhead.Signature, bulkhead.Source, error)
	// Senders returns the signatures of a message's sender; nil: there are none.
	Senders func(bulkhead.Source) []bulkhead.Signature
	// Accounts identifies the holders of tokens; nil: every token is refused.
	Accounts Accounts
	// Users manages the accounts; nil: /v1/users answers 403.
	Users Users
	// RateLimits and Lists are those of the doors for mail servers; nil: there
	// are none.
	RateLimits RateLimits
	Lists      Lists
	// Pairing brings nodes into networks; nil: /v1/invitations answers 404.
	Pairing Pairing
	// Peers manages the nodes with which this one shares; nil: /v1/peers answers 404.
	Peers Peers
	// History is what the node remembers of checks and votes; nil: /v1/history answers
	// 404.
	History History
	// Whitelist is what administrators put on the whitelist while the node runs; nil:
	// /v1/whitelist answers 404.
	Whitelist Whitelist
	// Config is the configuration of the node; nil: /v1/config answers 404.
	Config Configuration
	// Audit keeps a record of what administrators do, and of log-ins; nil: nothing does.
	Audit Audit
	// Node describes the node; nil: /v1/node answers 404.
	Node Node
	// Sizes calculates what the node would take for another use; nil: /v1/size answers
	// 404. Its error says what is wrong with the question.
	Sizes func(client.SizeQuestion) (client.Sizes, error)
	// Verdicts returns how many verdicts there were in the slots of one length, 10 minutes,
	// an hour or a day, that begin at or after since and before until. Zero until stands
	// for now, and zero since for a day before. nil: /v1/verdicts answers 404.
	Verdicts func(since, until time.Time, slot time.Duration) client.Verdicts
	// Ready returns nil if the node accepts requests, or why it currently does not; nil:
	// the node is always ready.
	Ready func() error
	// Examine reads the node's files and says what is wrong with them. It is called once
	// at a time; nil: /v1/examination answers 404.
	Examine func(context.Context) (*client.Examination, error)
	// Page is served wherever no operation of the API is, to who may check, and on
	// /login to everybody; nil: nothing is.
	Page http.Handler
	// Advance moves the node's clock forward, or back if it is given less than 0, for tests;
	// with jump, the clock is wrong and no time has passed. It returns the new time once
	// everything that is due by then is done. Its error wraps bulkhead.ErrMalformed
	// if the clock cannot move so far. nil: there is no /v1/clock.
	Advance func(ctx context.Context, d time.Duration, jump bool) (time.Time, error)
	// Access holds the initial rights and limits of clients; see [Server.SetAccess].
	Access Access
	// Failures slows down clients whose token is wrong; nil: nothing does.
	Failures *door.Failures
	// Version of the program, for the OpenAPI document.
	Version string
	// Registry receives the server's metrics and serves /metrics, with all that others
	// have registered; nil: a fresh one.
	Registry *prometheus.Registry
	// Memory is what the bodies of requests take while they are answered, [door.Cost]
	// times their size each; nil sets no bound. A request for which there is none in two
	// seconds is answered with status 503.
	Memory *door.Memory
	// Log records each fault of the node, and each change by an administrator; nil
	// discards.
	Log *slog.Logger
}

// A Server serves the API. It is an [http.Handler]; its methods may be called
// concurrently.
type Server struct {
	house    bulkhead.Counter
	read     func(context.Context, []byte) ([]bulkhead.Signature, bulkhead.Source, error)
	senders  func(bulkhead.Source) []bulkhead.Signature
	accounts Accounts
	users    Users
	peers    Peers
	pairing  Pairing
	history  History
	white    Whitelist
	config   Configuration
	audit    Audit
	node     Node
	rates    RateLimits
	lists    Lists
	sizes    func(client.SizeQuestion) (client.Sizes, error)
	verdicts func(since, until time.Time, slot time.Duration) client.Verdicts
	ready    func() error
	page     http.Handler
	advance  func(context.Context, time.Duration, bool) (time.Time, error)
	examine  func(context.Context) (*client.Examination, error)
	reading  sync.Mutex // held while that runs
	log      *slog.Logger
	metrics  *metrics
	refusals refusals
	sessions *sessions
	failures *door.Failures
	origin   *http.CrossOriginProtection
	settings atomic.Pointer[settings]
	mux      *http.ServeMux
	openAPI  *huma.OpenAPI
	memory   *door.Memory
	relayed  atomic.Pointer[string] // see noteRelay
}

// New returns a server, or an error if a required option is missing.
func New(o Options) (*Server, error) {
	if o.Clearinghouse == nil || o.Read == nil {
		return nil, errors.New("api: Clearinghouse and Read are required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Senders == nil {
		o.Senders = func(bulkhead.Source) []bulkhead.Signature { return nil }
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	s := &Server{
		house: bulkhead.CounterOf(o.Clearinghouse), read: o.Read, senders: o.Senders, accounts: o.Accounts, users: o.Users,
		peers: o.Peers, pairing: o.Pairing, node: o.Node,
		rates: o.RateLimits, lists: o.Lists, history: o.History, white: o.Whitelist, config: o.Config, audit: o.Audit,
		ready: o.Ready, page: o.Page, advance: o.Advance, examine: o.Examine, log: o.Log,
		sizes: o.Sizes, verdicts: o.Verdicts,
		origin: http.NewCrossOriginProtection(), mux: http.NewServeMux(),
		openAPI:  newDocument(o.Version),
		memory:   o.Memory,
		sessions: newSessions(), failures: o.Failures,
	}
	s.SetAccess(o.Access)
	m, err := newMetrics(o.Registry, o.Node, o.Peers)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	s.metrics = m
	s.mount(o.Registry)
	return s, nil
}

// SetAccess replaces the rights and limits of clients. Current requests finish under the
// rules they began with; rate limits start afresh.
func (s *Server) SetAccess(a Access) { s.settings.Store(newSettings(a)) }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Times returns how long the answers took of the API's operations, without those of the
// pages.
func (s *Server) Times() *door.Times { return &s.metrics.times }

// A request is one request that has passed the access checks.
type request struct {
	*http.Request
	who     bulkhead.Reporter
	set     *settings
	held    door.Hold     // what the body takes
	schemas huma.Registry // of the document
	params  []*huma.Param // of the operation
	local   bool          // a client of this machine
	unsaid  bulkhead.Vote // the vote of a report that names none
	did     []any         // an administrator's change, as attributes of a log line; no secrets
}

// patience is how long a request waits for memory.
const patience = 2 * time.Second

// A route is one operation of the API.
type route struct {
	op    *huma.Operation
	need  need
	serve func(*request) (any, error)
	asks  bool // it changes nothing that is administered, though its method says so
}

// recorded reports whether the record of administration has what a client does there.
func (rt *route) recorded() bool { return rt.op.Method != http.MethodGet && !rt.asks }

// handle serves a route after the checks that every request passes: rate limit, origin,
// authentication, body limit. The order matters: nothing of a request is parsed before
// the rate limit has let it through.
func (s *Server) handle(rt route) http.HandlerFunc {
	m := s.metrics.route(rt.op.Method, rt.op.Path)
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		status := http.StatusInternalServerError
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("request panicked", "path", rt.op.Path, "panic", p, "stack", string(debug.Stack()))
				status = http.StatusInternalServerError
				writeProblem(w, newProblem(status, "internal error; the node's log says more"))
			}
			m.observe(status, time.Since(start))
		}()
		body, err := s.answer(w, r, rt)
		if err != nil {
			p := problem(err)
			status = p.Status
			if status >= 500 && !errors.Is(err, bulkhead.ErrReadOnly) {
				s.log.Error("request failed", "path", rt.op.Path, "err", err)
			}
			writeProblem(w, p)
			return
		}
		if err := writeBody(w, rt.op.DefaultStatus, body); err != nil {
			s.log.Error("request failed", "path", rt.op.Path, "err", err)
			writeProblem(w, problem(err))
			return
		}
		status = rt.op.DefaultStatus
	}
}

// admit checks that a request's client may do n: rate limit, origin, authentication.
func (s *Server) admit(r *http.Request, n need) (*request, error) {
	set := s.settings.Load()
	addr, local := set.client(r)
	if !local {
		s.noteRelay(r, addr)
	}
	if !set.limiter.Allow(addr, 1) {
		return nil, fmt.Errorf("%w: more than %v requests a second from %v", bulkhead.ErrOverLimit, set.Rate.PerSecond, addr)
	}
	if err := s.origin.Check(r); err != nil {
		return nil, fmt.Errorf("%w: %v", bulkhead.ErrForbidden, err)
	}
	who, err := s.authorise(r, set, addr, local, n)
	if err != nil {
		s.refusals.note(s, who, r, err)
		return nil, err
	}
	return &request{Request: r, who: who, local: local, set: set, held: s.memory.Hold(), unsaid: bulkhead.Spam,
		schemas: s.openAPI.Components.Schemas}, nil
}

// answer sends the answer of a route to an admitted request.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, rt route) (any, error) {
	req, err := s.admit(r, rt.need)
	if err != nil {
		return nil, err
	}
	if limit := req.set.MaxBody; r.ContentLength > limit {
		return nil, newProblem(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("body of %d bytes, limit %d", r.ContentLength, limit))
	}
	r.Body = http.MaxBytesReader(w, r.Body, req.set.MaxBody)
	defer req.held.Release()
	req.params = rt.op.Parameters
	body, err := rt.serve(req)
	if rt.recorded() {
		s.record(client.AuditEntry{Account: req.who.Account, From: req.who.Addr.String(), Action: rt.op.OperationID},
			req.did, err)
	}
	if rt.need == admin && rt.op.Method != http.MethodGet {
		line := append([]any{"operation", rt.op.OperationID, "by", req.who.Account, "from", req.who.Addr}, req.did...)
		if err != nil {
			line = append(line, "err", err)
		}
		s.log.Info("administration", line...)
	}
	return body, err
}

// body reads the whole body of the request.
func (r *request) body() ([]byte, error) {
	body, err := r.held.ReadAll(r.Context(), r.Body, r.ContentLength, patience)
	var long *http.MaxBytesError
	var netErr interface{ Timeout() bool }
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, door.ErrCrowded):
		return nil, newProblem(http.StatusServiceUnavailable, err.Error())
	case errors.As(err, &long):
		return nil, newProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("body of more than %d bytes", long.Limit))
	case errors.As(err, &netErr) && netErr.Timeout():
		return nil, newProblem(http.StatusRequestTimeout, "the body did not arrive in time")
	}
	return nil, fmt.Errorf("%w: body: %v", bulkhead.ErrMalformed, err)
}

// mediaType returns the type of the body without its parameters.
func (r *request) mediaType() string {
	value, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(value))
}

// A buffer encodes one answer.
type buffer struct {
	bytes.Buffer
	enc *json.Encoder
}

// buffers is reused memory, not state: an empty pool only costs more.
var buffers = sync.Pool{New: func() any {
	b := new(buffer)
	b.enc = json.NewEncoder(&b.Buffer)
	b.enc.SetEscapeHTML(false)
	return b
}}

// maxPooled, in bytes, prevents one large answer from being kept for ever.
const maxPooled = 64 << 10

// writeBody writes an answer. An error means that it cannot be encoded as JSON, and that
// nothing was written; a vanished client is no error.
func writeBody(w http.ResponseWriter, status int, body any) error {
	switch v := body.(type) {
	case nil:
		w.WriteHeader(status)
		return nil
	case text:
		w.Header().Set("Content-Type", v.mediaType)
		w.WriteHeader(status)
		io.WriteString(w, v.body)
		return nil
	}
	b := buffers.Get().(*buffer)
	b.Reset()
	if err := b.enc.Encode(body); err != nil {
		return fmt.Errorf("api: encode %T: %w", body, err)
	}
	w.Header()["Content-Type"] = jsonType
	w.Header()["Content-Length"] = []string{strconv.Itoa(b.Len())}
	w.WriteHeader(status)
	w.Write(b.Bytes())
	if b.Cap() <= maxPooled {
		buffers.Put(b)
	}
	return nil
}

// jsonType is shared by all answers, which do not change it.
var jsonType = []string{"application/json"}

// A text is an answer that is not JSON.
type text struct{ mediaType, body string }

// readTimeout is the longest that the signatures of a message may take.
const readTimeout = 10 * time.Second

// voteTimeout is the longest that a vote may wait for the disk.
const voteTimeout = 30 * time.Second

func (r *request) voteContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), voteTimeout)
}
