// Package keys makes the keys under which the arrays of a node hold what is known of
// signatures, of pairs of them, and of those who vote. All are made with the secret of
// the network, so that nobody else can choose ones that collide. How they are made is
// part of the data on disk.
package keys

import (
	"encoding/binary"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// A Maker makes keys. It implements evidence.Keys. If Past is not nil it notes there, for
// each key that it makes of a signature or of other keys, what that is under the secrets
// that the network had before; then one goroutine uses it at a time.
type Maker struct {
	Secret filter.Secret
	Past   *Past // nil: all generations were made with Secret
}

// Base returns the key of a signature. Its name, not its number, stands for the
// scheme, so that numbers may change between releases.
func (m Maker) Base(sig *bulkhead.Signature) filter.Key {
	k := m.Secret.KeyOf(sig.Scheme().String(), sig.Sum())
	if m.Past != nil {
		m.Past.note(k, func(_ int, s filter.Secret) filter.Key { return s.KeyOf(sig.Scheme().String(), sig.Sum()) })
	}
	return k
}

// Pair returns the key of a text together with a link, sender or network: what votes
// say of the two at once. It is one like those of signatures, for weights and
// blocklists.
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
	return s.Key([]byte("pair"), b[:])
}

// Sample returns the key of a sample of a text: that of its signature of bulkhead/part.
func (m Maker) Sample(s bulkhead.Sample) filter.Key {
	sig := s.Signature()
	return m.Base(&sig)
}

// Together returns the key that says that one message that was reported held two
// samples, in either order.
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

// Vote returns the key under which a filter remembers that who voted on base. who is a
// reporter's voice, see trust.Standing, or that of a network.
func (m Maker) Vote(who string, vote bulkhead.Vote, base filter.Key) filter.Key {
	return m.unique(who, vote, "", base)
}

// Record returns the key of what a voice has added to the weights of base. voice is
// that of a reporter, or of the network that several reporters count once for.
func (m Maker) Record(voice string, base filter.Key) filter.Key {
	return m.unique(voice, bulkhead.Spam, "record", base)
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

// BucketOf returns the bucket of an account, as the filters of an epoch have it. Nobody
// without the secret can choose names that share one.
func (m Maker) BucketOf(epoch int, name string) uint8 {
	s := m.Secret
	if epoch > 0 {
		s = m.Past.secrets[epoch-1]
	}
	return uint8(s.Key([]byte("bucket"), []byte(name)).Lo)
}

// Back returns the key of what was taken back of the weights of base. It has a line of
// its own: many kinds on one line would often seem to be there where they are not.
func (m Maker) Back(base filter.Key) filter.Key {
	return m.unique("back", bulkhead.Spam, "", base)
}

// Turn returns the key of the turn'th time that a generation's spam filter lists base,
// or its revocation filter takes it off: from 1, which is base itself. Each has a line
// of its own, so that a signature in dispute fills the filters no more than as many
// others would.
func (m Maker) Turn(base filter.Key, turn int) filter.Key {
	if turn == 1 {
		return base
	}
	return m.unique("turn", 0, string([]byte{byte(turn)}), base)
}

// Claim returns the key under which a filter remembers that a stranger has seen base.
func (m Maker) Claim(voice string, base filter.Key) filter.Key {
	return m.unique(voice, bulkhead.Sighting, "", base)
}

// Report returns the key under which a filter remembers a report of sightings of all of
// bases that has an ID.
func (m Maker) Report(voice, id string, bases []filter.Key) filter.Key {
	b := make([]byte, 16*len(bases))
	for i, k := range bases {
		put(b[16*i:], k)
	}
	return m.Secret.Key([]byte("report"), []byte(voice), []byte(id), b)
}

// Recipient returns the key under which a filter remembers that somebody received base.
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

func unique(s filter.Secret, who string, vote bulkhead.Vote, id string, base filter.Key) filter.Key {
	var b [17]byte
	put(b[:], base)
	b[16] = byte(vote)
	return s.Key([]byte("unique"), []byte(who), []byte(id), b[:])
}

func put(b []byte, k filter.Key) {
	binary.LittleEndian.PutUint64(b, k.Hi)
	binary.LittleEndian.PutUint64(b[8:], k.Lo)
}
