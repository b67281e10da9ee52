// Package policy answers Postfix's policy requests: for each recipient, or at the end of
// each message, Postfix sends attributes as lines of "name=value" and expects an action.
//
// Source: SMTPD_POLICY_README of Postfix. docs/protocols/policy.md describes what is
// served and how to set up Postfix and Exim. The package owns the wire format; a
// [Limiter] decides the answers.
//
//	s := &policy.Server{Limiter: limiter}
//	l, err := net.Listen("tcp", "127.0.0.1:10040")
//	err = s.Serve(l) // until s.Shutdown, then door.ErrServerClosed
package policy
