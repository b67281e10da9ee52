package engine

import (
	"encoding/binary"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
)

// The kinds of count that the tally keeps of one signature in the array
// "counts". They share a cache line (filter.Key.With), so that a check costs one
// memory access a generation however many kinds it asks for. The values are
// part of the data on disk.
const (
	kindSighting = evidence.Sighting
	kindSpam     = evidence.Spam
	kindHam      = evidence.Ham
	kindClaims   = evidence.Claims
)

// The kinds in the array "weights", in hundredths of a vote: what the votes of one
// side and one class of voter have added, in a generation of the blocklist. Sightings
// outnumber votes by far, so an
// array of their own, though rarely read, can be made so sparse that its errors do
// not decide what is listed. What was taken back of a kind, by voters who changed
// their mind, is the same kind of another key, see backKey; what one voice has added
// that of a third, see voterKey. The values are part of the data on disk.
const (
	kindRootSpam     = evidence.RootSpam
	kindRootHam      = evidence.RootHam
	kindStrangerSpam = evidence.StrangerSpam
	kindStrangerHam  = evidence.StrangerHam
	kindTakenBack    = evidence.TakenBack
	sides            = 4
)

// opposite returns the kind of the other side, of the same class of voter.
func opposite(kind uint8) uint8 { return kind ^ 1 }

// weightKind returns the kind that a vote adds to.
func weightKind(vote bulkhead.Vote, root bool) uint8 {
	kind := kindRootSpam
	if !root {
		kind = kindStrangerSpam
	}
	if vote != bulkhead.Spam {
		kind++
	}
	return kind
}

// baseKey returns the key of a signature. Its name, not its number, stands for
// the scheme, so that numbers may change between releases.
func baseKey(secret filter.Secret, sig *bulkhead.Signature) filter.Key {
	return secret.KeyOf(sig.Scheme().String(), sig.Sum())
}

// uniqueKey returns the key under which a filter remembers that who
// voted on the signature with the given key. who is a reporter's voice,
// see trust.Standing, or that of a network.
func uniqueKey(secret filter.Secret, who string, vote bulkhead.Vote, id string, base filter.Key) filter.Key {
	var b [17]byte
	binary.LittleEndian.PutUint64(b[:], base.Hi)
	binary.LittleEndian.PutUint64(b[8:], base.Lo)
	b[16] = byte(vote)
	return secret.Key([]byte("unique"), []byte(who), []byte(id), b[:])
}

// voterKey returns the key of what a voice has added to the weights of a signature.
// voice is that of a reporter, or of the network that several reporters count once
// for.
func voterKey(secret filter.Secret, voice string, base filter.Key) filter.Key {
	return uniqueKey(secret, voice, bulkhead.Spam, "record", base)
}

// backKey returns the key of what was taken back of the weights of a signature. It
// has a line of its own: many kinds on one line would often seem to be there where
// they are not.
func backKey(secret filter.Secret, base filter.Key) filter.Key {
	return uniqueKey(secret, "back", bulkhead.Spam, "", base)
}

// maxTurns is how often a signature can be listed again in one generation of the
// blocklist. After that a revocation stands until the next one opens.
const maxTurns = evidence.MaxTurns

// turnKey returns the key of the turn'th time that a generation's spam filter lists
// a signature, or its revocation filter takes it off: from 1, which is the signature
// itself. Each has a line of its own, so that a signature in dispute fills the
// filters no more than as many others would.
func turnKey(secret filter.Secret, base filter.Key, turn int) filter.Key {
	if turn == 1 {
		return base
	}
	return uniqueKey(secret, "turn", 0, string([]byte{byte(turn)}), base)
}

// relisted is [evidence.Relisted].
func relisted(secret filter.Secret, base filter.Key, spam, revoked func(filter.Key) bool) bool {
	return evidence.Relisted(otherKeys{secret}, base, spam, revoked)
}

// otherKeys implements [evidence.Keys].
type otherKeys struct{ secret filter.Secret }

func (k otherKeys) Back(base filter.Key) filter.Key { return backKey(k.secret, base) }

func (k otherKeys) Turn(base filter.Key, turn int) filter.Key { return turnKey(k.secret, base, turn) }

// pairKey returns the key of a text together with a link or sender: what votes say of
// the two at once. It is one like those of signatures, for weights and blocklists.
func pairKey(secret filter.Secret, text, context filter.Key) filter.Key {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[:], text.Hi)
	binary.LittleEndian.PutUint64(b[8:], text.Lo)
	binary.LittleEndian.PutUint64(b[16:], context.Hi)
	binary.LittleEndian.PutUint64(b[24:], context.Lo)
	return secret.Key([]byte("pair"), b[:])
}
