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

// A Maker makes keys. It implements evidence.Keys.
type Maker struct{ Secret filter.Secret }

// Base returns the key of a signature. Its name, not its number, stands for the
// scheme, so that numbers may change between releases.
func (m Maker) Base(sig *bulkhead.Signature) filter.Key {
	return m.Secret.KeyOf(sig.Scheme().String(), sig.Sum())
}

// Pair returns the key of a text together with a link, sender or network: what votes
// say of the two at once. It is one like those of signatures, for weights and
// blocklists.
func (m Maker) Pair(text, context filter.Key) filter.Key {
	var b [32]byte
	put(b[:], text)
	put(b[16:], context)
	return m.Secret.Key([]byte("pair"), b[:])
}

// Sample returns the key of a sample of a text: that of its signature of bulkhead/part.
func (m Maker) Sample(s bulkhead.Sample) filter.Key {
	sig := s.Signature()
	return m.Base(&sig)
}

// Together returns the key that says that one message that was reported held two
// samples, in either order.
func (m Maker) Together(a, b filter.Key) filter.Key {
	if a.Hi > b.Hi || a.Hi == b.Hi && a.Lo > b.Lo {
		a, b = b, a
	}
	var both [32]byte
	put(both[:], a)
	put(both[16:], b)
	return m.Secret.Key([]byte("together"), both[:])
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
func (m Maker) Everything() filter.Key { return m.Secret.Key([]byte("everything")) }

// Voice returns the mark by which the record of votes knows a voice.
func (m Maker) Voice(voice string) uint64 {
	return m.Secret.Key([]byte("voice"), []byte(voice)).Lo
}

func (m Maker) unique(who string, vote bulkhead.Vote, id string, base filter.Key) filter.Key {
	var b [17]byte
	put(b[:], base)
	b[16] = byte(vote)
	return m.Secret.Key([]byte("unique"), []byte(who), []byte(id), b[:])
}

func put(b []byte, k filter.Key) {
	binary.LittleEndian.PutUint64(b, k.Hi)
	binary.LittleEndian.PutUint64(b[8:], k.Lo)
}
