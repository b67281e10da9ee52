package engine

import (
	"encoding/binary"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// The kinds of count that the tally keeps of one signature in the array
// "counts". They share a cache line (filter.Key.With), so that a check costs one
// memory access a generation however many kinds it asks for. The values are
// part of the data on disk.
const (
	kindSighting uint8 = 0
	kindSpam     uint8 = 1
	kindHam      uint8 = 2
	countKinds         = 3
)

// The kinds in the array "weights", in hundredths of a vote. Sightings outnumber
// votes by far, so an array of their own, though rarely read, can be made so
// sparse that its errors do not decide what is listed. It also has what each voter
// has added to a signature's weight, under the key of the unique filter.
const (
	kindSpamWeight   uint8 = 0
	kindHamWeight    uint8 = 1
	kindRevokeWeight uint8 = 2
	weightKinds            = 3
)

// weightUnit is the weight 1 in the units of the weight kinds.
const weightUnit = 100

// class says how a signature speaks for the message that bears it.
type class uint8

const (
	classWhole    class = iota // the whole message: decides alone
	classBand                  // one of several bands: enough of them decide
	classPart                  // a part of the message: informs
	classProperty              // sender, address, URL: informs
)

func classOf(s bulkhead.Scheme) class {
	switch s {
	case bulkhead.Exact, bulkhead.RazorE4, bulkhead.PyzorDigest, bulkhead.DCCBody,
		bulkhead.DCCFuz1, bulkhead.DCCFuz2, bulkhead.RspamdText:
		return classWhole
	case bulkhead.Near, bulkhead.RspamdShingle:
		return classBand
	case bulkhead.RazorE8:
		return classPart
	}
	return classProperty
}

// baseKey returns the key of a signature. Its name, not its number, stands for
// the scheme, so that numbers may change between releases.
func baseKey(secret filter.Secret, sig *bulkhead.Signature) filter.Key {
	return secret.KeyOf(sig.Scheme().String(), sig.Sum())
}

// uniqueKey returns the key under which the unique filter remembers that who
// voted on the signature with the given key. who is a reporter's identity or a
// network; see identity.
func uniqueKey(secret filter.Secret, who string, vote bulkhead.Vote, id string, base filter.Key) filter.Key {
	var b [17]byte
	binary.LittleEndian.PutUint64(b[:], base.Hi)
	binary.LittleEndian.PutUint64(b[8:], base.Lo)
	b[16] = byte(vote)
	return secret.Key([]byte("unique"), []byte(who), []byte(id), b[:])
}

// identity returns who a reporter is for the unique filter: its account, or
// the address of an anonymous client, all of the node's own counting as one.
func identity(r bulkhead.Reporter) string {
	switch {
	case r.Account != "":
		return "account:" + r.Account
	case trust.IsLocal(r.Addr):
		return "local"
	}
	return "address:" + r.Addr.Unmap().WithZone("").String()
}
