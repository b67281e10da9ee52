// Package aggregate makes the sum of what a node and some of its peers count an origin of
// its own, so that many organisations are one replica to those who count it.
//
// # The sum
//
// A [Sum] takes every add that its members' arrays take, as if one server had counted them
// all, and is published by a mesh of its own. It is not kept on disk: it is made from the
// node's own arrays and the replicas of the members, and begins a new incarnation each time,
// so that no difference of merged cells is ever sent. Members come and go with a new sum.
//
// Arrays of one generation and shape are one array as long as that is no fuller than a merged
// array may be; then another is begun, a second after the first. Adds may go to either: a
// look-up adds up what generations say. Lists of one member stay together, because turns
// count within a generation.
//
// # Use
//
// The mesh of the members is given [Aggregate.Tap] as its engine, and [Aggregate.Run] opens a
// mesh for each sum.
package aggregate
