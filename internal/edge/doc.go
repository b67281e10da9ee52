// Package edge is a Clearinghouse whose knowledge is at a node elsewhere, the
// upstream. What many doors ask at once goes out in one request; what was just
// unknown is not asked again for a moment; and while the upstream is away, checks are
// answered "unknown" in a short time and reports are refused as for now. Signatures
// pass as they are: only bulkhead/near ones, which the edge's doors make of whole
// messages, rest on a secret that the upstream's network must share; see [Edge.Watch].
package edge
