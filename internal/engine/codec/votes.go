package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// Votes are the decisions about a batch of reports.
type Votes resolve.Decisions

// Append implements [Entry]. It returns no error.
func (v *Votes) Append(b []byte) ([]byte, error) {
	b = append(b, kindVotes, entryVersion)
	b = binary.AppendUvarint(b, v.TallyGen)
	b = binary.AppendUvarint(b, v.BlockGen)
	for _, a := range []*resolve.Adds{&v.Counts, &v.Names, &v.Weights} {
		b = appendAdds(b, a)
	}
	b = binary.AppendUvarint(b, uint64(len(v.Late)))
	for i := range v.Late {
		b = binary.AppendUvarint(b, v.Late[i].Gen)
		b = appendAdds(b, &v.Late[i].Adds)
	}
	for _, keys := range [][]filter.Key{v.Unique, v.Voted, v.Spam, v.Revoked} {
		b = appendKeys(b, keys)
	}
	b = binary.AppendUvarint(b, uint64(len(v.Credits)))
	for _, c := range v.Credits {
		b = binary.AppendUvarint(b, uint64(len(c.Account)))
		b = append(b, c.Account...)
		for _, n := range []uint32{c.Confirmed, c.Reverted, c.Day, c.Network, c.By} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(v.Ballots)))
	for i := range v.Ballots {
		b = v.Ballots[i].Append(b)
	}
	if len(v.PublishedSpam)+len(v.PublishedRevoked) > 0 || !v.Learned.Empty() {
		b = appendKeys(appendKeys(b, v.PublishedSpam), v.PublishedRevoked)
	}
	if !v.Learned.Empty() {
		b = v.Learned.Append(b)
	}
	return b, nil
}

func appendKeys(b []byte, keys []filter.Key) []byte {
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, k := range keys {
		b = AppendKey(b, k)
	}
	return b
}

func appendAdds(b []byte, a *resolve.Adds) []byte {
	b = binary.AppendUvarint(b, uint64(len(a.Keys)))
	for i, k := range a.Keys {
		b = AppendKey(b, k)
		b = binary.AppendUvarint(b, uint64(a.N[i]))
	}
	return b
}

// decodeVotes reads the output of Append without its first two bytes.
func decodeVotes(body []byte) (*Votes, error) {
	d := &Decoder{Left: body}
	v := &Votes{TallyGen: d.Uvarint(), BlockGen: d.Uvarint(), Counts: d.Adds(), Names: d.Adds(), Weights: d.Adds()}
	if n := d.Count(2); n > 0 {
		v.Late = make([]resolve.Late, n)
	}
	for i := range v.Late {
		v.Late[i].Gen = d.Uvarint()
		v.Late[i].Adds = d.Adds()
	}
	v.Unique, v.Voted, v.Spam, v.Revoked = d.Keys(), d.Keys(), d.Keys(), d.Keys()
	v.Credits = make([]trust.Credit, d.Count(6))
	for i := range v.Credits {
		c := &v.Credits[i]
		c.Account = string(d.Bytes(d.Uvarint()))
		for _, n := range []*uint32{&c.Confirmed, &c.Reverted, &c.Day, &c.Network, &c.By} {
			*n = d.Small(1<<32 - 1)
		}
	}
	v.Ballots = make([]ballots.Ballot, d.Count(10))
	for i := range v.Ballots {
		if d.Bad {
			break
		}
		var err error
		if v.Ballots[i], d.Left, err = ballots.Read(d.Left); err != nil {
			d.Bad = true
		}
	}
	if !d.Bad && len(d.Left) > 0 {
		v.PublishedSpam, v.PublishedRevoked = d.Keys(), d.Keys()
		// Empty lists must be left out at the end.
		if !d.Bad && len(d.Left) > 0 {
			var err error
			v.Learned, d.Left, err = learned.ReadChanges(d.Left)
			d.Bad = err != nil || v.Learned.Empty()
		} else {
			d.Bad = d.Bad || len(v.PublishedSpam)+len(v.PublishedRevoked) == 0
		}
	}
	if d.Bad || len(d.Left) != 0 {
		return nil, fmt.Errorf("%w: votes of %d bytes", ErrEntry, len(body))
	}
	return v, nil
}
