package codec

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// A Remote is parts of an origin, as received. Source: docs/specs/journal.md#parts-of-peers.
type Remote struct {
	Origin string
	Parts  []replica.Part
}

// partHead bounds the bytes of an encoded part besides its content. leastPart is the minimum size
// of a part.
const (
	partHead  = 64
	leastPart = 8
	flagImage = 16
)

// MaxRound is the maximum number of adds in a round: less than 400 kB, so that any broker accepts it
// in one message.
const MaxRound = 1 << 15

// SharedArrays are the arrays that peers have replicas of. The index of an array is its number in
// journal entries and in files.
var SharedArrays = [...]replica.Array{replica.ArrayCounts, replica.ArraySpam, replica.ArrayRevoked}

// Append implements [Entry]. All parts are of one network. It returns no error.
func (body *Remote) Append(b []byte) ([]byte, error) {
	size := partHead + len(body.Origin)
	for i := range body.Parts {
		size += partHead + len(body.Parts[i].Round) + len(body.Parts[i].Image)
	}
	b = append(slices.Grow(b, size), kindRemote, entryVersion)
	b = AppendBytes(b, []byte(body.Origin))
	var network uint64
	if len(body.Parts) > 0 {
		network = body.Parts[0].Geometry.KeyID
	}
	b = binary.LittleEndian.AppendUint64(b, network)
	b = binary.AppendUvarint(b, uint64(len(body.Parts)))
	for i := range body.Parts {
		b = appendPart(b, &body.Parts[i])
	}
	return b, nil
}

func appendPart(b []byte, p *replica.Part) []byte {
	code := byte(slices.Index(SharedArrays[:], p.Array))
	if len(p.Image) > 0 {
		code |= flagImage
	}
	b = append(b, code, p.Geometry.K)
	for _, x := range []uint64{p.Start, p.Geometry.Lines, p.Boot} {
		b = binary.AppendUvarint(b, x)
	}
	if len(p.Image) > 0 {
		b = binary.AppendUvarint(b, p.At)
		return AppendBytes(b, p.Image)
	}
	b = binary.AppendUvarint(b, p.From)
	b = binary.AppendUvarint(b, p.To-p.From)
	return AppendBytes(b, p.Round)
}

// decodeRemote reads the output of Append without its first two bytes, and retains data. The parser
// of the parts checks their content.
func decodeRemote(data []byte) (*Remote, error) {
	d := &Decoder{Left: data}
	body := &Remote{Origin: string(d.Bytes(d.Uvarint()))}
	network := d.Uint64()
	body.Parts = make([]replica.Part, d.Count(leastPart))
	for i := range body.Parts {
		body.Parts[i] = d.part(network)
	}
	if d.Bad || len(d.Left) != 0 {
		return nil, fmt.Errorf("%w: parts of %d bytes", ErrEntry, len(data))
	}
	return body, nil
}

func (d *Decoder) part(network uint64) (p replica.Part) {
	code := d.Byte()
	array := int(code &^ flagImage)
	if array >= len(SharedArrays) {
		d.Bad = true
		return p
	}
	p.Array = SharedArrays[array]
	p.Geometry = filter.Geometry{Kind: filter.Bitmap, K: d.Byte(), KeyID: network}
	if p.Array == replica.ArrayCounts {
		p.Geometry.Kind = filter.Cells
	}
	p.Start, p.Geometry.Lines, p.Boot = d.Uvarint(), d.Uvarint(), d.Uvarint()
	if code&flagImage != 0 {
		p.At = d.Uvarint()
		p.Image = d.Bytes(d.Uvarint())
		d.Bad = d.Bad || len(p.Image) == 0
		return p
	}
	p.From = d.Uvarint()
	p.To = p.From + d.Uvarint()
	p.Round = d.Bytes(d.Uvarint())
	return p
}
