package node

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

// statusPage describes the server to the pages: [web.Source].
type statusPage struct{ node *Node }

// Status implements [web.Source].
func (p statusPage) Status(ctx context.Context) web.Status {
	state := p.node.State(ctx)
	c, now := state.Counters, clock.Now()
	p.node.noteSums()
	out := web.Status{
		Name: state.Name, Version: state.Version, Now: now, Started: state.Started,
		Mature: state.Mature, Durability: state.Durability, ReadOnly: state.ReadOnly, Threshold: state.Threshold,
		Accounts: state.Accounts,
		Counters: []web.Counter{{Name: "Checks", Value: c.Checks}, {Name: "Reports", Value: c.Reports},
			{Name: "Refused", Value: c.Refused}, {Name: "Snapshots", Value: c.Checkpoints}},
	}
	out.Day, out.Month = p.node.shownSlots(now, 24*6, logbook.ShortSlot), p.node.shownSlots(now, 30, 24*time.Hour)
	out.Held = state.Ageing
	out.Doubts, out.Missing = len(state.Doubts), state.Missing
	if state.Disk != nil {
		out.Free, out.Disk = state.Disk.Free, state.Disk.Total
	}
	if network, err := p.node.peers.Network(ctx); err == nil {
		out.Peers = network.Peers
	}
	serves := make(map[string]string)
	for _, d := range p.node.doors() {
		serves[d.key] = d.what
	}
	counts := p.node.doorCounts()
	for _, d := range state.Doors {
		shown := web.Door{Name: d.Name, Address: d.Address, Serves: serves[d.Name]}
		p.node.rates.set(&shown, now, counts[d.Name])
		out.Doors = append(out.Doors, shown)
	}
	books := map[string]web.Book{
		"tally":     {Name: "Tally", Question: "How often was it seen, called spam, called ham?"},
		"blocklist": {Name: "Blocklist", Question: "Has somebody trusted called it spam, and nobody revoked it?"},
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
		"listed":   "called spam, what peers are not told, too",
		"unlisted": "revoked, likewise",
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
