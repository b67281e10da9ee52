// Package link reads links as browsers do and identifies their owners. It returns the host, its
// registrable domain, and the first part of the path, which identifies the customer on a platform
// that is open to the public. It finds links in plain text, including disguised ones, and the
// targets of redirecting links.
//
// Source: the WHATWG URL standard for http and https, UTS 46 by golang.org/x/net/idna,
// and the Public Suffix List by golang.org/x/net/publicsuffix.
//
//	for _, l := range link.All("https://www.example.com/go?url=https%3A%2F%2Fshop.example.net%2Fx") {
//		fmt.Println(l.Domain, l.Place())
//	}
package link
