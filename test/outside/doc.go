// Package outside uses bulkhead as another project does: it is a module of its own, which sees
// exported names only. It has an example of every public package, written from its documentation.
package outside
