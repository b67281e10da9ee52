// Package keys makes the keys under which a node's arrays store signatures, pairs of signatures,
// and voters. All keys depend on the network's secret, so colliding keys cannot be chosen without
// it. The derivation of keys is part of the data on disk.
package keys

import (
	"encoding/binary"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// A Maker makes keys. It implements evidence.Keys. If Past is not nil, the Maker records in it the
// forms under the network's former secrets of each key that it makes from a signature or from other
// keys. Only one goroutine may then use the Maker at a time.
type Maker struct {
	Secret filter.Secret
	Past   *Past // nil: all generations were made with Secret
}

// Base returns the key of a signature. It depends on the name of the scheme, not on its
// number, so numbers may change between releases.
func (m Maker) Base(sig *bulkhead.Signature) filter.Key {
	k := m.Secret.KeyOf(sig.Scheme().String(), sig.Sum())
	if m.Past != nil {
		m.Past.note(k, func(_ int, s filter.Secret) filter.Key { return s.KeyOf(sig.Scheme().String(), sig.Sum()) })
	}
	return k
}

// Pair returns the key of a text together with a link or sender, on which votes fall together.
// Weights and listings use it like the key of a signature.
func (m Maker) Pair(text, context filter.Key) filter.Key {
	k := pair(m.Secret, text, context)
	if m.Past != nil {
		m.Past.note(k, func(e int, s filter.Secret) filter.Key { return pair(s, m.At(e, text), m.At(e, context)) })
	}
	return k
}

func pair(s filter.Secret, text, context filter.Key) filter.Key {
	var b [32]byte
	put(b[:], text)
	put(b[16:], context)
	return s.Key([]byte(pairKey), b[:])
}

// pairKey is the first part of the input that [Maker.Pair] hashes.
const pairKey = "pair"

// Sample returns the key of a sample of a text, which is the key of its bulkhead/part signature.
func (m Maker) Sample(s bulkhead.Sample) filter.Key {
	sig := s.Signature()
	return m.Base(&sig)
}

// Together returns the key under which a filter remembers that a reported message contained both
// samples. Their order does not matter.
func (m Maker) Together(a, b filter.Key) filter.Key {
	k := together(m.Secret, a, b)
	if m.Past != nil {
		m.Past.note(k, func(e int, s filter.Secret) filter.Key { return together(s, m.At(e, a), m.At(e, b)) })
	}
	return k
}

func together(s filter.Secret, a, b filter.Key) filter.Key {
	if a.Hi > b.Hi || a.Hi == b.Hi && a.Lo > b.Lo {
		a, b = b, a
	}
	var both [32]byte
	put(both[:], a)
	put(both[16:], b)
	return s.Key([]byte("together"), both[:])
}

// Vote returns the key under which a filter remembers that who cast vote on base. who is the
// voice of a reporter, see trust.Standing, or of a network.
func (m Maker) Vote(who string, vote bulkhead.Vote, base filter.Key) filter.Key {
	return m.unique(who, vote, "", base)
}

// Record returns the key of the weight that a voice has added to base. The voice is a reporter's,
// or a network's whose reporters count once.
func (m Maker) Record(voice string, base filter.Key) filter.Key {
	return m.unique(voice, bulkhead.Spam, record, base)
}

// Once returns the key under which a filter remembers that the action named what was taken for an
// account because of its vote on base.
func (m Maker) Once(what, account string, base filter.Key) filter.Key {
	return m.unique(what, bulkhead.Spam, account, base)
}

// Bucket returns the key under which a filter remembers that an account of a bucket
// voted spam on base.
func (m Maker) Bucket(bucket uint8, base filter.Key) filter.Key {
	return m.unique("bucket", bulkhead.Spam, string([]byte{bucket}), base)
}

// BucketOf returns the bucket of an account in the filters of an epoch. Names that share a bucket
// cannot be chosen without the secret.
func (m Maker) BucketOf(epoch int, name string) uint8 {
	s := m.Secret
	if epoch > 0 {
		s = m.Past.secrets[epoch-1]
	}
	return uint8(s.Key([]byte("bucket"), []byte(name)).Lo)
}

// Back returns the key of the retracted weights of base. It has a line of its own: with more kinds
// on a line, false positives within it would be frequent.
func (m Maker) Back(base filter.Key) filter.Key {
	return m.unique(backKey, bulkhead.Spam, "", base)
}

// Turn returns the key of the turn'th time that a generation's spam filter lists base, or that its
// revocation filter takes it off. Turns begin at 1, whose key is base itself. Each turn has a line
// of its own, so n turns of a disputed signature fill the filters no more than n other signatures
// would.
func (m Maker) Turn(base filter.Key, turn int) filter.Key {
	if turn == 1 {
		return base
	}
	var b [binary.MaxVarintLen64]byte
	return m.unique(turnKey, 0, string(binary.AppendUvarint(b[:0], uint64(turn))), base)
}

// Claim returns the key under which a filter remembers that a stranger has seen base.
func (m Maker) Claim(voice string, base filter.Key) filter.Key {
	return m.unique(voice, bulkhead.Sighting, "", base)
}

// Report returns the key under which a filter remembers a voice's report of sightings of bases,
// with an ID.
func (m Maker) Report(voice, id string, bases []filter.Key) filter.Key {
	b := make([]byte, 16*len(bases))
	under := func(epoch int, s filter.Secret) filter.Key {
		for i, k := range bases {
			put(b[16*i:], m.At(epoch, k))
		}
		return s.Key([]byte("report"), []byte(voice), []byte(id), b)
	}
	k := under(0, m.Secret)
	if m.Past != nil {
		m.Past.note(k, under)
	}
	return k
}

// Sender returns the key under which a filter remembers that mail of a verified domain with
// the link base was delivered.
func (m Maker) Sender(domain string, base filter.Key) filter.Key {
	return m.unique(domain, bulkhead.Sighting, "sender", base)
}

// SenderPlace returns the key of a place of the sketch of the senders of a link, 0 or more.
func (m Maker) SenderPlace(base filter.Key, place int) filter.Key {
	return m.unique("sender place", bulkhead.Sighting, string([]byte{byte(place)}), base)
}

// Delivered returns the key under which a filter remembers that mail with a name was delivered.
func (m Maker) Delivered(base filter.Key) filter.Key {
	return m.unique("", bulkhead.Sighting, "delivered", base)
}

// Recipient returns the key under which a filter remembers that a recipient received base.
func (m Maker) Recipient(recipient string, base filter.Key) filter.Key {
	var b [16]byte
	put(b[:], base)
	return m.Secret.Key([]byte("recipient"), []byte(recipient), b[:])
}

// Everything returns the key under which the deliveries of all verified senders are
// counted.
func (m Maker) Everything() filter.Key {
	k := m.Secret.Key([]byte("everything"))
	if m.Past != nil {
		m.Past.note(k, func(_ int, s filter.Secret) filter.Key { return s.Key([]byte("everything")) })
	}
	return k
}

// Voice returns the number that stands for a voice in the record of votes.
func (m Maker) Voice(voice string) uint64 {
	return m.Secret.Key([]byte("voice"), []byte(voice)).Lo
}

func (m Maker) unique(who string, vote bulkhead.Vote, id string, base filter.Key) filter.Key {
	k := unique(m.Secret, who, vote, id, base)
	if m.Past != nil {
		m.Past.note(k, func(e int, s filter.Secret) filter.Key { return unique(s, who, vote, id, m.At(e, base)) })
	}
	return k
}

// uniqueKey is the first part of the input that [Maker.unique] hashes. record is the ID in the keys
// of [Maker.Record].
const uniqueKey, record = "unique", "record"

// turnKey and backKey take the place of a voice in the keys of [Maker.Turn] and [Maker.Back].
const turnKey, backKey = "turn", "back"

func unique(s filter.Secret, who string, vote bulkhead.Vote, id string, base filter.Key) filter.Key {
	var b [17]byte
	put(b[:], base)
	b[16] = byte(vote)
	return s.Key([]byte(uniqueKey), []byte(who), []byte(id), b[:])
}

func put(b []byte, k filter.Key) {
	binary.LittleEndian.PutUint64(b, k.Hi)
	binary.LittleEndian.PutUint64(b[8:], k.Lo)
}
