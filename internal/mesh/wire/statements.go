package wire

import (
	"bytes"
	"slices"
)

// MaxStatement bounds, in bytes, a statement that is kept to prove where a round led. Statements of
// heads are kept whatever their length.
const MaxStatement = 16 << 10

// Evidence holds signed statements of an origin. If the origin has forgotten its past, it believes
// nothing else.
type Evidence struct {
	Head  []byte         // the newest head of the newest incarnation, or the message that began it
	Began []byte         // the first message of its newest process
	Led   map[Ref][]byte // the statement that led an array to the replica's version
}

// Keep stores the statement that led to the present version of a replica.
func (e *Evidence) Keep(x Ref, statement []byte) {
	if len(statement) == 0 || len(statement) > MaxStatement {
		return
	}
	if e.Led == nil {
		e.Led = make(map[Ref][]byte)
	}
	e.Led[x] = statement
}

// About returns the proofs to send an origin with a question about arrays, or all proofs if arrays
// is empty. One proof that the origin cannot explain is enough.
func (e *Evidence) About(arrays []ArrayHead) (out [][]byte) {
	if len(arrays) == 0 {
		for x := range e.Led {
			arrays = append(arrays, ArrayHead{Ref: x})
		}
	}
	if e.Head != nil {
		out = append(out, e.Head)
	}
	size := len(e.Head)
	add := func(statement []byte) {
		if statement == nil || len(out) == maxProofs || size+len(statement) > MaxAsk/2 ||
			slices.ContainsFunc(out, func(x []byte) bool { return bytes.Equal(x, statement) }) {
			return
		}
		out, size = append(out, statement), size+len(statement)
	}
	add(e.Began)
	for _, a := range arrays {
		add(e.Led[a.Ref])
	}
	return out
}

// A Past is a provable past state of this node.
type Past struct {
	Stamp  Stamp
	Arrays []ArrayHead // versions that it had, with their boot
}

// Past returns the state of the sender's arrays in a message.
func (m *Message) Past() Past {
	p := Past{Stamp: m.Stamp}
	add := func(x Ref, version uint64) {
		p.Arrays = append(p.Arrays, ArrayHead{Ref: x, Version: version, Boot: m.Stamp.Boot})
	}
	for _, h := range m.Heads {
		add(h.Ref, h.Version)
	}
	for i := range m.Rounds {
		add(m.Rounds[i].Ref, m.Rounds[i].To)
	}
	if m.Kind == KindImage {
		add(m.Image.Ref, m.Image.At)
	}
	return p
}
