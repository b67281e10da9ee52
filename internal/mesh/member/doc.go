// Package member is a node's membership of a network: its identity and settings, the list of its peers
// with their statistics, groups, invitations, the changes of the network's secret, and what the node
// remembers of its own incarnations. It keeps all of these on disk, and knows no transport.
package member
