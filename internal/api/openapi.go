package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

func newDocument(version string) *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "bulkhead", Version: version,
			Description: "A self-hosted collaborative spam clearinghouse. A signature is written SCHEME:HEX, " +
				"for example pyzor/digest:da39a3ee5e6b4b0d3255bfef95601890afd80709.",
			License: &huma.License{Name: "MIT", Identifier: "MIT"},
		},
		Components: &huma.Components{
			Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", Description: "The token of an account."},
			},
		},
	}
}

// mount registers every route, and the document that describes them.
func (s *Server) mount(reg *prometheus.Registry) {
	routes := append(s.routes(), s.clockRoutes()...)
	methods := make(map[string][]string)
	for _, rt := range routes {
		for _, p := range rt.op.Parameters {
			p.Schema.PrecomputeMessages()
		}
		s.openAPI.AddOperation(rt.op)
		s.mux.HandleFunc(rt.op.Method+" "+rt.op.Path, s.handle(rt))
		methods[rt.op.Path] = append(methods[rt.op.Path], rt.op.Method)
	}
	s.fixed(methods, "/openapi.json", open, s.document("application/openapi+json", func() ([]byte, error) {
		return json.MarshalIndent(s.openAPI, "", "  ")
	}))
	s.fixed(methods, "/openapi.yaml", open, s.document("application/openapi+yaml", s.openAPI.YAML))
	s.fixed(methods, "/metrics", check, promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	if s.page != nil {
		s.mux.HandleFunc("POST /login", s.login)
		s.mux.HandleFunc("POST /logout", s.logout)
	}
	for path, allowed := range methods {
		if slices.Contains(allowed, "GET") {
			allowed = append(allowed, "HEAD")
		}
		slices.Sort(allowed)
		s.mux.HandleFunc(path, wrongMethod(strings.Join(allowed, ", ")))
	}
	s.mux.HandleFunc("/", s.pages)
}

// fixed mounts a handler that writes its own answer, with the same access checks.
func (s *Server) fixed(methods map[string][]string, path string, n need, h http.Handler) {
	methods[path] = append(methods[path], "GET")
	s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.admit(r, n); err != nil {
			writeProblem(w, problem(err))
			return
		}
		h.ServeHTTP(w, r)
	})
}

func wrongMethod(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		writeProblem(w, newProblem(http.StatusMethodNotAllowed, fmt.Sprintf("method %.20q, want %s", r.Method, allowed)))
	}
}

// document serves the result of render, which is called once.
func (s *Server) document(mediaType string, render func() ([]byte, error)) http.Handler {
	render = sync.OnceValues(render)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := render()
		if err != nil {
			s.log.Error("request failed", "path", r.URL.Path, "err", err)
			writeProblem(w, problem(err))
			return
		}
		w.Header().Set("Content-Type", mediaType)
		w.Write(body)
	})
}

