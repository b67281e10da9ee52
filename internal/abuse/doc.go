// Package abuse turns mail to an abuse mailbox into votes: users attach or forward messages that
// are spam (or are not). The package identifies the user by the facts that the site's own mail
// server has verified, and refuses mail of all other senders.
//
// [Options.Read] takes one mail apart. A [Clerk] works through Maildirs, each mail once.
//
// Sources: RFC 2046 (message/rfc822), RFC 5965 (feedback reports), RFC 8601
// (Authentication-Results), and the lines that Thunderbird, Gmail, Outlook and Apple Mail put above
// a message that they forward in the text.
package abuse
