// Package milter judges mail while the sender is still connected to the mail server.
// Postfix and Sendmail pass each message through the milter protocol and get back
// header fields, a refusal, a quarantine or nothing.
//
// At the end of a message, its signatures are counted and checked once, its senders
// and URLs are looked up in the lists, and the policies of the recipients' domains
// decide what is done. If anything goes wrong, mail passes, unless the operator wants
// it deferred.
//
// The package speaks the protocol itself, versions 2 to 6. Two libraries were run
// against Postfix 3.7 first: emersion/go-milter v0.5.0 forgets the client's address
// and login after the first message of a connection, and d--j/go-milter v0.10.0 lets
// a packet of six bytes end the process. Either would have needed the limits and the
// draining of door around it. See docs/protocols/milter.md.
//
//	s := &milter.Server{Clearinghouse: house, Policies: []milter.Policy{{Spam: milter.Reject}}}
//	l, err := net.Listen("tcp", "127.0.0.1:8891")
//	err = s.Serve(l) // until s.Shutdown, then door.ErrServerClosed
package milter