// routes returns the operations of the API.
func (s *Server) routes() []route {
	mail := mailBody()
	checkParams := append(sourceParams(), queryParam("threshold", "integer",
		"Count at which the message is bulk; absent: the node's own."))
	voteParams := append(sourceParams(), queryParam("count", "integer", "Recipients of the message; absent: 1."),
		bounded(queryParam("user", "string", userDoc+mailOnly), maxUser), rcptParam(), idempotencyKey())
	reportParams := append(slices.Clone(voteParams),
		&huma.Param{Name: "vote", In: "query", Description: "The vote on the message; absent: spam.",
			Schema: &huma.Schema{Type: "string", Enum: []any{"sighting", "spam", "ham", "revoke"}}})
	name := &huma.Param{Name: "name", In: "path", Required: true, Description: "Name of the account.",
		Schema: &huma.Schema{Type: "string"}}
	key := &huma.Param{Name: "key", In: "path", Required: true, Description: "Public key of the peer.",
		Schema: &huma.Schema{Type: "string"}}
	protocol := &huma.Param{Name: "protocol", In: "path", Required: true, Description: "razor2, pyzor or dcc.",
		Schema: &huma.Schema{Type: "string"}}

	return []route{
		s.route("POST /v1/check", "check", "Check a message. Changes nothing.", check, s.check,
			takes(mail, s.either(client.Check{})), params(checkParams...),
			gives(s.oneOf(client.Verdict{}, []client.BatchVerdict{}))),
		s.route("POST /v1/report", "report", "Count a sighting or a vote.", report, s.report,
			takes(mail, s.either(client.Report{})), params(reportParams...),
			gives(s.oneOf(client.Receipt{}, []client.BatchReceipt{}))),
		s.route("POST /v1/revoke", "revoke", "Withdraw a message from the blocklist: a report whose vote is revoke.",
			report, s.revoke,
			takes(mail, s.either(client.Report{})), params(voteParams...),
			gives(s.oneOf(client.Receipt{}, []client.BatchReceipt{}))),
		s.route("POST /v1/look", "look", "Look up signatures by themselves. Changes nothing.", check, s.look,
			takes(nil, s.schema(client.LookRequest{})), gives(s.schema(client.Looks{}))),
		s.route("POST /v1/count", "count",
			"Count sightings of signatures, all or none. Trusted accounts and clients of this machine only.", report, s.count,
			takes(nil, s.schema(client.CountRequest{})), status(http.StatusNoContent)),
		s.route("POST /v1/signatures", "signatures", "The signatures of a message. Nothing is asked or counted.",
			check, s.sign,
			takes(mail, nil), gives(s.schema(client.Signatures{}))),
		s.route("GET /v1/node", "node", "The node: fill, expected errors, generations, sizes.", check, s.state,
			gives(s.schema(client.NodeState{}))),
		s.route("POST /v1/ageing/confirm", "confirmClock",
			"Take the clock as right while the ageing is held; overdue generations expire.", admin, s.confirmClock,
			gives(s.schema(client.NodeState{}))),
		s.route("GET /v1/size", "size",
			"Calculate the memory, disk and errors of the node for another use. Nothing is changed.", check, s.size,
			params(sizeParams()...), gives(s.schema(client.Sizes{}))),
		s.route("GET /v1/verdicts", "verdicts", "How many checks and votes came through each door over time.", check,
			s.verdictNumbers,
			params(verdictParams()...), gives(s.schema(client.Verdicts{}))),

		s.route("GET /v1/ratelimits", "listRateLimits", "Every rule, and what it takes.", check, s.listRates,
			gives(s.schema([]client.RateLimit{}))),
		s.route("POST /v1/ratelimits", "applyRateLimits", "Count an event, or only look, and say what to do with it.", report,
			s.applyRate,
			takes(nil, s.schema(client.RateRequest{})), gives(s.schema(client.RateDecision{}))),
		s.route("GET /v1/ratelimits/keys", "showRateKey", "The counts of one key.", admin, s.showRate,
			params(rateKeyParams()...), gives(s.schema([]client.RateKey{}))),
		s.route("DELETE /v1/ratelimits/keys", "resetRateKey", "Forget one key.", admin, s.resetRate,
			params(rateKeyParams()...), gives(s.schema(client.RateReset{}))),
		s.route("GET /v1/ratelimits/top", "topRateKeys", "The keys with the highest rates.", admin, s.topRates,
			params(queryParam("limit", "integer", "Most keys of a rule, up to 128; absent: 20.")),
			gives(s.schema([]client.TopKeys{}))),
		s.route("GET /v1/lists", "lists", "Every black, white and grey list.", check, s.showLists,
			gives(s.schema([]client.List{}))),
		s.route("GET /v1/lists/find", "findInLists", "Look an address, domain, URL or IP address up in all lists.", check,
			s.findInLists,
			params(queryParam("entry", "string", "The entry to look up.")), gives(s.schema([]client.ListMatch{}))),

		s.route("GET /v1/history", "history", "Checks and votes that the node remembers, the latest first.", admin,
			s.historyPage,
			params(historyParams()...), gives(s.schema(client.HistoryPage{}))),
		s.route("GET /v1/history/{id}", "historyEntry", "One check or vote, with its signatures.", admin, s.historyEntry,
			params(&huma.Param{Name: "id", In: "path", Required: true, Description: "ID of the entry.",
				Schema: &huma.Schema{Type: "string"}}), gives(s.schema(client.HistoryEntry{}))),
		s.route("POST /v1/history/{id}", "reportEntry",
			"Vote on the message of an entry, by all signatures that are remembered of it.", report, s.reportEntry,
			params(&huma.Param{Name: "id", In: "path", Required: true, Description: "ID of the entry.",
				Schema: &huma.Schema{Type: "string"}}),
			takes(nil, s.schema(client.RememberedVote{})), gives(s.schema(client.Receipt{}))),
		s.route("POST /v1/reports", "reportMessageID",
			"Vote on a message that the node has seen lately, by all signatures that are remembered of it.", report,
			s.reportMessageID,
			takes(nil, s.schema(client.MessageVote{})), gives(s.schema(client.Receipt{}))),
		s.route("GET /v1/waves", "waves",
			"Groups of messages with the same text or nearly so, that the node has seen lately.", admin, s.wavePage,
			params(waveParams()...), gives(s.schema(client.WavePage{}))),
		s.route("GET /v1/waves/{id}", "wave", "One such group, and the verdict on a message that stands for it.",
			admin, s.wave,
			params(&huma.Param{Name: "id", In: "path", Required: true, Description: "ID of the wave.",
				Schema: &huma.Schema{Type: "string"}}), gives(s.schema(client.WaveDetail{}))),
		s.route("GET /v1/whitelist", "whitelist",
			"The whitelist entries made while the node ran, beside the configuration's.", admin, s.showWhitelist,
			gives(s.schema([]client.Cleared{}))),
		s.route("POST /v1/whitelist", "clear", "Put the text of a remembered message on the whitelist.", admin, s.clear,
			takes(nil, s.schema(client.Clear{})), gives(s.schema([]client.Cleared{}))),
		s.route("DELETE /v1/whitelist", "unclear", "Take a signature off that whitelist.", admin, s.unclear,
			params(signatureParam()), status(http.StatusNoContent)),
		s.route("GET /v1/examination", "examine", "Read every file of the node to its end, and say what is wrong with it.",
			admin, s.examination,
			gives(s.schema(client.Examination{}))),
		s.route("GET /v1/audit", "audit", "The actions of administrators, and the log-ins, the latest first.", admin,
			s.auditPage,
			params(auditParams()...), gives(s.schema(client.AuditPage{}))),

		s.route("GET /v1/config", "config", "The configuration of the node, without secrets.", admin, s.showConfig,
			gives(s.schema(client.Configuration{}))),
		s.route("POST /v1/config/check", "checkConfig", "Check the text of a configuration file. Changes nothing.", admin,
			s.checkConfig,
			takes(nil, s.schema(client.ConfigText{})), gives(s.schema(client.ConfigCheck{}))),
		s.route("POST /v1/config/reload", "reloadConfig",
			"Read the configuration file again, and take over what a running node can.", admin, s.reloadConfig,
			gives(s.schema(client.ConfigCheck{}))),

		s.route("GET /v1/weights", "weights", "The weights of the votes of accounts over time.", admin, s.weights,
			gives(s.schema([]client.Weights{}))),
		s.route("GET /v1/users", "listUsers", "Every account.", admin, s.listUsers, gives(s.schema([]client.User{}))),
		s.route("POST /v1/users", "addUser", "Create an account. This answer alone has its token.", admin, s.addUser,
			takes(nil, s.schema(client.NewUser{})), gives(s.schema(client.Token{})), status(http.StatusCreated)),
		s.route("GET /v1/users/{name}", "showUser", "One account.", admin, s.showUser, params(name),
			gives(s.schema(client.User{}))),
		s.route("PATCH /v1/users/{name}", "changeUser", "Change role, weight, or close the account.", admin, s.changeUser,
			params(name), takes(nil, s.schema(client.UserChange{})), gives(s.schema(client.User{}))),
		s.route("DELETE /v1/users/{name}", "removeUser", "Remove an account.", admin, s.removeUser, params(name),
			status(http.StatusNoContent)),
		s.route("POST /v1/users/{name}/token", "newToken", "Replace the token of an account.", admin, s.newToken,
			params(name), gives(s.schema(client.Token{}))),
		s.route("POST /v1/users/{name}/undo", "undoVotes",
			"Take back the votes that an account, or a person on whose behalf others report, gave since a time. If several "+
				"have that name, it is refused with names that mean one: account:NAME, user:NAME, user:SERVICE=NAME.", admin,
			s.undoVotes,
			params(name), takes(nil, s.schema(client.Undo{})), gives(s.schema(client.Undone{}))),
		s.route("GET /v1/users/{name}/undo", "previewUndo", "Preview the effect of undoVotes. Changes nothing.", admin,
			s.previewUndo,
			params(name, sinceParam()), gives(s.schema(client.Undone{}))),
		s.route("GET /v1/users/{name}/closing", "previewClose", "Preview the effect of closing the account. Changes nothing.",
			admin, s.previewClose,
			params(name), gives(s.schema(client.Closing{}))),
		s.route("PUT /v1/users/{name}/secrets/{protocol}", "setSecret",
			"Set the secret that an account shares with the clients of a protocol.", admin, s.setSecret,
			params(name, protocol), takes(nil, s.schema(client.Secret{})), status(http.StatusNoContent)),

		s.route("GET /v1/network", "network", "The state of sharing: what the node shares, with whom, and what arrives.",
			admin,
			s.showNetwork, gives(s.schema(client.Network{}))),
		s.route("GET /v1/peers", "listPeers", "Every peer.", admin, s.listPeers, gives(s.schema([]client.Peer{}))),
		s.route("POST /v1/peers", "addPeer", "Accept what the holder of a key publishes.", admin, s.addPeer,
			takes(nil, s.schema(client.NewPeer{})), gives(s.schema(client.Peer{})), status(http.StatusCreated)),
		s.route("GET /v1/peers/{key}", "showPeer", "One peer.", admin, s.showPeer, params(key),
			gives(s.schema(client.Peer{}))),
		s.route("PATCH /v1/peers/{key}", "weighPeer", "Give a peer another weight, and end its quarantine.", admin,
			s.weighPeer,
			params(key), takes(nil, s.schema(client.PeerChange{})), gives(s.schema(client.Peer{}))),
		s.route("DELETE /v1/peers/{key}", "evictPeer", "Drop a peer and all that it counted.", admin, s.evictPeer,
			params(key), status(http.StatusNoContent)),
		s.route("POST /v1/peers/{key}/rollback", "rollbackPeer", "Drop what a peer counted since a time.", admin,
			s.rollbackPeer,
			params(key), takes(nil, s.schema(client.Rollback{})), gives(s.schema(client.Peer{}))),
		s.route("POST /v1/peers/{key}/forget", "forgetPeer", "Drop what is kept of incarnations that a peer has lost.", admin,
			s.forgetPeer, params(key), gives(s.schema(client.Peer{}))),
		s.route("GET /v1/peers/{key}/eviction", "previewEvict", "Preview the loss by evictPeer. Changes nothing.", admin,
			s.previewEvict,
			params(key), gives(s.schema(client.PeerLoss{}))),
		s.route("GET /v1/peers/{key}/rollback", "previewRollback", "Preview the loss by rollbackPeer. Changes nothing.",
			admin, s.previewRollback,
			params(key, sinceParam()), gives(s.schema(client.PeerLoss{}))),

		s.route("POST /v1/peers/{key}/accept", "acceptPeer", "Accept a node that has shown an invitation and waits.", admin,
			s.acceptPeer, params(key), gives(s.schema(client.Peer{}))),
		s.route("POST /v1/peers/{key}/refuse", "refusePeer", "Refuse a node that has shown an invitation and waits.", admin,
			s.refusePeer, params(key), status(http.StatusNoContent)),
		s.route("GET /v1/invitations", "invitations", "The invitations that are remembered, and who has shown them.", admin,
			s.invitations, gives(s.schema([]client.Invitation{}))),
		s.route("POST /v1/invitations", "invite", "Make an invitation into the node's network. This answer alone has its "+
			"line.",
			admin, s.invite,
			takes(nil, s.schema(client.NewInvitation{})), gives(s.schema(client.Invitation{})), status(http.StatusCreated)),
		s.route("DELETE /v1/invitations/{id}", "withdraw", "Make an invitation void. Nodes that joined with it stay peers.",
			admin,
			s.withdraw,
			params(&huma.Param{Name: "id", In: "path", Required: true, Description: "ID of the invitation.",
				Schema: &huma.Schema{Type: "string"}}), status(http.StatusNoContent)),
		s.route("POST /v1/network/join", "join", "Join the network of an invitation, or say what that would do.",
			admin, s.join,
			takes(nil, s.schema(client.Join{})), gives(s.schema(client.Joining{}))),
		s.route("POST /v1/network/leave", "leave", "Leave the network: drop all peers and take another secret.", admin,
			s.leave, gives(s.schema(client.Left{}))),
		s.route("POST /v1/network/secret", "changeSecret",
			"Announce another secret of the network, to be used after a while.", admin, s.changeSecret,
			takes(nil, s.schema(client.NewSecret{})), gives(s.schema(client.SecretChange{})), status(http.StatusCreated)),
		s.route("DELETE /v1/network/secret", "keepSecret", "Take back the secret that was announced and is not used yet.",
			admin, s.keepSecret, gives(s.schema(client.SecretChange{}))),

		s.route("POST /v1/login", "newLoginLink",
			"Make a link that logs a browser in as the account that asks. It is good once, for ten minutes.", open, s.newLink,
			gives(s.schema(client.LoginLink{})), status(http.StatusCreated)),
		s.route("GET /v1/whoami", "whoami", "The caller's account, and what it may do.", open, s.whoami,
			gives(s.schema(client.Viewer{}))),
		s.route("GET /healthz", "healthz", "Whether the process runs.", open, s.healthz, givesText()),
		s.route("GET /readyz", "readyz", "Whether the node takes requests.", open, s.readyz, givesText()),
	}
}

