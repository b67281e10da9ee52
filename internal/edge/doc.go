// Package edge is a Clearinghouse in front of a remote node, the upstream. Concurrent
// requests of many doors go out together; queries just answered "unknown" are not
// repeated for a moment; and while the upstream is unreachable, checks are soon answered
// "unknown" and reports are refused temporarily. Signatures pass unchanged: only
// bulkhead/near ones, which the edge's doors compute from whole messages, depend on a
// secret that the upstream's network must share; see [Edge.Watch].
package edge
