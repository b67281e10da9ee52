package node

import (
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// Plan returns what a node with this configuration takes for a steady use. Books that are
// bounded by the machine's memory are planned without a bound.
func Plan(cfg *config.Config, use engine.Use) (engine.Plan, error) {
	tally, block := tallyOf(cfg), blocklistOf(cfg)
	tally.Memory, block.Memory = uint64(max(0, cfg.Tally.Memory)), uint64(max(0, cfg.Blocklist.Memory))
	return engine.PlanFor(engine.Options{Tally: tally, Block: block, Threshold: cfg.Tally.Threshold}, use)
}

// A SizeUse is what a node is to be sized for, and a SizePlan what it takes then, of which
// a BookPlan is the share of one book.
type (
	SizeUse  = engine.Use
	SizePlan = engine.Plan
	BookPlan = engine.BookPlan
)
