package node

import (
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// Sizes returns the sizes that a node with this configuration needs for steady use. Books that are
// bounded by the machine's memory are planned without a bound.
func Sizes(cfg *config.Config, of admin.SizeQuestion) (admin.Sizes, error) {
	tally, block := tallyOf(cfg), blocklistOf(cfg)
	tally.Memory, block.Memory = uint64(max(0, cfg.Tally.Memory)), uint64(max(0, cfg.Blocklist.Memory))
	if of.CountError != 0 {
		tally.Error = of.CountError
	}
	if of.ListError != 0 {
		block.Error = of.ListError
	}
	if of.TallyKeep != 0 {
		tally.Keep = of.TallyKeep
	}
	if of.BlocklistKeep != 0 {
		block.Keep = of.BlocklistKeep
	}
	use := engine.Use{Signatures: of.Signatures, Listed: of.Signatures / 100}
	if of.Listed != nil {
		use.Listed = *of.Listed
	}
	p, err := engine.PlanFor(engine.Options{Tally: tally, Block: block, Threshold: cfg.Tally.Threshold}, use)
	if err != nil {
		return admin.Sizes{}, err
	}
	sizes := admin.Sizes{
		Tally: bookSizes(p.Tally), Blocklist: bookSizes(p.Blocklist),
		Memory: p.Memory, Disk: p.Disk, Peer: admin.PeerSizes{Least: p.PeerLow, Most: p.PeerHigh},
	}
	sizes.Tally.CountsWrong, sizes.Tally.BulkWrong, sizes.Blocklist.Hidden = p.Tally.Wrong, p.Tally.Bulk,
		p.Blocklist.Hidden
	return sizes, nil
}

func bookSizes(b engine.BookPlan) admin.BookSizes {
	return admin.BookSizes{
		Generation: config.Duration(b.Generation).String(), Keep: b.Keep, Signatures: b.Signatures, Capacity: b.Capacity,
		Array: b.Array, All: b.All, Unseen: b.Unseen,
	}
}
