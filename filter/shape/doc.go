// Package shape describes arrays of counters and of bits without holding one: the [Key] that selects
// what belongs to a signature, the [Geometry] of an array, its error rates, and the smallest array
// for a [Target].
//
// Package filter has the arrays, and all names of this package that a program needs to use them.
package shape
