// Package keys makes the keys under which a node's arrays hold what is known of signatures,
// of pairs of signatures, and of voters. All keys depend on the network's secret, so nobody
// without it can choose keys that collide. The way they are made is part of the data on disk.
package keys

import (
	"encoding/binary"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// A Maker makes keys. It implements evidence.Keys. If Past is not nil, the Maker notes there
// what each key that it makes from a signature or from other keys is under the network's
// former secrets; then only one goroutine may use it at a time.
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

// Pair returns the key of a text together with a link or sender, on which votes
// fall together. It is used for weights and listings like the key of a signature.
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

// pairKey begins what is hashed into the keys of [Maker.Pair].
const pairKey = "pair"

// Sample returns the key of a sample of a text, which is that of its bulkhead/part signature.
func (m Maker) Sample(s bulkhead.Sample) filter.Key {
	sig := s.Signature()
	return m.Base(&sig)
}

// Together returns the key that says that a reported message contained both samples, in
// either order.
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

// Record returns the key of what a voice has added to the weights of base. The voice is a
// reporter's, or that of a network whose reporters count once.
func (m Maker) Record(voice string, base filter.Key) filter.Key {
	return m.unique(voice, bulkhead.Spam, record, base)
}

// Once returns the key under which a filter remembers that something was done for an
// account because of its vote on base.
func (m Maker) Once(what, account string, base filter.Key) filter.Key {
	return m.unique(what, bulkhead.Spam, account, base)
}

// Bucket returns the key under which a filter remembers that an account of a bucket
// voted spam on base.
func (m Maker) Bucket(bucket uint8, base filter.Key) filter.Key {
	return m.unique("bucket", bulkhead.Spam, string([]byte{bucket}), base)
}

// BucketOf returns the bucket of an account in the filters of an epoch. Nobody without the
// secret can choose names that share a bucket.
func (m Maker) BucketOf(epoch int, name string) uint8 {
	s := m.Secret
	if epoch > 0 {
		s = m.Past.secrets[epoch-1]
	}
	return uint8(s.Key([]byte("bucket"), []byte(name)).Lo)
}

// Back returns the key of what was taken back of the weights of base. It has a line of its
// own: with more kinds on a line, false positives within it would be frequent.
func (m Maker) Back(base filter.Key) filter.Key {
	return m.unique("back", bulkhead.Spam, "", base)
}

// Turn returns the key of the turn'th time that a generation's spam filter lists base, or
// its revocation filter takes it off. Turns begin at 1, which is base itself. Each has a line
// of its own, so the turns of a disputed signature fill the filters no more than as many
// other signatures would.
func (m Maker) Turn(base filter.Key, turn int) filter.Key {
	if turn == 1 {
		return base
	}
	return m.unique("turn", 0, string(binary.AppendUvarint(nil, uint64(turn))), base)
}

// Claim returns the key under which a filter remembers that a stranger has seen base.
func (m Maker) Claim(voice string, base filter.Key) filter.Key {
	return m.unique(voice, bulkhead.Sighting, "", base)
}

// Report returns the key under which a filter remembers a voice's report with an ID, of
// sightings of bases.
func (m Maker) Report(voice, id string, bases []filter.Key) filter.Key {
	b := make([]byte, 16*len(bases))
	for i, k := range bases {
		put(b[16*i:], k)
	}
	return m.Secret.Key([]byte("report"), []byte(voice), []byte(id), b)
}

// Sender returns the key under which a filter remembers that mail of a verified domain with
// the link base was delivered.
func (m Maker) Sender(domain string, base filter.Key) filter.Key {
	return m.unique(domain, bulkhead.Sighting, "sender", base)
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

// Voice returns the mark by which the record of votes knows a voice.
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

// uniqueKey begins what is hashed into the keys of [Maker.unique], and record is the ID in
// those of [Maker.Record].
const uniqueKey, record = "unique", "record"

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
