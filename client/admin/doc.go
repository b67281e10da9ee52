// Package admin inspects and administers a bulkhead node over its HTTP interface: accounts, peers,
// lists, rate limits, the history of mail, the configuration. It needs the standard library only, and
// holds the types of the interface's JSON, which the server shares.
//
// The methods need the token of an administrator. Without it the node refuses them with an error that
// wraps [bulkhead.ErrUnauthorised] or [bulkhead.ErrForbidden]. These need no administrator: Node, Size,
// Verdicts, RateLimits, Lists and FindInLists need the right to check messages, ApplyRateLimits,
// PeekRateLimits and ReportEntry the right to report them, Whoami and NewLoginLink none.
//
//	c := admin.New("http://127.0.0.1:8420", token)
//	users, err := c.Users(ctx)
package admin
