// Package policy answers Postfix's policy delegation: for each recipient, or at
// the end of each message, Postfix sends what it knows as lines of "name=value"
// and wants an action back.
//
// The source document is SMTPD_POLICY_README of Postfix; docs/protocols/policy.md
// of this project says what is served and how Postfix and Exim are set up. The
// package owns the wire format; what to answer is the business of a [Limiter].
//
//	s := &policy.Server{Limiter: limiter}
//	l, err := net.Listen("tcp", "127.0.0.1:10040")
//	err = s.Serve(l) // until s.Shutdown, then door.ErrServerClosed
package policy
