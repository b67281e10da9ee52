// Package node is a running node as one object: configuration in, front doors out.
//
//	n, err := node.Open(ctx, node.Options{Config: cfg, Dir: "bulkhead-data"})
//	...
//	err = n.Serve(ctx) // until ctx ends
//
// Parts of a node start and stop in the order that [Node.order] names. What can be
// taken over from a new configuration while it runs, [Node.Reload] takes over.
// Programs beside it look after a data folder while no node runs: [Backup], which may
// run then, [Restore], [NewNetwork], [RecoverAdmin].
//
// A front door is one line of [Node.doors], one key of "[listen]" in the
// configuration, and a file here that makes the door's server of the configuration.
package node
