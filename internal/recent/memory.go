package recent

import "github.com/bulkhead-mail/bulkhead"

// A Memory remembers whole messages by their digests. Its methods may be called
// concurrently.
type Memory interface {
	// Note remembers a message by all its signatures. It keeps no reference to the slice. share names
	// the sender, to whose part of the memory the message counts.
	Note(message []bulkhead.Signature, space Space, share string)
	// Common appends to dst the signatures, including the digest, that all remembered messages of a
	// space with the digest share. It appends nothing if there are no such messages.
	Common(dst []bulkhead.Signature, digest *bulkhead.Signature, space Space) []bulkhead.Signature
}

// A Space is the origin of remembered messages: "" for the node's own doors and the reporters whom
// its administrator trusts, or else the name that a [Door] returns.
type Space string

// digest reports whether signatures of a scheme identify a message to a client that knows nothing
// else about it. Signatures of a link or of a part of the text do not.
func digest(s bulkhead.Scheme) bool {
	switch s {
	case bulkhead.RazorE4, bulkhead.PyzorDigest, bulkhead.DCCBody, bulkhead.DCCFuz1, bulkhead.DCCFuz2, bulkhead.RspamdText:
		return true
	}
	return false
}

// ofParts reports whether a scheme signs every part of a message, including footers and pictures
// that other messages have as well. Then the first part, its text, identifies the message.
func ofParts(s bulkhead.Scheme) bool { return s == bulkhead.RazorE4 || s == bulkhead.RspamdText }

// digests calls yield for each signature that identifies the message.
func digests(message []bulkhead.Signature, yield func(*bulkhead.Signature)) {
	var had [256]bool
	for i := range message {
		s := message[i].Scheme()
		if !digest(s) || ofParts(s) && had[s] {
			continue
		}
		had[s] = true
		yield(&message[i])
	}
}

// Whole reports whether signatures were computed from a whole message: only a door with the whole
// message can compute bulkhead's own schemes.
func Whole(sigs []bulkhead.Signature) bool {
	for i := range sigs {
		switch sigs[i].Scheme() {
		case bulkhead.Exact, bulkhead.Near, bulkhead.Link, bulkhead.Sender, bulkhead.Attachment, bulkhead.Contact,
			bulkhead.Image:
			return true
		}
	}
	return false
}

// A contents holds the signatures of one message for comparison.
type contents struct {
	sigs []bulkhead.Signature
	has  map[bulkhead.Signature]bool // nil until the first use
	of   [256]bool                   // schemes of the signatures
}

// holds reports whether s is among the signatures.
func (c *contents) holds(s bulkhead.Signature) bool {
	if c.has == nil {
		c.has = make(map[bulkhead.Signature]bool, len(c.sigs))
		for i := range c.sigs {
			c.has[c.sigs[i]] = true
			c.of[c.sigs[i].Scheme()] = true
		}
	}
	return c.has[s]
}

// common returns the signatures common to a message and a set, in the order of the set.
// If both have the same whole text, text signatures that one of them lacks altogether,
// because its door does not compute them, are taken from the other.
func (c *contents) common(set []bulkhead.Signature) []bulkhead.Signature {
	var had [256]bool
	same := false
	for i := range set {
		had[set[i].Scheme()] = true
		same = same || set[i].Scheme() == bulkhead.Exact && c.holds(set[i])
	}
	ofText := func(s bulkhead.Scheme) bool { return same && s.Facet() == bulkhead.TextFacet }
	out := make([]bulkhead.Signature, 0, len(set))
	for i := range set {
		if s := set[i].Scheme(); c.holds(set[i]) || ofText(s) && !c.of[s] {
			out = append(out, set[i])
		}
	}
	for i := range c.sigs {
		if s := c.sigs[i].Scheme(); ofText(s) && !had[s] {
			out = append(out, c.sigs[i])
		}
	}
	return out
}
