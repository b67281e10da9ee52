// Package lies puts a clearinghouse that errs or lies behind every front door, and tests what
// each door then tells its clients. It has tests only.
package lies