type routeOption func(*huma.Operation)

func (s *Server) route(pattern, id, summary string, n need, serve func(*request) (any, error),
	options ...routeOption) route {
	method, path, _ := strings.Cut(pattern, " ")
	op := &huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary,
		DefaultStatus: http.StatusOK, Responses: map[string]*huma.Response{},
	}
	for _, o := range options {
		o(op)
	}
	if op.DefaultStatus != http.StatusOK {
		op.Responses[fmt.Sprint(op.DefaultStatus)] = op.Responses["200"]
		delete(op.Responses, "200")
	}
	if op.Responses[fmt.Sprint(op.DefaultStatus)] == nil {
		op.Responses[fmt.Sprint(op.DefaultStatus)] = &huma.Response{Description: "Done."}
	}
	op.Responses["default"] = &huma.Response{
		Description: "Refused (RFC 9457).",
		Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: s.schema(client.Problem{})}},
	}
	switch n {
	case check, report:
		op.Security = []map[string][]string{{}, {"token": {}}}
	case admin:
		op.Security = []map[string][]string{{"token": {}}}
	}
	return route{op: op, need: n, serve: serve, asks: method != http.MethodGet && (n == check || n == report)}
}

func (s *Server) schema(v any) *huma.Schema {
	return s.openAPI.Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}

