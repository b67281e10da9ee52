// Package lies shows a clearinghouse that errs or lies to every front door, and
// holds what each of them must tell its clients then. It has tests only.
package lies
