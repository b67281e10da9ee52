// Package abuse turns mail to an abuse mailbox into votes: mail to which somebody has attached
// what is spam (or is not), or has forwarded it. It knows on whose behalf a mail is, by what
// the site's own mail server has verified, and refuses mail of anybody else.
//
// [Options.Read] takes one mail apart. A [Clerk] works through Maildirs, each mail once.
//
// Sources: RFC 2046 (message/rfc822), RFC 5965 (feedback reports), RFC 8601
// (Authentication-Results), and what Thunderbird, Gmail, Outlook and Apple Mail put above
// what they forward in the text.
package abuse