// either returns the schema of one value like v or an array of such values.
func (s *Server) either(v any) *huma.Schema {
	one := s.schema(v)
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one}}}
}

func (s *Server) oneOf(values ...any) *huma.Schema {
	var all []*huma.Schema
	for _, v := range values {
		all = append(all, s.schema(v))
	}
	return &huma.Schema{OneOf: all}
}

func mailBody() *huma.Schema {
	return &huma.Schema{Type: "string", Format: "binary", Description: "A message with its headers (RFC 5322)."}
}

func takes(mail, object *huma.Schema) routeOption {
	return func(op *huma.Operation) {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
		if mail != nil {
			op.RequestBody.Content[mailType] = &huma.MediaType{Schema: mail}
		}
		if object != nil {
			op.RequestBody.Content[requestType] = &huma.MediaType{Schema: object}
		}
	}
}

func gives(schema *huma.Schema) routeOption {
	return func(op *huma.Operation) {
		op.Responses["200"] = &huma.Response{Description: "Done.",
			Content: map[string]*huma.MediaType{requestType: {Schema: schema}}}
	}
}

func givesText() routeOption {
	return func(op *huma.Operation) {
		op.Responses["200"] = &huma.Response{Description: "Yes.",
			Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: "string"}}}}
	}
}

func status(code int) routeOption {
	return func(op *huma.Operation) { op.DefaultStatus = code }
}

