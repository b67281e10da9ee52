// Package lies puts a clearinghouse that errs or lies behind every front door, and tests the
// answers of each door to its clients. It has tests only.
package lies
