package manage

import (
	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/calibration"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// Rules implements [api.Node].
func (s *State) Rules(days int) []admin.Rule {
	var records map[calibration.Key]calibration.Record
	if s.opts.Calibration != nil {
		records = s.opts.Calibration.Records(days)
	}
	step := s.opts.Engine.Step()
	var rules []admin.Rule
	for _, row := range verdict.Rules() {
		r := admin.Rule{Name: row.Name, Verdict: row.Verdict, When: row.When}
		if row.Verdict == bulkhead.ClassSpam.String() {
			r.LeastVotes = step.Least(verdict.Rule(row.Name))
		}
		var all calibration.Record
		for class := range bulkhead.Class(bulkhead.NumClasses) {
			if rec, ok := records[calibration.Key{Rule: row.Name, Class: class}]; ok {
				all.Add(rec)
				r.Classes = append(r.Classes, admin.RuleClass{Class: class.String(), Outcomes: outcomesOf(rec)})
			}
		}
		r.Outcomes = outcomesOf(all)
		rules = append(rules, r)
	}
	return rules
}

func outcomesOf(r calibration.Record) admin.Outcomes {
	o := admin.Outcomes{Decided: r.Decided, Objected: r.Objected, Confirmed: r.Confirmed, Missed: r.Missed}
	o.Wrong, o.WrongLow, o.WrongHigh = r.Wrong()
	return o
}
