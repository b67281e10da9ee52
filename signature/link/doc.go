// Package link reads links as browsers read them and says whose they are: a host,
// its registrable domain, and the first part of a path, which on a platform that
// anybody can use is the customer. It finds links in plain text, also those that are
// written so that filters do not see them, and what a link redirects to.
//
// Source: the WHATWG URL standard for http and https, UTS 46 by golang.org/x/net/idna,
// and the Public Suffix List by golang.org/x/net/publicsuffix.
//
//	for _, l := range link.All("https://www.example.com/go?url=https%3A%2F%2Fshop.example.net%2Fx") {
//		fmt.Println(l.Domain, l.Place())
//	}
package link
