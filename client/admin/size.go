package admin

import (
	"context"
	"net/url"
	"strconv"
)

// A SizeQuestion is the use for which a node is to be sized. A field that is 0 stands for the
// configured value.
type SizeQuestion struct {
	Signatures    uint64  // different signatures a day, above 0
	Listed        *uint64 // signatures that are voted spam a day; nil: 1 % of Signatures
	CountError    float64 // accepted probability that a count is wrong
	ListError     float64 // accepted probability that an unreported signature is found listed
	TallyKeep     int     // generations of the tally
	BlocklistKeep int     // generations of the blocklist
}

// Sizes are the resources that a node needs under a steady use, and its error rates. They follow
// from the formulae by which the node sizes its books.
type Sizes struct {
	Tally     BookSizes `json:"tally" doc:"How often signatures were seen."`
	Blocklist BookSizes `json:"blocklist" doc:"What is listed as spam."`
	Memory    uint64    `json:"memory_bytes" doc:"Memory of both, bytes; counts above the range of a cell take a little more."`
	Disk      uint64    `json:"disk_bytes" doc:"The most that checkpoints and journal take, bytes."`
	Peer      PeerSizes `json:"peer_bytes_a_day" doc:"What goes to each peer."`
}

// PeerSizes are the bytes that go to each peer in a day.
type PeerSizes struct {
	Least uint64 `json:"least" doc:"Where many new signatures come together."`
	Most  uint64 `json:"most" doc:"Where few do."`
}

// BookSizes are the share of one book.
type BookSizes struct {
	Generation  string  `json:"generation" doc:"How long a generation lasts, for example 24h."`
	Keep        int     `json:"keep" doc:"Generations that are kept."`
	Signatures  uint64  `json:"signatures" doc:"Different signatures of a generation."`
	Capacity    uint64  `json:"capacity" doc:"Signatures that a generation is made for."`
	Array       uint64  `json:"generation_bytes" doc:"Memory of a generation, bytes."`
	All         uint64  `json:"bytes" doc:"Memory of all generations, with that made ahead of time, bytes."`
	Unseen      float64 `json:"unseen_shown" minimum:"0" maximum:"1" doc:"Probability that a signature that was never reported is shown."`
	CountsWrong float64 `json:"count_wrong,omitempty" minimum:"0" maximum:"1" doc:"Of the tally: probability that a count is too high."`
	BulkWrong   float64 `json:"bulk_wrong,omitempty" minimum:"0" maximum:"1" doc:"Of the tally: probability that a signature that was never reported is shown as bulk."`
	Hidden      float64 `json:"hidden,omitempty" minimum:"0" maximum:"1" doc:"Of the blocklist: probability that a listed signature is shown as revoked by chance."`
}

// Size calculates the resources that the node would need for another use. It changes nothing.
func (c *Client) Size(ctx context.Context, of SizeQuestion) (*Sizes, error) {
	q := url.Values{"signatures": {strconv.FormatUint(of.Signatures, 10)}}
	if of.Listed != nil {
		q.Set("listed", strconv.FormatUint(*of.Listed, 10))
	}
	for name, p := range map[string]float64{"count_error": of.CountError, "list_error": of.ListError} {
		if p != 0 {
			q.Set(name, strconv.FormatFloat(p, 'g', -1, 64))
		}
	}
	for name, n := range map[string]int{"tally_keep": of.TallyKeep, "blocklist_keep": of.BlocklistKeep} {
		if n != 0 {
			q.Set(name, strconv.Itoa(n))
		}
	}
	return call[*Sizes](ctx, c, "GET", "/v1/size", q, nil)
}
