// Package setup tests what "bulkhead setup" writes with the programs it is written for:
// that they take it, and that mail that was reported is junk then; and that "bulkhead doctor"
// notices a full disk. Its tests have the build tag "interop".
package setup
