// Package aggregate publishes the sum of the counts of a node and some of its peers as an origin of
// its own. Nodes that count this origin need one replica for many organisations.
//
// # The sum
//
// A [Sum] takes every add to its members' arrays, as if one server had counted them all. A mesh of
// its own publishes it. It is not stored on disk: it is made from the node's own arrays and the
// replicas of the members. It begins a new incarnation each time, so that no difference of merged
// cells is ever sent. A change of members takes a new sum.
//
// Arrays of one generation and shape share one array as long as that is no fuller than a merged
// array may be. Then another array is begun, with a start one second later. Adds may go to either:
// a look-up adds up the counts of all generations. Lists of one member stay together, because turns
// count within a generation.
//
// # Use
//
// The mesh of the members gets [Aggregate.Tap] as its engine, and [Aggregate.Run] opens a mesh for
// each sum.
package aggregate
