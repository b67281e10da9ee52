package load

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"time"
)

// A DCC makes requests of the DCC protocol with three checksums.
type DCC struct {
	Datagrams
	Op       string
	Id       uint32
	Password string
	Known    uint64
}

// Prepare sets the requests and answers of o.Op: nop, query or report. It must come before Run or Measure.
func (o *DCC) Prepare() error {
	op, ok := map[string]byte{"nop": 1, "report": 2, "query": 3}[o.Op]
	if !ok {
		return fmt.Errorf("operation %q, want nop, query or report", o.Op)
	}
	seed := uint64(time.Now().UnixNano())
	o.Request = func(dst []byte, tag uint32, n uint64) []byte { return o.AppendRequest(dst, op, tag, n, seed) }
	o.Answer = DCCAnswer
	return nil
}

// AppendRequest appends a DCC packet of version 12; see docs/specs/dcc.md#client-server-protocol.
func (o *DCC) AppendRequest(dst []byte, op byte, tag uint32, n, seed uint64) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 12, op)
	dst = binary.BigEndian.AppendUint32(dst, o.Id)
	dst = binary.LittleEndian.AppendUint64(dst, seed)
	dst = binary.LittleEndian.AppendUint32(dst, tag)
	dst = binary.LittleEndian.AppendUint32(dst, 1)
	if op != 1 {
		message := n * 0x9e3779b97f4a7c15
		if o.Known > 0 {
			message, seed = (message>>20)%o.Known, 0
		}
		dst = binary.BigEndian.AppendUint32(dst, 1)
		for typ := byte(7); typ <= 9; typ++ {
			dst = append(dst, typ, 18)
			dst = binary.BigEndian.AppendUint64(dst, (message+uint64(typ))*0xbf58476d1ce4e5b9+seed)
			dst = binary.BigEndian.AppendUint64(dst, message^seed)
		}
	}
	binary.BigEndian.PutUint16(dst[start:], uint16(len(dst)-start+md5.Size))
	var sum [md5.Size]byte
	if o.Password != "" {
		var keyed [32 + 256]byte
		copy(keyed[:32], o.Password)
		sum = md5.Sum(append(keyed[:32], dst[start:]...))
	}
	return append(dst, sum[:]...)
}

// DCCAnswer returns the tag of an answer, and an error if it is a refusal.
func DCCAnswer(data []byte) (tag uint32, err error) {
	if len(data) < 40 {
		return 0, fmt.Errorf("answer of %d bytes", len(data))
	}
	tag = binary.LittleEndian.Uint32(data[16:])
	if op := data[3]; op != 4 && op != 6 {
		return tag, fmt.Errorf("operation %d: %.80q", op, data[24:len(data)-16])
	}
	return tag, nil
}
