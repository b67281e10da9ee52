package manage

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

// A StatusPage describes the node to the pages: [web.Source].
type StatusPage struct {
	Node  *State
	Peers *Peers
	// Doors returns the open doors, with their rates until now.
	Doors func(now time.Time) []web.Door
}

// Status implements [web.Source].
func (p *StatusPage) Status(ctx context.Context) web.Status {
	state := p.Node.State(ctx)
	c, now := state.Counters, clock.Now()
	out := web.Status{
		Name: state.Name, Version: state.Version, Now: now, Started: state.Started,
		Mature: state.Mature, Durability: state.Durability, ReadOnly: state.ReadOnly, Threshold: state.Threshold,
		Accounts: state.Accounts,
		Counters: []web.Counter{{Name: "Checks", Value: c.Checks}, {Name: "Reports", Value: c.Reports},
			{Name: "Refused", Value: c.Refused}, {Name: "Snapshots", Value: c.Checkpoints}},
	}
	out.Held, out.Standby, out.Journal = state.Ageing, state.Standby, state.Journal
	out.Doubts, out.Missing = len(state.Doubts), state.Missing
	if state.Disk != nil {
		out.Free, out.Disk = state.Disk.Free, state.Disk.Total
	}
	if network, err := p.Peers.Network(ctx); err == nil {
		out.Peers = network.Peers
	}
	out.Doors = p.Doors(now)
	books := map[string]web.Book{
		"tally":     {Name: "Tally", Question: "How often was it seen, called spam, called ham?"},
		"blocklist": {Name: "Blocklist", Question: "Has a trusted reporter called it spam, without a revocation since?"},
	}
	for _, b := range state.Books {
		book := books[b.Name]
		book.Bytes = b.Bytes
		for _, g := range b.Generations {
			book.Generations = append(book.Generations, webGeneration(g))
		}
		out.Books = append(out.Books, book)
	}
	return out
}

func webGeneration(g admin.Generation) web.Generation {
	holds := map[string]string{
		"counts":  "sightings, spam and ham votes",
		"weights": "how much the votes weigh",
		"unique":  "who has voted on what",
		"spam":    "called spam",
		"revoked": "revoked",
		"votes":   "who has voted on what",
		"names":   "deliveries by sender, link and other names",

		// With share_votes_from, the spam and revoked arrays are the published ones.
		"listed":   "called spam, including what is not shared with peers",
		"unlisted": "revoked, including what is not shared with peers",
	}
	bits := map[string]bool{"unique": true, "spam": true, "revoked": true, "votes": true, "listed": true, "unlisted": true}
	out := web.Generation{Start: g.Start, End: g.End, Capacity: g.Capacity}
	for _, a := range g.Arrays {
		out.Arrays = append(out.Arrays, web.Array{
			Name: a.Name, Holds: holds[a.Name], Bytes: a.Bytes, Keys: a.Keys, Fill: a.Fill,
			Ghost: a.Ghost, Wrong: a.Wrong, Bulk: a.Bulk, Bits: bits[a.Name],
		})
	}
	return out
}
