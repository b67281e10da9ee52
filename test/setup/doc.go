// Package setup tests the configuration that "bulkhead setup" writes with the real programs: they
// accept it, and reported mail is junk then. It also tests that "bulkhead doctor" notices a full
// disk. Its tests have the build tag "interop".
package setup
