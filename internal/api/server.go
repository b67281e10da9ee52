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
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/door"
)

// Options are the settings of a [Server]. Clearinghouse and Read are required.
type Options struct {
	// Clearinghouse answers the requests.
	Clearinghouse bulkhead.Clearinghouse
	// Read returns the signatures of a whole message, and its source by its headers and the domains whose DKIM
	// signatures the client has verified. It must not keep raw, and ends with ctx.
	Read func(ctx context.Context, raw []byte, dkim []string) ([]bulkhead.Signature, bulkhead.Source, error)
	// Senders returns the signatures of a message's sender. nil: senders have none.
	Senders func(bulkhead.Source) []bulkhead.Signature
	// Accounts identifies the holders of tokens. nil: every token is refused.
	Accounts Accounts
	// Users manages the accounts. nil: /v1/users answers 403.
	Users Users
	// LocalAdmin is the account in whose name administrators of this machine act who come through a
	// unix socket without a token; see [Peer].
	LocalAdmin string
	// RateLimits and Lists belong to the doors for mail servers. nil: there are none.
	RateLimits RateLimits
	Lists      Lists
	// Pairing brings nodes into networks. nil: /v1/invitations answers 404.
	Pairing Pairing
	// Peers manages the nodes with which this one shares. nil: /v1/peers answers 404.
	Peers Peers
	// History gives access to recorded checks and votes. nil: /v1/history answers 404.
	History History
	// Whitelist holds signatures that administrators whitelisted while the node runs. nil:
	// /v1/whitelist answers 404.
	Whitelist Whitelist
	// Config is the configuration of the node. nil: /v1/config answers 404.
	Config Configuration
	// Audit records the actions of administrators and log-ins. nil: they are not recorded.
	Audit Audit
	// Node describes the node. nil: /v1/node answers 404.
	Node Node
	// Sizes calculates the node's size for another load. Its error explains a mistake in the question.
	// nil: /v1/size answers 404.
	Sizes func(admin.SizeQuestion) (admin.Sizes, error)
	// Verdicts returns the numbers of verdicts in slots of one length: 10 minutes, an hour or a day.
	// The slots begin at or after since and before until. A zero until stands for now, and a zero
	// since for a day before until. nil: /v1/verdicts answers 404.
	Verdicts func(since, until time.Time, slot time.Duration) admin.Verdicts
	// Overview returns how the last day went; with acts, its events include what administrators did. nil:
	// /v1/overview answers 404.
	Overview func(ctx context.Context, acts bool) (admin.Overview, error)
	// Ready returns an error while the node does not accept requests. nil: the node is always ready.
	Ready func() error
	// Examine reads the node's files and returns the damage it finds. Calls do not overlap. nil:
	// /v1/examination answers 404.
	Examine func(context.Context) (*admin.Examination, error)
	// Page serves all paths without an operation of the API, to clients that may check, and /login to
	// every client. nil: there are no pages.
	Page http.Handler
	// Advance moves the node's clock, for tests: forward, or back if d is negative. With jump, the
	// clock becomes wrong and no time passes. Advance returns the new time once everything due by then
	// is done. Its error wraps bulkhead.ErrMalformed if the clock cannot move so far. nil: there is no
	// /v1/clock.
	Advance func(ctx context.Context, d time.Duration, jump bool) (time.Time, error)
	// Access holds the initial rights and limits of clients; see [Server.SetAccess].
	Access Access
	// Failures slows down clients with a wrong token. nil: they are not slowed down.
	Failures *door.Failures
	// Version is the version of the program, for the OpenAPI document.
	Version string
	// Registry receives the server's metrics and serves /metrics, including the metrics that other
	// parts of the node have registered. nil: a new registry.
	Registry *prometheus.Registry
	// Memory bounds the memory of request bodies while they are answered: each takes [door.Cost] times
	// its size. A request that gets no memory within two seconds is answered with status 503. nil sets
	// no bound.
	Memory *door.Memory
	// Log records each internal error of the node, and each change by an administrator. nil discards.
	Log *slog.Logger
}

