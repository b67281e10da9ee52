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
	"github.com/bulkhead-mail/bulkhead/client/admin"
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
	if s.opts.Page != nil {
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
			s.opts.Log.Error("request failed", "path", r.URL.Path, "err", err)
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
		"Count at which the message is bulk; absent: the node's own."), bounded(queryParam("mailbox", "string",
		"First mailbox that the message is for. It does not affect the verdict: at an edge of a site with several "+
			"nodes, it decides which node is asked."+mailOnly), maxName))
	voteParams := append(sourceParams(), queryParam("count", "integer", "Recipients of the message; absent: 1."),
		bounded(queryParam("user", "string", userDoc+mailOnly), maxUser), rcptParam(), idempotencyKey())
	voteParam := func(absent string) *huma.Param {
		return &huma.Param{Name: "vote", In: "query",
			Description: "The reporter's vote on the message; absent: " + absent + ".",
			Schema:      &huma.Schema{Type: "string", Enum: []any{"sighting", "spam", "ham", "revoke"}}}
	}
	name := &huma.Param{Name: "name", In: "path", Required: true, Description: "Name of the account.",
		Schema: &huma.Schema{Type: "string"}}
	key := &huma.Param{Name: "key", In: "path", Required: true, Description: "Public key of the peer.",
		Schema: &huma.Schema{Type: "string"}}
	protocol := &huma.Param{Name: "protocol", In: "path", Required: true, Description: "razor2, pyzor or dcc.",
		Schema: &huma.Schema{Type: "string"}}

	return []route{
		s.route("POST /v1/check", "check", "Check a message against what is known of it. Changes nothing.", check, s.check,
			takes(mail, s.either(client.Check{})), params(checkParams...),
			gives(s.oneOf(client.Verdict{}, []client.BatchVerdict{}))),
		s.route("POST /v1/report", "report", "Count a sighting or a vote.", report, s.report,
			takes(mail, s.either(client.Report{})), params(append(slices.Clone(voteParams), voteParam("spam"))...),
			gives(s.oneOf(client.Receipt{}, []client.BatchReceipt{}))),
		s.route("POST /v1/revoke", "revoke", "Withdraw a message from the blocklist: a report whose vote is revoke.",
			report, s.revoke,
			takes(mail, s.either(client.Report{})), params(append(voteParams, voteParam("revoke"))...),
			gives(s.oneOf(client.Receipt{}, []client.BatchReceipt{}))),
		s.route("POST /v1/look", "look", "Look up single signatures. Changes nothing.", check, s.look,
			takes(nil, s.schema(client.LookRequest{})), gives(s.schema(client.Looks{}))),
		s.route("POST /v1/count", "count",
			"Count sightings of signatures, all or none. Trusted accounts and clients of this machine only.", report, s.count,
			takes(nil, s.schema(client.CountRequest{})), status(http.StatusNoContent)),
		s.route("POST /v1/signatures", "signatures", "The signatures of a message. Nothing is asked or counted.",
			check, s.sign,
			takes(mail, nil), gives(s.schema(client.Signatures{}))),
		s.route("GET /v1/node", "node", "The node: fill, expected errors, generations, sizes.", check, s.state,
			gives(s.schema(admin.NodeState{}))),
		s.route("GET /v1/rules", "rules", "The rules of the judgement, and what became of their decisions.", check, s.rules,
			params(ruleParams()...), gives(s.schema([]admin.Rule{}))),
		s.route("POST /v1/ageing/confirm", "confirmClock",
			"Take the clock as right while the ageing is held; overdue generations expire.", manage, s.confirmClock,
			gives(s.schema(admin.NodeState{}))),
		s.route("POST /v1/ageing/restore", "bringBack",
			"Bring generations back that have aged out lately, if they have not expired by the present clock.", manage,
			s.bringBack, gives(s.schema(admin.BroughtBack{}))),
		s.route("POST /v1/standby/promote", "promote",
			"Make a node that follows another one decide in its place.", manage, s.promote, gives(s.schema(admin.NodeState{}))),
		s.route("POST /v1/learn", "learn",
			"Learn the words and the style of a message, without a vote on its signatures.", report, s.learn,
			takes(mail, nil), params(queryParam("as", "string", "spam, or delivered.")),
			gives(s.schema(client.Lesson{}))),
		s.route("GET /v1/size", "size",
			"Calculate the memory and the error rates of a node for another load. Changes nothing.", check, s.size,
			params(sizeParams()...), gives(s.schema(admin.Sizes{}))),
		s.route("GET /v1/verdicts", "verdicts", "How many checks and votes came through each door over time.", check,
			s.verdictNumbers,
			params(verdictParams()...), gives(s.schema(admin.Verdicts{}))),

		s.route("GET /v1/overview", "overview", "How the last 24 hours went, against the same hours a week before.", check,
			s.overview, gives(s.schema(admin.Overview{}))),

		s.route("GET /v1/ratelimits", "listRateLimits", "Every rule, and what it takes.", check, s.listRates,
			gives(s.schema([]admin.RateLimit{}))),
		s.route("POST /v1/ratelimits", "applyRateLimits", "Count an event, or only look, and say what to do with it.", report,
			s.applyRate,
			takes(nil, s.schema(admin.RateRequest{})), gives(s.schema(admin.RateDecision{}))),
		s.route("GET /v1/ratelimits/keys", "showRateKey", "Show the counts of one key.", manage, s.showRate,
			params(rateKeyParams()...), gives(s.schema([]admin.RateKey{}))),
		s.route("DELETE /v1/ratelimits/keys", "resetRateKey", "Forget one key.", manage, s.resetRate,
			params(rateKeyParams()...), gives(s.schema(admin.RateReset{}))),
		s.route("GET /v1/ratelimits/top", "topRateKeys", "The keys with the highest rates.", manage, s.topRates,
			params(queryParam("limit", "integer", "Most keys of a rule, up to 128; absent: 20.")),
			gives(s.schema([]admin.TopKeys{}))),
		s.route("GET /v1/lists", "lists", "Every black, white and grey list.", check, s.showLists,
			gives(s.schema([]admin.List{}))),
		s.route("POST /v1/lists/{name}/entries", "editList", "Add entries to a list, or remove entries from it.", manage,
			s.editList,
			params(&huma.Param{Name: "name", In: "path", Required: true, Description: "Name of the list.",
				Schema: &huma.Schema{Type: "string"}}), takes(nil, s.schema(admin.ListEdit{})),
			gives(s.schema(admin.ListEdited{}))),
		s.route("GET /v1/lists/find", "findInLists", "Look an address, domain, URL or IP address up in all lists.", check,
			s.findInLists,
			params(queryParam("entry", "string", "The entry to look up.")), gives(s.schema([]admin.ListMatch{}))),

		s.route("GET /v1/history", "history", "Checks and votes that the node remembers, the latest first.", manage,
			s.historyPage,
			params(historyParams()...), gives(s.schema(admin.HistoryPage{}))),
		s.route("GET /v1/history/{id}", "historyEntry", "One check or vote, with its signatures.", manage, s.historyEntry,
			params(&huma.Param{Name: "id", In: "path", Required: true, Description: "ID of the entry.",
				Schema: &huma.Schema{Type: "string"}}), gives(s.schema(admin.HistoryEntry{}))),
		s.route("GET /v1/history/{id}/verdict", "explainEntry",
			"The present verdict on the message of an entry. Counts nothing.", manage, s.explain,
			params(&huma.Param{Name: "id", In: "path", Required: true, Description: "ID of the entry.",
				Schema: &huma.Schema{Type: "string"}}), gives(s.schema(client.Verdict{}))),
		s.route("POST /v1/history/{id}", "reportEntry",
			"Vote on the message of an entry, by all signatures that are remembered of it.", report, s.reportEntry,
			params(&huma.Param{Name: "id", In: "path", Required: true, Description: "ID of the entry.",
				Schema: &huma.Schema{Type: "string"}}),
			takes(nil, s.schema(admin.RememberedVote{})), gives(s.schema(client.Receipt{}))),
		s.route("POST /v1/reports", "reportMessageID",
			"Vote on a message that the node has seen lately, by all signatures that are remembered of it.", report,
			s.reportMessageID,
			takes(nil, s.schema(client.MessageVote{})), gives(s.schema(client.Receipt{}))),
		s.route("GET /v1/waves", "waves",
			"Groups of messages with the same text or nearly so, that the node has seen lately.", manage, s.wavePage,
			params(waveParams()...), gives(s.schema(admin.WavePage{}))),
		s.route("GET /v1/waves/{id}", "wave", "One such group, and the verdict on a message that stands for it.",
			manage, s.wave,
			params(&huma.Param{Name: "id", In: "path", Required: true, Description: "ID of the wave.",
				Schema: &huma.Schema{Type: "string"}}), gives(s.schema(admin.WaveDetail{}))),
		s.route("GET /v1/whitelist", "whitelist",
			"List the signatures that were whitelisted while the node ran, in addition to the "+
				"configured ones.", manage, s.showWhitelist,
			gives(s.schema([]admin.Cleared{}))),
		s.route("POST /v1/whitelist", "clear", "Put the text of a remembered message on the whitelist.", manage, s.clear,
			takes(nil, s.schema(admin.Clear{})), gives(s.schema([]admin.Cleared{}))),
		s.route("DELETE /v1/whitelist", "unclear", "Take a signature off that whitelist.", manage, s.unclear,
			params(signatureParam()), status(http.StatusNoContent)),
		s.route("GET /v1/examination", "examine", "Read every file of the node to its end, and say what is wrong with it.",
			manage, s.examination,
			gives(s.schema(admin.Examination{}))),
		s.route("GET /v1/audit", "audit", "List the actions of administrators and the log-ins, the "+
			"latest first.", manage, s.auditPage,
			params(auditParams()...), gives(s.schema(admin.AuditPage{}))),

		s.route("GET /v1/config", "config", "The configuration of the node, without secrets.", manage, s.showConfig,
			gives(s.schema(admin.Configuration{}))),
		s.route("POST /v1/config/check", "checkConfig", "Check the text of a configuration file. Changes nothing.", manage,
			s.checkConfig,
			takes(nil, s.schema(admin.ConfigText{})), gives(s.schema(admin.ConfigCheck{}))),
		s.route("GET /v1/config/reload", "previewReload", "Preview reloadConfig. Changes nothing.", manage, s.previewReload,
			gives(s.schema(admin.ConfigCheck{}))),
		s.route("POST /v1/config/reload", "reloadConfig",
			"Read the configuration file again, and take over what a running node can.", manage, s.reloadConfig,
			gives(s.schema(admin.ConfigCheck{}))),

		s.route("GET /v1/weights", "weights", "Show the weights of accounts over time.", manage, s.weights,
			gives(s.schema([]admin.Weights{}))),
		s.route("GET /v1/users", "listUsers", "Every account.", manage, s.listUsers, gives(s.schema([]admin.User{}))),
		s.route("POST /v1/users", "addUser", "Create an account. Its token is returned once, here.", manage, s.addUser,
			takes(nil, s.schema(admin.NewUser{})), gives(s.schema(admin.Token{})), status(http.StatusCreated)),
		s.route("GET /v1/users/{name}", "showUser", "One account.", manage, s.showUser, params(name),
			gives(s.schema(admin.User{}))),
		s.route("PATCH /v1/users/{name}", "changeUser", "Change role, weight, or close the account.", manage, s.changeUser,
			params(name), takes(nil, s.schema(admin.UserChange{})), gives(s.schema(admin.User{}))),
		s.route("DELETE /v1/users/{name}", "removeUser", "Remove an account.", manage, s.removeUser, params(name),
			status(http.StatusNoContent)),
		s.route("POST /v1/users/{name}/token", "newToken", "Replace the token of an account.", manage, s.newToken,
			params(name), gives(s.schema(admin.Token{}))),
		s.route("POST /v1/users/{name}/undo", "undoVotes",
			"Take back the votes that an account, or a person on whose behalf others report, gave since a time. If "+
				"several have that name, it is refused with names that mean one: account:NAME, user:NAME, "+
				"user:SERVICE=NAME.", manage, s.undoVotes,
			params(name), takes(nil, s.schema(admin.Undo{})), gives(s.schema(admin.Undone{}))),
		s.route("GET /v1/users/{name}/undo", "previewUndo", "Preview undoVotes. Changes nothing.", manage,
			s.previewUndo,
			params(name, sinceParam()), gives(s.schema(admin.Undone{}))),
		s.route("GET /v1/users/{name}/closing", "previewClose", "Preview the closing of the account. Changes nothing.",
			manage, s.previewClose,
			params(name), gives(s.schema(admin.Closing{}))),
		s.route("PUT /v1/users/{name}/secrets/{protocol}", "setSecret",
			"Set the secret that an account shares with the clients of a protocol.", manage, s.setSecret,
			params(name, protocol), takes(nil, s.schema(admin.Secret{})), status(http.StatusNoContent)),

		s.route("GET /v1/network", "network", "Describe the node's network: peers, servers, and the traffic "+
			"with them.", manage,
			s.showNetwork, gives(s.schema(admin.Network{}))),
		s.route("GET /v1/peers", "listPeers", "Every peer.", manage, s.listPeers, gives(s.schema([]admin.Peer{}))),
		s.route("POST /v1/peers", "addPeer", "Accept what the holder of a key publishes.", manage, s.addPeer,
			takes(nil, s.schema(admin.NewPeer{})), gives(s.schema(admin.Peer{})), status(http.StatusCreated)),
		s.route("GET /v1/peers/{key}", "showPeer", "One peer.", manage, s.showPeer, params(key),
			gives(s.schema(admin.Peer{}))),
		s.route("PATCH /v1/peers/{key}", "weighPeer", "Give a peer another weight, and end its quarantine.", manage,
			s.weighPeer,
			params(key), takes(nil, s.schema(admin.PeerChange{})), gives(s.schema(admin.Peer{}))),
		s.route("DELETE /v1/peers/{key}", "evictPeer", "Drop a peer and all that it counted.", manage, s.evictPeer,
			params(key), status(http.StatusNoContent)),
		s.route("POST /v1/peers/{key}/rollback", "rollbackPeer", "Drop what a peer counted since a time.", manage,
			s.rollbackPeer,
			params(key), takes(nil, s.schema(admin.Rollback{})), gives(s.schema(admin.Peer{}))),
		s.route("POST /v1/peers/{key}/forget", "forgetPeer", "Drop what is kept of incarnations that a peer has lost.",
			manage, s.forgetPeer, params(key), gives(s.schema(admin.Peer{}))),
		s.route("GET /v1/peers/{key}/eviction", "previewEvict", "Preview evictPeer. Changes nothing.", manage,
			s.previewEvict,
			params(key), gives(s.schema(admin.PeerLoss{}))),
		s.route("GET /v1/peers/{key}/rollback", "previewRollback", "Preview rollbackPeer. Changes nothing.",
			manage, s.previewRollback,
			params(key, sinceParam()), gives(s.schema(admin.PeerLoss{}))),

		s.route("POST /v1/peers/{key}/accept", "acceptPeer", "Accept a node that has shown an invitation and waits.", manage,
			s.acceptPeer, params(key), gives(s.schema(admin.Peer{}))),
		s.route("POST /v1/peers/{key}/refuse", "refusePeer", "Refuse a node that has shown an invitation and waits.", manage,
			s.refusePeer, params(key), status(http.StatusNoContent)),
		s.route("GET /v1/invitations", "invitations", "The invitations that are remembered, and who has shown them.", manage,
			s.invitations, gives(s.schema([]admin.Invitation{}))),
		s.route("POST /v1/invitations", "invite", "Make an invitation into the node's network. Its line is "+
			"returned once, here.",
			manage, s.invite,
			takes(nil, s.schema(admin.NewInvitation{})), gives(s.schema(admin.Invitation{})), status(http.StatusCreated)),
		s.route("DELETE /v1/invitations/{id}", "withdraw", "Make an invitation void. Nodes that joined with it "+
			"stay peers.", manage,
			s.withdraw,
			params(&huma.Param{Name: "id", In: "path", Required: true, Description: "ID of the invitation.",
				Schema: &huma.Schema{Type: "string"}}), status(http.StatusNoContent)),
		s.route("POST /v1/network/join", "join", "Join the network of an invitation, or say what that would do.",
			manage, s.join,
			takes(nil, s.schema(admin.Join{})), gives(s.schema(admin.Joining{}))),
		s.route("POST /v1/network/leave", "leave", "Leave the network: drop all peers and take another secret.", manage,
			s.leave, gives(s.schema(admin.Left{}))),
		s.route("POST /v1/network/secret", "changeSecret",
			"Announce another secret of the network, to be used after a while.", manage, s.changeSecret,
			takes(nil, s.schema(admin.NewSecret{})), gives(s.schema(admin.SecretChange{})), status(http.StatusCreated)),
		s.route("DELETE /v1/network/secret", "keepSecret", "Take back the secret that was announced and is not used yet.",
			manage, s.keepSecret, gives(s.schema(admin.SecretChange{}))),

		s.route("POST /v1/login", "newLoginLink",
			"Make a link that logs a browser in as the account that asks. It is good once, for ten minutes.", open, s.newLink,
			gives(s.schema(admin.LoginLink{})), status(http.StatusCreated)),
		s.route("GET /v1/whoami", "whoami", "Describe the client that asks, and its rights.", open, s.whoami,
			gives(s.schema(admin.Viewer{}))),
		s.route("GET /healthz", "healthz", "Whether the process runs.", open, s.healthz, givesText()),
		s.route("GET /readyz", "readyz", "Whether the node takes requests.", open, s.readyz,
			params(queryParam("verbose", "string", "If it is there, the answer also states whether reports are refused.")),
			givesText()),
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
	case manage:
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

func ruleParams() []*huma.Param {
	days := queryParam("days", "integer", "Last days, today included, whose decisions and votes are counted; absent: 28.")
	least, most := 1.0, float64(ruleDays)
	days.Schema.Minimum, days.Schema.Maximum = &least, &most
	return []*huma.Param{days}
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

// userDoc documents the user for whom a report is made; maxUser limits the user's name, in characters.
const (
	userDoc = "User on whose behalf the report is, whom the caller has authenticated: each has one voice. Only " +
		"the node's own services and trusted accounts may name one."
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
		Description: "A mailbox that a sighting was delivered to, counted once a day; may be repeated. Absent: " +
			"count of them." + mailOnly,
		Schema: &huma.Schema{Type: huma.TypeArray, MaxItems: &most, Items: &huma.Schema{Type: "string"}}}
}

func idempotencyKey() *huma.Param {
	return bounded(&huma.Param{Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: "string"},
		Description: "Within one generation, a second report of the same reporter with the same key and " +
			"signatures changes nothing. " +
			"In a batch, each message has the key KEY#INDEX unless it names its own."}, bulkhead.MaxID)
}
