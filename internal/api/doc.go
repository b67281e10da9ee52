// Package api is the HTTP/JSON front door: clients check, report and revoke whole
// messages or ready signatures, look at the node, and manage its accounts. The running
// program serves its own OpenAPI 3.1 document at /openapi.json.
//
//	POST /v1/check       check messages
//	POST /v1/report      count a sighting or a vote
//	POST /v1/revoke      a report with the vote "revoke"
//	POST /v1/look        counts and judgements of single signatures
//	POST /v1/count       count sightings of single signatures
//	POST /v1/signatures  the signatures of a message; nothing is looked up or counted
//	GET  /v1/node        fill, expected errors, generations, sizes
//	     /v1/ratelimits  rate limits: rules, events, keys
//	GET  /v1/lists       black, white and grey lists; /v1/lists/find looks up
//	     /v1/users       accounts (administrators only, as the next two)
//	GET  /v1/network     what the node shares with other nodes
//	     /v1/peers       the nodes that it shares with
//	GET  /healthz /readyz /metrics /openapi.json /openapi.yaml
//
// A body of type message/rfc822 is a whole message; of type application/json, one object
// with ready signatures, or an array of such objects (a batch). Every refusal is a
// problem document (RFC 9457). Requests authenticate by a bearer token (RFC 6750);
// without one they may check and report from the loopback address, or as [Access]
// allows.
//
// huma builds the OpenAPI document from the Go types of package client, whose Client is
// the other end. net/http serves requests directly: huma's own request path echoes
// rejected bodies, decodes each body twice and answers an overlong one with 500.
package api