func params(p ...*huma.Param) routeOption {
	return func(op *huma.Operation) { op.Parameters = append(op.Parameters, p...) }
}

func queryParam(name, kind, doc string) *huma.Param {
	schema := &huma.Schema{Type: kind}
	if kind == huma.TypeInteger {
		schema.Minimum, schema.Maximum = new(float64), new(float64)
		*schema.Maximum = math.MaxUint32
	}
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: schema}
}

// maxName is the longest sender or List-Id of a message, characters, as in
// [client.Source].
const maxName = 998

// bounded limits the length of a parameter, characters.
func bounded(p *huma.Param, limit int) *huma.Param {
	p.Schema.MaxLength = &limit
	return p
}

func rateKeyParams() []*huma.Param {
	key := bounded(queryParam("key", "string", "The key as the rule's template gives it."), 4096)
	key.Required = true
	return []*huma.Param{key, bounded(queryParam("rule", "string", "Name of the rule; absent: all rules."), 64)}
}

// userDoc documents the user for whom a report is made; maxUser limits the user's name, in bytes.
const (
	userDoc = "User on whose behalf the report is, whom the caller has authenticated: each has one voice. Only the " +
		"node's own services and trusted accounts may name one."
	maxUser = 128
)

const mailOnly = " Only with a body of type message/rfc822."

func sourceParams() []*huma.Param {
	return []*huma.Param{
		bounded(queryParam("sender", "string", "Envelope sender; absent: what the headers say."+mailOnly), maxName),
		queryParam("client", "string", "Address of the SMTP client that delivered the message."+mailOnly),
		bounded(queryParam("list_id", "string", "Mailing list; absent: what the headers say."+mailOnly), maxName),
		{Name: "dkim", In: "query", Description: "A domain whose DKIM signature the caller has verified; may be repeated." +
			mailOnly,
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: "string"}}},
	}
}

func rcptParam() *huma.Param {
	most := bulkhead.MaxRecipients
	return &huma.Param{Name: "rcpt", In: "query",
		Description: "A mailbox that a sighting was delivered to, counted once a day; may be repeated. Absent: count of " +
			"them." + mailOnly,
		Schema: &huma.Schema{Type: huma.TypeArray, MaxItems: &most, Items: &huma.Schema{Type: "string"}}}
}

func idempotencyKey() *huma.Param {
	return bounded(&huma.Param{Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: "string"},
		Description: "Within one generation, a second report of the same reporter with the same key and signatures changes " +
			"nothing. " +
			"In a batch, each message has the key KEY#INDEX unless it names its own."}, bulkhead.MaxID)
}
