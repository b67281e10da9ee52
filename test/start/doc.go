// Package start holds the test of what a newcomer runs first, "make run". It has
// no code of its own, and is run by
//
//	test/interop test/start
package start
