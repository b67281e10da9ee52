// Package milter judges mail while the sender is still connected to the mail server.
// Postfix and Sendmail pass each message through the milter protocol and get back header
// fields, a refusal, a quarantine or nothing.
//
// At the end of a message, its signatures are counted and checked once, its senders and
// URLs are looked up in the lists, and the policies of the recipients' domains determine
// the action. If anything goes wrong, mail passes, unless the operator wants it
// deferred.
//
// The package implements versions 2 to 6 of the protocol itself;
// docs/protocols/milter.md says why.
//
//	s := &milter.Server{Clearinghouse: house, Policies: []milter.Policy{{Spam: milter.Reject}}}
//	l, err := net.Listen("tcp", "127.0.0.1:8891")
//	err = s.Serve(l) // until s.Shutdown, then door.ErrServerClosed
package milter