// A Server serves the API. It is an [http.Handler]; its methods may be called
// concurrently.
type Server struct {
	opts      Options // with the defaults filled in
	house     bulkhead.Counter
	reading   sync.Mutex // held while Examine runs
	metrics   *metrics
	refusals  refusals
	sessions  *sessions
	passwords throttle
	origin    *http.CrossOriginProtection
	settings  atomic.Pointer[settings]
	mux       *http.ServeMux
	openAPI   *huma.OpenAPI
	relayed   atomic.Pointer[string] // see noteRelay
	waiting   atomic.Pointer[string] // the latest answer to a join, if the inviter has not accepted
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
		opts: o, house: bulkhead.CounterOf(o.Clearinghouse), origin: http.NewCrossOriginProtection(),
		mux: http.NewServeMux(), openAPI: newDocument(o.Version), sessions: newSessions(),
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

// Times returns the response times of the API's operations. The pages are not included.
func (s *Server) Times() *door.Times { return &s.metrics.times }

// A request is one request that has passed the access checks.
type request struct {
	*http.Request
	who     bulkhead.Reporter
	set     *settings
	held    door.Hold     // memory of the body
	schemas huma.Registry // of the document
	params  []*huma.Param // of the operation
	query   url.Values    // the parameters that were given, validated
	local   bool          // the client is on this machine
	unsaid  bulkhead.Vote // default vote, for a report without one
	era     uint64        // of the sessions, before the client was identified
	did     []any         // an administrator's change, as attributes of a log line, without secrets
	again   bool          // a repetition with the same result, which is neither recorded nor logged
}

// patience is the time that a request waits for memory.
const patience = 2 * time.Second

// A route is one operation of the API.
type route struct {
	op    *huma.Operation
	need  need
	serve func(*request) (any, error)
	asks  bool // despite its method, it changes nothing that is administered
}

// recorded reports whether requests to the route go into the audit record.
func (rt *route) recorded() bool { return rt.op.Method != http.MethodGet && !rt.asks }

// handle serves a route after the checks that every request passes: rate limit, origin,
// authentication, body limit. The order matters: no part of a request is parsed before it has
// passed the rate limit.
func (s *Server) handle(rt route) http.HandlerFunc {
	m := s.metrics.route(rt.op.Method, rt.op.Path)
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		status := http.StatusInternalServerError
		defer func() {
			if p := recover(); p != nil {
				s.opts.Log.Error("request panicked", "path", rt.op.Path, "panic", p, "stack", string(debug.Stack()))
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
				s.opts.Log.Error("request failed", "path", rt.op.Path, "err", err)
			}
			writeProblem(w, p)
			return
		}
		if err := writeBody(w, rt.op.DefaultStatus, body); err != nil {
			s.opts.Log.Error("request failed", "path", rt.op.Path, "err", err)
			writeProblem(w, problem(err))
			return
		}
		status = rt.op.DefaultStatus
	}
}

// admit checks that a request's client may do n: rate limit, origin, authentication.
func (s *Server) admit(r *http.Request, n need) (*request, error) {
	set := s.settings.Load()
	addr, local, err := set.identify(r)
	if err != nil {
		return nil, err
	}
	if !local {
		s.noteRelay(r, addr)
		addr = stranger(addr)
	}
	if !set.limiter.Allow(addr, 1) {
		return nil, fmt.Errorf("%w: more than %v requests a second from %v", bulkhead.ErrOverLimit, set.Rate.PerSecond, addr)
	}
	if err := s.origin.Check(r); err != nil {
		return nil, fmt.Errorf("%w: %v", bulkhead.ErrForbidden, err)
	}
	era := s.sessions.era()
	who, err := s.authorise(r, set, addr, local, n)
	if err != nil {
		s.refusals.note(s, who, r, err)
		return nil, err
	}
	return &request{Request: r, who: who, local: local, set: set, held: s.opts.Memory.Hold(), unsaid: bulkhead.Spam,
		era: era, schemas: s.openAPI.Components.Schemas}, nil
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
	var body any
	if req.query, err = req.parseQuery(); err == nil || !strings.HasPrefix(rt.op.Path, "/v1/") {
		body, err = rt.serve(req) // monitors may add parameters of their own to /healthz and /readyz
	}
	if rt.recorded() && !req.again {
		s.record(admin.AuditEntry{Account: req.who.Account, From: req.origin(), Action: rt.op.OperationID},
			req.did, err)
	}
	if rt.need == manage && rt.op.Method != http.MethodGet && !req.again {
		line := append([]any{"operation", rt.op.OperationID, "by", req.who.Account, "from", req.origin()}, req.did...)
		if err != nil {
			line = append(line, "err", err)
		}
		s.opts.Log.Info("administration", line...)
	}
	return body, err
}

// body reads the whole body of the request.
func (r *request) body() ([]byte, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, newProblem(http.StatusUnsupportedMediaType,
			fmt.Sprintf("body with content coding %.40q, want none", coding))
	}
	if form, ok := r.Context().Value(formKey{}).(*door.Hold); ok {
		form.Release()
	}
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

// The bounds of a JSON body. A value may be a few bytes long, and takes as many times more when it is decoded.
const (
	maxValues  = 1 << 20 // in a body; a batch of reports that is as long as a body may be has half as many
	valueBytes = 128     // memory of a value, decoded for its type and again for its schema
)

// jsonBody is body for a JSON text: it also takes memory for its values.
func (r *request) jsonBody() ([]byte, error) {
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	values := bytes.Count(body, []byte(","))
	if values > maxValues {
		return nil, fmt.Errorf("%w: body: more than %d values", bulkhead.ErrMalformed, maxValues)
	}
	if err := r.held.Take(r.Context(), int64(valueBytes*values), patience); err != nil {
		return nil, newProblem(http.StatusServiceUnavailable, err.Error())
	}
	return body, nil
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

// buffers pools memory for answers. It is not state: an empty pool only costs time.
var buffers = sync.Pool{New: func() any {
	b := new(buffer)
	b.enc = json.NewEncoder(&b.Buffer)
	b.enc.SetEscapeHTML(false)
	return b
}}

// maxPooled is the size, in bytes, of the largest buffer in the pool, so that one large answer does
// not occupy memory for ever.
const maxPooled = 64 << 10

// writeBody writes an answer. It returns an error if the answer cannot be encoded as JSON; nothing
// is written then. A disconnected client is no error.
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
		return fmt.Errorf("api: encode %T: %v", body, err) // never the client's fault
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

// jsonType is shared by all answers; none of them modifies it.
var jsonType = []string{"application/json"}

// A text is an answer that is not JSON.
type text struct{ mediaType, body string }

// readTimeout limits the computation of a message's signatures.
const readTimeout = 10 * time.Second

// voteTimeout limits the time that a vote waits for the disk.
const voteTimeout = 30 * time.Second

func (r *request) voteContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), voteTimeout)
}
