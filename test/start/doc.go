// Package start holds the test of a newcomer's first command, "make run". It has no code of its
// own, and is run by
//
//	test/interop test/start
package start
