// Package client asks a bulkhead node over its HTTP interface. It needs the
// standard library only, and holds the types of the interface's JSON, which the
// server shares.
//
// A [Client] is a [bulkhead.Clearinghouse] and a [bulkhead.Counter]: a front door that uses a local
// engine can use a remote node instead.
//
//	c := &client.Client{Server: "http://127.0.0.1:8420"}
//	v, err := c.CheckMessage(ctx, raw, client.MessageOptions{})
//	if v.Spam { ... }
package client
