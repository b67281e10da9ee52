package engine

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// remoteBody is the body of a remote entry: parts of an origin, as received. Its layout
// is docs/specs/journal.md#parts-of-peers.
type remoteBody struct {
	origin string
	parts  []Part
}

// partHead bounds the bytes of an encoded part besides its content. leastPart is the minimum size
// of a part.
const (
	partHead  = 64
	leastPart = 8
	flagImage = 16
)

// sharedArrays are the arrays of parts, by the number that stands for them.
var sharedArrays = [...]Array{ArrayCounts, ArraySpam, ArrayRevoked}

// entry returns the journal entry. All parts are of one network.
func (body *remoteBody) entry() []byte {
	size := partHead + len(body.origin)
	for i := range body.parts {
		size += partHead + len(body.parts[i].Round) + len(body.parts[i].Image)
	}
	b := append(make([]byte, 0, size), entryRemote, entryVersion)
	b = appendBytes(b, []byte(body.origin))
	var network uint64
	if len(body.parts) > 0 {
		network = body.parts[0].Geometry.KeyID
	}
	b = binary.LittleEndian.AppendUint64(b, network)
	b = binary.AppendUvarint(b, uint64(len(body.parts)))
	for i := range body.parts {
		b = appendPart(b, &body.parts[i])
	}
	return b
}

func appendPart(b []byte, p *Part) []byte {
	code := byte(slices.Index(sharedArrays[:], p.Array))
	if len(p.Image) > 0 {
		code |= flagImage
	}
	b = append(b, code, p.Geometry.K)
	for _, x := range []uint64{p.Start, p.Geometry.Lines, p.Boot} {
		b = binary.AppendUvarint(b, x)
	}
	if len(p.Image) > 0 {
		b = binary.AppendUvarint(b, p.At)
		return appendBytes(b, p.Image)
	}
	b = binary.AppendUvarint(b, p.From)
	b = binary.AppendUvarint(b, p.To-p.From)
	return appendBytes(b, p.Round)
}

func appendBytes(b, data []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}

// decodeRemote reads the output of entry without its first two bytes, and retains data. The parser
// of the parts checks their content.
func decodeRemote(data []byte) (*remoteBody, error) {
	d := &decoder{b: data}
	body := &remoteBody{origin: string(d.bytes(d.uvarint()))}
	network := d.uint64()
	body.parts = make([]Part, d.count(leastPart))
	for i := range body.parts {
		body.parts[i] = d.part(network)
	}
	if d.bad || len(d.b) != 0 {
		return nil, fmt.Errorf("%w: parts of %d bytes", errEntry, len(data))
	}
	return body, nil
}

func (d *decoder) part(network uint64) (p Part) {
	code := d.byte()
	array := int(code &^ flagImage)
	if array >= len(sharedArrays) {
		d.bad = true
		return p
	}
	p.Array = sharedArrays[array]
	p.Geometry = filter.Geometry{Kind: filter.Bitmap, K: d.byte(), KeyID: network}
	if p.Array == ArrayCounts {
		p.Geometry.Kind = filter.Cells
	}
	p.Start, p.Geometry.Lines, p.Boot = d.uvarint(), d.uvarint(), d.uvarint()
	if code&flagImage != 0 {
		p.At = d.uvarint()
		p.Image = d.bytes(d.uvarint())
		d.bad = d.bad || len(p.Image) == 0
		return p
	}
	p.From = d.uvarint()
	p.To = p.From + d.uvarint()
	p.Round = d.bytes(d.uvarint())
	return p
}
