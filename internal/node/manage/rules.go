package manage

import (
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/calibration"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// Rules implements [api.Node].
func (s *State) Rules() []admin.Rule {
	records := map[string]calibration.Record{}
	if s.opts.Calibration != nil {
		records = s.opts.Calibration.Records()
	}
	var rules []admin.Rule
	for _, r := range verdict.Rules() {
		rec := records[r.Name]
		rules = append(rules, admin.Rule{Name: r.Name, Verdict: r.Verdict, When: r.When, Decided: rec.Decided,
			Objected: rec.Objected, Confirmed: rec.Confirmed, Missed: rec.Missed})
	}
	return rules
}
