// Package edge is a Clearinghouse in front of a remote node, the upstream. Concurrent requests of
// many doors go out together; queries that were just answered "unknown" are not repeated for a
// moment; and while the upstream is unreachable, checks are answered "unknown" without delay and
// reports wait in a spool on disk, or are refused temporarily without one. The upstream may be several
// nodes, see [Several]. Signatures pass unchanged. Only the bulkhead/near signatures that the edge's
// doors compute from whole messages depend on a secret, which the upstream's network must share; see
// [Edge.Watch].
package edge
