// Package mmsg receives and sends many datagrams by one system call, without
// allocating for any of them: recvmmsg and sendmmsg, with UDP segmentation for
// those in a row that go to one address and are of one length, and one shorter
// after them. Where the system has none of these it does the same one by one.
//
// A [Reader] and a [Writer] belong to one goroutine each; a socket may have
// several.
//
//	r, err := mmsg.NewReader(conn, 64, 0)
//	w, err := mmsg.NewWriter(conn, 64)
//	for i := range 64 { r.SetBuffer(i, make([]byte, 1500)) }
//	n, err := r.Read()
//	for i := range n { a := r.Addr(i); w.Add(&a, nil, answer(r.Len(i))) }
//	sent, refused := w.Flush()
package mmsg

// maxControl is the longest control message, in bytes, that a datagram is sent
// with.
const maxControl = 64
