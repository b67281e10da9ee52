package node

import "github.com/bulkhead-mail/bulkhead"

// Clearinghouse returns the clearinghouse behind all doors.
func (n *Node) Clearinghouse() bulkhead.Clearinghouse { return n.front.house }
