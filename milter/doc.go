// Package milter judges mail while a mail server still has the sender on the
// line: Postfix and Sendmail hand each message over the milter protocol, and get
// headers, a refusal, a quarantine or nothing back.
//
// At the end of a message its signatures are counted and checked once, its
// senders and URLs are looked up in the lists, and the policies of the
// recipients' domains say what is done. Whatever goes wrong, mail goes on,
// unless the operator wants it deferred.
//
// The package speaks the protocol itself, versions 2 to 6. Two libraries were
// run against Postfix 3.7 first: emersion/go-milter v0.5.0 forgets the client's
// address and login after the first message of a connection, and d--j/go-milter
// v0.10.0 lets a packet of six bytes end the process. The limits and the drain
// of door would have had to be put around either. See
// docs/protocols/milter.md.
//
//	s := &milter.Server{Clearinghouse: house, Policies: []milter.Policy{{Spam: milter.Reject}}}
//	l, err := net.Listen("tcp", "127.0.0.1:8891")
//	err = s.Serve(l) // until s.Shutdown, then door.ErrServerClosed
package milter
