// Package origin publishes a node's own arrays, as one origin of the network. A sender sends the rounds,
// heads and images of the arrays, and answers the peers that lack some of them. It also gets back from
// peers and brokers what the node's store has lost, and proves to itself what it has published before.
package origin
