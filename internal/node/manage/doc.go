// Package manage answers what an administrator asks a node over HTTP: accounts, peers, history,
// whitelist, rate limits, configuration and state.
//
// Each type implements one of the interfaces of the API and knows the parts of the node that it is
// given, not the node.
package manage
