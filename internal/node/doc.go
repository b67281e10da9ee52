// Package node runs a node as one object: it takes a configuration and opens the front doors.
//
//	n, err := node.Open(ctx, node.Options{Config: cfg, Dir: "bulkhead-data"})
//	...
//	err = n.Serve(ctx) // until ctx ends
//
// The parts of a node start and stop in the order of [Node.order]. [Node.Reload] applies the parts
// of a new configuration that a running node can. Other functions manage the data folder of a
// stopped node: [Restore], [NewNetwork], [RecoverAdmin], and [Backup], which also works while it
// runs.
//
// A front door is one line of [Node.doors], one key of "[listen]" in the configuration, and a file
// here that makes the door's server from the configuration.
package node
