// Package mmsg receives and sends many datagrams with one system call (recvmmsg, sendmmsg) and
// without allocating. Consecutive datagrams to one address that have the same length, except for a
// shorter last one, are sent by UDP segmentation. On systems other than Linux it receives and sends
// one datagram at a time.
//
// A [Reader] and a [Writer] belong to one goroutine each. A socket may have several of both.
//
//	r, err := mmsg.NewReader(conn, 64, 0)
//	w, err := mmsg.NewWriter(conn, 64)
//	for i := range 64 { r.SetBuffer(i, make([]byte, 1500)) }
//	n, err := r.Read()
//	for i := range n { a := r.Addr(i); w.Add(&a, nil, answer(r.Len(i))) }
//	sent, refused := w.Flush()
package mmsg

// maxControl is the maximum size in bytes of the control messages sent with a datagram.
const maxControl = 64
